//! Results of scenarios as JUnit XML, which CI systems show: a suite for each scenario, a case for each step.

use std::fmt::Write;

use crate::run::{ScenarioResult, StepResult};

/// The results as one XML document.
pub fn junit(results: &[ScenarioResult]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests: usize = results.iter().map(cases).sum();
    let failures: usize = results.iter().map(failed).sum();
    let errors = results.iter().filter(|result| has_error(result)).count();
    write_line(&mut xml, 0, &format!("<testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"));
    for result in results {
        write_suite(&mut xml, result);
    }
    write_line(&mut xml, 0, "</testsuites>");
    xml
}

/// A scenario that could not go on has a case for that; one that need not come as expected has one case.
fn cases(result: &ScenarioResult) -> usize {
    match result.exception {
        Some(_) => 1,
        None => result.steps.len() + usize::from(has_error(result)),
    }
}

fn has_error(result: &ScenarioResult) -> bool {
    result.error.is_some() && result.exception.is_none()
}

fn failed(result: &ScenarioResult) -> usize {
    let of_steps = result.steps.iter().filter(|step| !step.passed()).count();
    if result.exception.is_some() { 0 } else { of_steps }
}

fn write_suite(xml: &mut String, result: &ScenarioResult) {
    let ScenarioResult { name, file, steps, error, exception } = result;
    let (name, file) = (escaped(name), escaped(file));
    let (tests, failures, errors) = (cases(result), failed(result), usize::from(has_error(result)));
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    write_line(xml, 1, &format!("<testsuite name=\"{name}\" file=\"{file}\" {counts}>"));
    if let Some(reason) = exception {
        write_line(xml, 2, &format!("<testcase classname=\"{name}\" name=\"exception\">"));
        write_line(xml, 3, &format!("<skipped message=\"{}\"/>", escaped(reason)));
        write_line(xml, 2, "</testcase>");
        return write_line(xml, 1, "</testsuite>");
    }
    for step in steps {
        write_case(xml, &name, step);
    }
    if let Some(error) = error {
        write_line(xml, 2, &format!("<testcase classname=\"{name}\" name=\"run\">"));
        write_line(xml, 3, &format!("<error message=\"{}\"/>", escaped(error)));
        write_line(xml, 2, "</testcase>");
    }
    write_line(xml, 1, "</testsuite>");
}

fn write_case(xml: &mut String, suite: &str, step: &StepResult) {
    let StepResult { name, failures, notes } = step;
    let open = format!("<testcase classname=\"{suite}\" name=\"{}\"", escaped(name));
    if failures.is_empty() && notes.is_empty() {
        return write_line(xml, 2, &format!("{open}/>"));
    }
    write_line(xml, 2, &format!("{open}>"));
    if let Some(first) = failures.first() {
        let all: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let (message, text) = (escaped(&first.to_string()), escaped(&all.join("\n")));
        write_line(xml, 3, &format!("<failure message=\"{message}\">{text}</failure>"));
    }
    if !notes.is_empty() {
        write_line(xml, 3, &format!("<system-out>{}</system-out>", escaped(&notes.join("\n"))));
    }
    write_line(xml, 2, "</testcase>");
}

fn write_line(xml: &mut String, depth: usize, line: &str) {
    writeln!(xml, "{}{line}", "  ".repeat(depth)).expect("writing to a string cannot fail");
}

/// Text as XML has it. Characters that XML cannot hold at all are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Failure;

    #[test]
    fn every_step_is_a_case() {
        let failure = Failure {
            expectation: "bound a/p".to_string(),
            expected: "it on <n>".to_string(),
            found: "it waits with NoFittingNode".to_string(),
            reason: Some("0 of 1 nodes & none\u{1}".to_string()),
        };
        let step = |name: &str, failures| StepResult { name: name.to_string(), failures, notes: Vec::new() };
        let result = ScenarioResult {
            name: "s".to_string(),
            file: "s.yaml".to_string(),
            steps: vec![step("one", Vec::new()), step("two", vec![failure])],
            error: Some("stuck".to_string()),
            exception: None,
        };
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"3\" failures=\"1\" errors=\"1\">
  <testsuite name=\"s\" file=\"s.yaml\" tests=\"3\" failures=\"1\" errors=\"1\">
    <testcase classname=\"s\" name=\"one\"/>
    <testcase classname=\"s\" name=\"two\">
      <failure message=\"bound a/p: expected it on &lt;n&gt;, found it waits with NoFittingNode (0 of 1 nodes &amp; none)\">bound a/p: expected it on &lt;n&gt;, found it waits with NoFittingNode (0 of 1 nodes &amp; none)</failure>
    </testcase>
    <testcase classname=\"s\" name=\"run\">
      <error message=\"stuck\"/>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(junit(&[result.clone()]), expected);
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"1\" failures=\"0\" errors=\"0\">
  <testsuite name=\"s\" file=\"s.yaml\" tests=\"1\" failures=\"0\" errors=\"0\">
    <testcase classname=\"s\" name=\"exception\">
      <skipped message=\"kwok &amp; co\"/>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(junit(&[result.excepted("kwok & co")]), expected);
    }

    #[test]
    fn an_exception_that_passes_fails() {
        let result = ScenarioResult {
            name: "s".to_string(),
            file: "s.yaml".to_string(),
            steps: Vec::new(),
            error: None,
            exception: None,
        };
        let excepted = result.excepted("it cannot");
        assert!(excepted.failed() && excepted.exception.is_none());
        assert_eq!(excepted.steps[0].failures[0].found, "it passes: take it off the list");
    }
}
