//! YAML that people write, as values.

use super::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    parse(text, Locate::Items).into_iter().map(|document| document.expect("a document").value).collect()
}

#[test]
fn scalars_are_what_they_look_like() {
    let cases = [
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("+7", json!(7)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!("18446744073709551616")),
        ("0.1", json!(0.1)),
        (".5", json!(0.5)),
        ("1e3", json!(1000.0)),
        ("0.1234567890123456789", json!("0.1234567890123456789")),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("0644", json!("0644")),
        ("64Gi", json!("64Gi")),
        ("100m", json!("100m")),
        ("1.2.3", json!("1.2.3")),
        (".", json!(".")),
        ("-", json!([null])),
        ("e3", json!("e3")),
        ("inf", json!("inf")),
        ("true", json!(true)),
        ("n", json!("n")),
        ("yes", json!("yes")),
        ("'1'", json!("1")),
        ("\"true\"", json!("true")),
        ("!!str 1", json!("1")),
        ("!!int \"1\"", json!(1)),
        ("2026-01-02", json!("2026-01-02")),
    ];
    for (text, expected) in cases {
        assert_eq!(values(text), [expected], "{text}");
    }
}

#[test]
fn a_float_shows_as_it_was_written() {
    for text in ["0.1", "0.25", "1.5", "0.001", "123456.789012345"] {
        assert_eq!(values(text)[0].to_string(), text);
    }
}

#[test]
fn documents_have_lines_and_empty_ones_are_left_out() {
    let documents = parse("# a comment\n---\na: 1\n---\n---\n# nothing\n---\nb: 2\n", Locate::Items);
    assert_eq!(documents, [Ok(located(3, json!({"a": 1}))), Ok(located(8, json!({"b": 2})))]);
}

fn located(line: usize, value: Value) -> Located {
    Located { line, value, lines: Lines::new() }
}

#[test]
fn parts_have_lines_where_they_are_asked_for() {
    let text = "kind: List\nitems:\n- a: 1\n  items:\n  - c\n- b:\n    - x\n    - y: 2\n";
    let lines = |locate| {
        let lines = parse(text, locate)[0].clone().expect("a document").lines;
        lines.into_iter().map(|(path, line)| format!("{path} {line}")).collect::<Vec<_>>()
    };
    assert_eq!(lines(Locate::Items), ["items[0] 3", "items[1] 6"]);
    let all = lines(Locate::All);
    for expected in ["items 2", "items[0].items 4", "items[0].items[0] 5", "items[1].b 6", "items[1].b[1].y 8"] {
        assert!(all.contains(&expected.to_owned()), "{expected} in {all:?}");
    }
}

#[test]
fn documents_joined_without_a_separator_are_told_from_a_key_given_twice() {
    let joined = |text: &str| parse(text, Locate::Items)[0].clone().expect_err("twice").joined;
    assert!(joined("apiVersion: v1\nkind: Pod\napiVersion: v1\nkind: Pod\n"));
    assert!(!joined("apiVersion: v1\nmetadata: {name: a, name: b}\n"));
}

#[test]
fn a_broken_document_does_not_cost_the_next() {
    let documents = parse("a: 1\n---\nb: [1, 2\n---\nc: 3\n", Locate::Items);
    assert_eq!(documents.len(), 3, "{documents:?}");
    assert_eq!(documents[0], Ok(located(1, json!({"a": 1}))));
    assert!(documents[1].is_err());
    assert_eq!(documents[2], Ok(located(5, json!({"c": 3}))));
}

#[test]
fn a_key_twice_is_a_fault_with_its_place() {
    let fault = parse("a:\n  b: 1\n  b: 2\n", Locate::Items)[0].clone().expect_err("twice");
    assert_eq!(fault.position, Position { line: 3, column: 3 });
    assert!(fault.message.contains("\"b\""), "{}", fault.message);
}

#[test]
fn anchors_and_merges() {
    let text = "base: &b {x: 1, y: {z: 2}}\nother: {<<: *b, x: 3}\nlist: {<<: [*b, {w: 4}]}\nagain: *b\n";
    let expected = json!({
        "base": {"x": 1, "y": {"z": 2}},
        "other": {"x": 3, "y": {"z": 2}},
        "list": {"x": 1, "y": {"z": 2}, "w": 4},
        "again": {"x": 1, "y": {"z": 2}},
    });
    assert_eq!(values(text), [expected]);
}

#[test]
fn aliases_of_aliases_do_not_fill_the_memory() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..10 {
        let alias = format!("*a{}", i - 1);
        text.push_str(&format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(", ")));
    }
    let fault = parse(&text, Locate::Items)[0].clone().expect_err("too many");
    assert!(fault.message.contains("aliases"), "{}", fault.message);
}

#[test]
fn an_alias_within_its_own_value_is_a_fault() {
    assert!(parse("a: &a [*a]\n", Locate::Items)[0].is_err());
}
