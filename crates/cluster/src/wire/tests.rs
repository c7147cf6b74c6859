//! What goes out comes back, and what is spoilt is an error.

use serde_json::{Value, json};

use super::*;

fn event() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "a", "labels": {"x": "1", "y": ""}},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "a", "name": "p", "uid": "u"},
        "type": "Normal", "reason": "Scheduled", "message": "bound — gut", "count": 300,
        "firstTimestamp": "2026-01-02T03:04:05Z", "eventTime": "2026-01-02T03:04:05.000006Z",
        "source": {"component": "quotient"}, "reportingComponent": "quotient", "reportingInstance": "",
    })
}

/// Without what it is, which the content does not say.
fn content(mut object: Value) -> Value {
    let fields = object.as_object_mut().expect("it is an object");
    fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    object
}

#[test]
fn what_goes_out_comes_back() {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "annotations": {"quotient.dev/bound-as": "{}"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    });
    for object in [binding, event()] {
        let bytes = encode(&object).expect("the layout has all of it");
        let kind = object["kind"].as_str().expect("it has one");
        let plan = Plan::of(kind, &[]).expect("the layout has it");
        assert_eq!(plan.read(&bytes), Ok(content(object)));
    }
}

#[test]
fn what_the_layout_does_not_have_goes_as_text() {
    let mut unknown = event();
    unknown["newer"] = json!(1);
    let mut other = event();
    other["count"] = json!("many");
    let mut of_a_group = event();
    of_a_group["apiVersion"] = json!("events.k8s.io/v1");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    for object in [unknown, other, of_a_group, secret, json!({}), json!(1)] {
        assert_eq!(encode(&object), None, "{object}");
    }
    let mut missing = event();
    missing["involvedObject"]["namespace"] = Value::Null;
    assert!(encode(&missing).is_some(), "nothing is nothing in both");
}

#[test]
fn all_that_is_read_is_in_the_layout() {
    for kind in ["Pod", "Node", "ListMeta", "Status"] {
        assert!(Plan::of(kind, &[]).is_some(), "{kind}");
    }
    assert!(Plan::of("Secret", &[]).is_none());
}

#[test]
fn what_breaks_off_or_is_spoilt_is_an_error_and_nothing_worse() {
    let whole = encode(&event()).expect("the layout has all of it");
    let plan = Plan::of("Event", &[]).expect("the layout has it");
    for end in 0..whole.len() {
        let _ = plan.read(&whole[..end]);
        for bit in 0..8 {
            let mut spoilt = whole.clone();
            spoilt[end] ^= 1 << bit;
            let _ = plan.read(&spoilt);
        }
    }
    assert!(plan.read(&whole[..whole.len() - 1]).is_err());
    assert!(plan.read(b"{\"kind\": \"Event\"}").is_err());
}

#[test]
fn a_frame_is_whole_or_there_is_more_to_come() {
    let bytes = [0, 0, 0, 2, 7, 8, 0, 0, 0, 1];
    assert_eq!(frame(&bytes), Ok(Some((&[7, 8][..], 6))));
    assert_eq!(frame(&bytes[6..]), Ok(None));
    assert_eq!(frame(&bytes[..3]), Ok(None));
    assert!(frame(b"{\"type\": \"ADDED\"}\n").is_err(), "text is no frame");
}

#[test]
fn numbers_below_zero_and_times_before_the_epoch_come_back() {
    let mut early = event();
    early["count"] = json!(-3);
    early["firstTimestamp"] = json!("1969-12-31T23:59:59Z");
    let bytes = encode(&early).expect("the layout has all of it");
    assert_eq!(Plan::of("Event", &[]).expect("the layout has it").read(&bytes), Ok(content(early)));
}
