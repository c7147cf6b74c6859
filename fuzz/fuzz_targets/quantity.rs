//! Any text is read as a quantity or refused, and what is printed reads the same.
//!
//! Run: `RUSTC_BOOTSTRAP=1 cargo fuzz run quantity --sanitizer none -- -max_len=128 -max_total_time=300`
#![no_main]

use libfuzzer_sys::fuzz_target;
use quotient_engine::quantity::{Format, Quantity, canonical};

fuzz_target!(|text: &str| {
    let read = match text.parse::<Quantity>() {
        Ok(read) => read,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.len() < 2048, "a message is one line: {message}");
            return;
        }
    };
    for format in [read.format(), Format::DecimalSI, Format::BinarySI, Format::DecimalExponent] {
        let printed = read.with_format(format).to_string();
        let again: Quantity = printed.parse().expect("what is printed can be read");
        assert_eq!(again, read);
        assert_eq!(again.with_format(format).to_string(), printed);
    }
    for resource in ["cpu", "memory", "pods"] {
        match read.amount(resource) {
            // An amount is what was asked for, or rounded away from zero by less than one.
            Ok(amount) => {
                let counted: Quantity = canonical(resource, amount.into()).parse().expect("an amount can be read");
                assert!(if read.is_negative() { counted <= read } else { counted >= read });
                assert_eq!(counted == read, read.is_amount(resource, amount.into()));
                let less = i128::from(amount) - i128::from(amount.signum());
                let less: Quantity = canonical(resource, less).parse().expect("an amount can be read");
                assert!(if read.is_negative() { less > read } else { less < read || read.is_zero() });
            }
            Err(error) => assert!(error.to_string().contains(&read.to_string())),
        }
    }
});
