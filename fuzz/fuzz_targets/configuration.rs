//! Any text is read as a configuration, or rejected with problems of one line each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quotient_api::{Configuration, read};

fuzz_target!(|text: &str| {
    let (values, problems) = read::parse("fuzz", text);
    for problem in problems {
        assert!(!problem.to_string().contains('\n'), "{problem}");
    }
    for (_, value) in values {
        match Configuration::from_value(&value) {
            Ok(configuration) => drop((configuration.engine_settings(), configuration.translator_settings(None))),
            Err(problems) => {
                assert!(!problems.is_empty(), "what is rejected has a reason");
                problems.iter().for_each(|problem| assert!(!problem.to_string().contains('\n'), "{problem}"));
            }
        }
    }
});
