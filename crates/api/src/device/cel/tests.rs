//! Expressions as drivers and users write them, against what the API server makes of them.

use super::super::slice::{Capacity, Device};
use super::*;

fn device() -> Device {
    let text = |text: &str| Field::Text(text.into());
    let attributes = vec![
        ("gpu.example.com".into(), "model".into(), text("a100")),
        ("gpu.example.com".into(), "numa".into(), Field::Int(1)),
        ("gpu.example.com".into(), "healthy".into(), Field::Bool(true)),
        ("gpu.example.com".into(), "firmware".into(), Field::Version("1.10.0-rc.2".into())),
        ("resource.kubernetes.io".into(), "pcieRoot".into(), text("pci0000:00")),
    ];
    let gib = 1i128 << 30;
    let capacity = Capacity {
        domain: "gpu.example.com".into(),
        name: "memory".into(),
        written: "memory".into(),
        value: 80 * gib * 1_000_000_000,
        format: quotient_engine::quantity::Format::BinarySI,
        policy: Default::default(),
    };
    Device { attributes, capacity: vec![capacity], shared: true, ..Device::named("gpu-0") }
}

/// `yes`, `no`, or a part of the error.
fn check(expression: &str, expected: &str) {
    let verdict = judge(&Subject::new(&"gpu.example.com".into(), &device()), [Selector::new(expression)].iter());
    let text = match &verdict {
        Verdict::Yes => "yes".to_string(),
        Verdict::No => "no".to_string(),
        Verdict::Error(message) => message.to_string(),
    };
    let as_expected = match expected {
        "yes" | "no" => text == expected,
        part => matches!(verdict, Verdict::Error(_)) && text.to_lowercase().contains(&part.to_lowercase()),
    };
    assert!(as_expected, "{expression}: expected {expected}, got {text}");
}

#[test]
fn attributes_and_capacities() {
    check("device.driver == 'gpu.example.com'", "yes");
    check("device.driver.startsWith('gpu.')", "yes");
    check("device.attributes['gpu.example.com'].model == 'a100'", "yes");
    check("device.attributes['gpu.example.com'].model in ['h100', 'a100']", "yes");
    check("device.attributes['gpu.example.com'].numa == 1 && device.attributes['gpu.example.com'].healthy", "yes");
    check("device.attributes['gpu.example.com'].numa >= 2", "no");
    check("device.attributes['resource.kubernetes.io'].pcieRoot.matches('^pci0000:.*')", "yes");
    check("device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0", "yes");
    check("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('80Gi'))", "no");
    check("device.capacity['gpu.example.com'].memory == quantity('81920Mi')", "yes");
    check("device.capacity['gpu.example.com'].memory.sub(quantity('1Gi')).isLessThan(quantity('80Gi'))", "yes");
    check("device.capacity['gpu.example.com'].memory.asInteger() == 85899345920", "yes");
    check("device.allowMultipleAllocations", "yes");
}

#[test]
fn versions() {
    check("device.attributes['gpu.example.com'].firmware.isLessThan(semver('1.10.0'))", "yes");
    check("device.attributes['gpu.example.com'].firmware.isGreaterThan(semver('1.9.0'))", "yes");
    check("device.attributes['gpu.example.com'].firmware.minor() == 10", "yes");
    check("semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.11'))", "yes");
    check("semver('v1.2', true) == semver('1.2.0')", "yes");
    check("isSemver('v1.2')", "no");
    check("semver('one')", "expected a version");
}

#[test]
fn what_is_missing() {
    check("has(device.attributes['gpu.example.com'].serial)", "no");
    check("device.attributes['gpu.example.com'].serial == 'x'", "no such key: serial");
    // A domain that the device lacks is empty.
    check("has(device.attributes['other.example.com'].model)", "no");
    check("device.attributes['other.example.com'].model == 'x'", "no such key: model");
    check("'other.example.com' in device.attributes", "no");
    check("'gpu.example.com' in device.attributes", "yes");
    check("device.attributes['other.example.com'].?model.orValue('none') == 'none'", "yes");
    check("device.attributes['gpu.example.com'].?model.orValue('none') == 'a100'", "yes");
    // What decides comes first.
    check("true || device.attributes['gpu.example.com'].serial == 'x'", "yes");
    check("device.attributes['gpu.example.com'].serial == 'x' || true", "yes");
}

#[test]
fn names_for_parts() {
    check("cel.bind(gpu, device.attributes['gpu.example.com'], gpu.model == 'a100' && gpu.numa == 1)", "yes");
    check("cel.bind(none, device.attributes['none'], has(none.x))", "no");
    check("['h100', 'a100'].exists(model, device.attributes['gpu.example.com'].model == model)", "yes");
    check("device.attributes['gpu.example.com'].model.lowerAscii() == 'a100'", "yes");
    check("device.attributes['gpu.example.com'].model.find('[0-9]+') == '100'", "yes");
}

#[test]
fn what_does_not_compile() {
    check("device.driver ==", "");
    check("device.attribute['x'].y == 1", "undefined field");
    check("gpu.model == 'x'", "undeclared reference");
    check("device.driver", "expected true or false");
    check(&format!("'{}' == ''", "x".repeat(crate::limits::CEL_BYTES_MAX)), "expected at most 10240");
}

#[test]
fn what_would_take_too_long() {
    let list: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let list = list.join(",");
    check(&format!("cel.bind(l, [{list}], l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0)))))"), "may cost");
    let mut doubled = "size(s19) > 0".to_string();
    for i in (0..19).rev() {
        doubled = format!("cel.bind(s{}, s{i} + s{i}, {doubled})", i + 1);
    }
    check(&format!("cel.bind(s0, device.driver + '.', {doubled})"), "may cost");
    check("device.attributes.all(a, device.attributes.all(b, a != '' && b != ''))", "yes");
}
