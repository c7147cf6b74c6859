//! Test results as JUnit XML, which CI systems show.

use std::fmt::Write;

/// One scenario's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub file: String,
    /// What failed, if something did: a headline and the whole story.
    pub failure: Option<(String, String)>,
    pub millis: u64,
}

/// The report as an XML document.
pub fn document(cases: &[Case]) -> String {
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let millis: u64 = cases.iter().map(|case| case.millis).sum();
    let counts = format!("tests=\"{}\" failures=\"{failed}\" errors=\"0\" time=\"{}\"", cases.len(), seconds(millis));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"quotient\" {counts}>\n"
    );
    for Case { name, file, failure, millis } in cases {
        let (name, file, time) = (escaped(name), escaped(file), seconds(*millis));
        let start = format!("    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" time=\"{time}\"");
        let written = match failure {
            None => writeln!(out, "{start}/>"),
            Some((headline, story)) => writeln!(
                out,
                "{start}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                escaped(headline),
                escaped(story)
            ),
        };
        written.expect("writing to a String does not fail");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// The text with what means something in XML spelt out, and without what XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_xml() {
        let good = Case { name: "a".into(), file: "a.yaml".into(), failure: None, millis: 5 };
        let bad = Case {
            name: "b <&> \"c\"".into(),
            failure: Some(("step 1".into(), "expected: x\u{7}\nfound: <none>".into())),
            millis: 1200,
            ..good.clone()
        };
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"2\" failures=\"1\" errors=\"0\" time=\"1.205\">
  <testsuite name=\"quotient\" tests=\"2\" failures=\"1\" errors=\"0\" time=\"1.205\">
    <testcase name=\"a\" classname=\"a.yaml\" file=\"a.yaml\" time=\"0.005\"/>
    <testcase name=\"b &lt;&amp;&gt; &quot;c&quot;\" classname=\"a.yaml\" file=\"a.yaml\" time=\"1.200\">
      <failure message=\"step 1\">expected: x\u{fffd}\nfound: &lt;none&gt;</failure>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(document(&[good, bad]), expected);
    }
}
