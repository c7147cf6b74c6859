//! Quantities against Kubernetes' own: `quantity-vectors/` holds what its library answers for
//! thousands of texts and amounts. Where Quotient answers otherwise, it is one of [`Difference`].

use crate::cases;

use std::collections::BTreeMap;

use cases::cases;
use proptest::prelude::*;
use quotient_engine::quantity::{Format, Quantity, QuantityError, canonical};

/// A class of quantities for which Quotient and Kubernetes differ on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// Kubernetes prints some texts as they were written (`007`, `+5`, `1.500`, `1E3`), because a quick
    /// check takes them for canonical. Quotient always prints the canonical form, so that equal
    /// values of one format are one text.
    KeepsSpelling,
    /// Kubernetes prints `1000E` as `1`: it drops a suffix it has no letter for. Quotient stays at `E`.
    DropsSuffix,
    /// Kubernetes turns binary quantities beyond 64 bits into 2^63 - 1. Quotient keeps what was
    /// written, and says that it is out of range when it is counted.
    Caps,
    /// Kubernetes reads numbers of any size, and then counts them as 0 or as their low bits. Quotient
    /// refuses those of more than 127 bits of billionths, which no amount can hold by ten digits.
    AnySize,
    /// Kubernetes takes the low 32 bits of an exponent, so that `1e4294967297` is 10, and works for
    /// minutes on others. Quotient takes the exponent as it stands.
    WrapsExponent,
    /// Kubernetes answers 0 or the low bits for a value that 64 bits cannot hold. Quotient answers
    /// with an error.
    WrapsValue,
    /// Kubernetes counts some negative quantities wrongly (`-1n` as 1, `-5.Pi` as 4035225267).
    /// Quotient rounds away from zero, as Kubernetes' documentation has it.
    MiscountsNegative,
}

/// How many texts of `parsed.tsv` differ, by class: a class that nothing shows is a class to drop.
const DIFFERENCES: [(Difference, usize); 7] = [
    (Difference::KeepsSpelling, 504),
    (Difference::DropsSuffix, 11),
    (Difference::Caps, 217),
    (Difference::AnySize, 215),
    (Difference::WrapsExponent, 10),
    (Difference::WrapsValue, 793),
    (Difference::MiscountsNegative, 291),
];

#[test]
fn reads_and_prints_as_kubernetes_does() {
    let mut differences = BTreeMap::new();
    let mut refused = 0;
    let lines = include_str!("quantity-vectors/parsed.tsv").lines();
    for line in lines.clone() {
        let (text, answer) = line.split_once('\t').expect("a text and an answer");
        let text = unescape(text);
        if answer == "!" {
            refused += 1;
            assert!(text.parse::<Quantity>().is_err(), "{text:?} is refused by Kubernetes");
            continue;
        }
        for difference in compare(&text, &Answer::read(answer)) {
            *differences.entry(difference).or_insert(0) += 1;
        }
    }
    assert!(lines.count() > 5000 && refused > 500, "vectors are missing");
    assert_eq!(differences.into_iter().collect::<Vec<_>>(), DIFFERENCES);
}

/// What Kubernetes makes of a text that it can read; the columns are described in `main.go`.
struct Answer<'a> {
    format: Format,
    sign: i32,
    canonical: &'a str,
    /// What `String()` says, where that is something else.
    spelt: String,
    /// Exact, `None` beyond 64 bits.
    value: Option<i64>,
    milli: Option<i64>,
    /// Whether `Value()` or `MilliValue()` says something else.
    miscounted: bool,
}

impl<'a> Answer<'a> {
    fn read(columns: &'a str) -> Self {
        let mut columns = columns.split('\t');
        let mut next = || columns.next().unwrap_or("");
        let (format, sign) = next().split_at(1);
        let number = |text: &str| (text != "x").then(|| text.parse().expect("a number"));
        Answer {
            format: match format {
                "D" => Format::DecimalSI,
                "B" => Format::BinarySI,
                "E" => Format::DecimalExponent,
                other => panic!("{other:?} is no format"),
            },
            sign: match sign {
                "-" => -1,
                "0" => 0,
                "+" => 1,
                other => panic!("{other:?} is no sign"),
            },
            canonical: next(),
            spelt: unescape(next()),
            value: number(next()),
            milli: number(next()),
            miscounted: !(next().is_empty() && next().is_empty()),
        }
    }
}

/// Compares what is read from `text` with Kubernetes' answer, and says in what they differ on purpose.
fn compare(text: &str, theirs: &Answer<'_>) -> Vec<Difference> {
    let ours = match text.parse::<Quantity>() {
        Ok(ours) => ours,
        Err(QuantityError::TooLarge { .. }) if exponent_wraps(text) => return vec![Difference::WrapsExponent],
        Err(QuantityError::TooLarge { .. }) => {
            let large = match theirs.format {
                Format::BinarySI => is_large_binary(text),
                _ => whole_digits(theirs.canonical) >= 30,
            };
            assert!(large, "{text} is not too large");
            return vec![Difference::AnySize];
        }
        Err(error) => panic!("{text:?} is read by Kubernetes: {error}"),
    };
    assert_eq!(ours.format(), theirs.format, "format of {text:?}");
    assert_eq!(i32::from(!ours.is_zero()) - 2 * i32::from(ours.is_negative()), theirs.sign, "sign of {text:?}");
    let mut differences = Vec::new();

    if exponent_wraps(text) && !ours.is_zero() {
        assert_eq!(ours.to_string().trim_start_matches('-'), "1e-9", "{text:?}, rounded up from next to nothing");
        return vec![Difference::WrapsExponent];
    }
    if theirs.format == Format::BinarySI
        && theirs.canonical.trim_start_matches('-') == i64::MAX.to_string()
        && theirs.canonical != ours.to_string()
    {
        let cap = quantity(theirs.canonical);
        assert!(if ours.is_negative() { ours < cap } else { ours > cap }, "{text:?} is not beyond 64 bits");
        return vec![Difference::Caps];
    }

    let mut expected = theirs.canonical.to_owned();
    if theirs.format == Format::DecimalSI
        && let Some((number, exponent)) = theirs.canonical.split_once('e')
    {
        differences.push(Difference::DropsSuffix);
        expected = format!("{number}{}E", "0".repeat(exponent.parse::<usize>().expect("an exponent") - 18));
    }
    assert_eq!(ours.to_string(), expected, "canonical form of {text:?}");
    if !theirs.spelt.is_empty() && !differences.contains(&Difference::DropsSuffix) {
        assert_eq!(theirs.spelt, text);
        differences.push(Difference::KeepsSpelling);
    }

    assert_eq!(ours.value().ok(), theirs.value, "value of {text:?}");
    assert_eq!(ours.milli_value().ok(), theirs.milli, "milli value of {text:?}");
    assert_eq!(ours.amount("cpu"), ours.milli_value());
    assert_eq!(ours.amount("memory"), ours.value());
    if theirs.value.is_none() || theirs.milli.is_none() {
        differences.push(Difference::WrapsValue);
    }
    if theirs.miscounted {
        assert!(ours.is_negative(), "{text:?} is counted otherwise by Kubernetes");
        differences.push(Difference::MiscountsNegative);
    }
    differences
}

/// Whether the exponent in `text` is beyond 32 bits.
fn exponent_wraps(text: &str) -> bool {
    let exponent = text.split_once(['e', 'E']).and_then(|(_, exponent)| exponent.parse::<i64>().ok());
    exponent.is_some_and(|exponent| i32::try_from(exponent).is_err())
}

/// How many digits the whole part of a canonical form has, with its suffix multiplied out.
fn whole_digits(canonical: &str) -> i64 {
    let canonical = canonical.trim_start_matches('-');
    let end = canonical.find(|c: char| !c.is_ascii_digit()).unwrap_or(canonical.len());
    let (number, suffix) = canonical.split_at(end);
    let exponent = match suffix.strip_prefix('e') {
        Some(exponent) => exponent.parse().expect("an exponent"),
        None => {
            3 * (["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|s| *s == suffix).expect("a suffix")
                as i64
                - 3)
        }
    };
    number.len() as i64 + exponent
}

/// Whether the whole part of a binary quantity has 30 digits, multiplied out. Kubernetes' answer does not
/// tell, since it is capped.
fn is_large_binary(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-']);
    let whole = &text[..text.find(|c: char| !c.is_ascii_digit()).expect("a suffix")];
    let unit = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|unit| text.ends_with(unit)).expect("a suffix");
    let product = whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(1024u128.pow(unit as u32 + 1)));
    product.is_none_or(|product| product >= 10u128.pow(29))
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Undoes the `%XX` of the vectors.
fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("vectors are UTF-8")
}

#[test]
fn prints_amounts_as_kubernetes_does() {
    let lines = include_str!("quantity-vectors/amounts.tsv").lines();
    assert!(lines.clone().count() > 1000, "vectors are missing");
    for line in lines {
        let columns: Vec<_> = line.split('\t').collect();
        let [resource, amount, expected] = columns[..] else { panic!("{line:?} has not three columns") };
        let amount: i128 = amount.parse().expect("an amount");
        assert_eq!(canonical(resource, amount), expected, "{amount} of {resource}");
    }
}

#[test]
fn amounts_are_counted_and_shown_by_resource() {
    // (resource, text, amount, canonical)
    let cases = [
        ("cpu", "1500m", 1500, "1500m"),
        ("cpu", "2", 2000, "2"),
        ("cpu", "0.1m", 1, "1m"),
        ("cpu", "-0.1m", -1, "-1m"),
        ("cpu", "2k", 2_000_000, "2k"),
        ("memory", "1.5Gi", 1_610_612_736, "1536Mi"),
        ("memory", "128974848", 128_974_848, "123Mi"),
        ("memory", "129M", 129_000_000, "129000000"),
        ("memory", "100m", 1, "1"),
        ("memory", "1000", 1000, "1k"),
        ("memory", "1Ei", 1 << 60, "1Ei"),
        ("ephemeral-storage", "1Ti", 1 << 40, "1Ti"),
        ("storage", "10Gi", 10 << 30, "10Gi"),
        ("hugepages-2Mi", "64Mi", 64 << 20, "64Mi"),
        ("nvidia.com/gpu", "12", 12, "12"),
        ("nvidia.com/gpu", "1024", 1024, "1024"),
        ("example.com/tokens", "1000", 1000, "1k"),
        ("pods", "110", 110, "110"),
    ];
    for (resource, text, amount, shown) in cases {
        assert_eq!(quantity(text).amount(resource), Ok(amount), "{text} of {resource}");
        assert_eq!(canonical(resource, amount.into()), shown, "{amount} of {resource}");
    }
}

#[test]
fn amounts_compare_by_value() {
    assert!(quantity("2").is_amount("cpu", 2000));
    assert!(quantity("2000m").is_amount("cpu", 2000));
    assert!(quantity("1024Mi").is_amount("memory", 1 << 30));
    assert!(quantity("0").is_amount("memory", 0));
    assert!(!quantity("2").is_amount("memory", 2000));
    assert!(!quantity("1999500u").is_amount("cpu", 2000), "rounding up is no equality");
    assert!(!quantity("1").is_amount("cpu", i128::MAX), "beyond any quantity");
    assert_eq!(quantity("1024Mi").with_format(Format::of("cpu")).to_string(), "1073741824");
    assert_eq!(quantity("1073741824").with_format(Format::of("memory")).to_string(), "1Gi");
}

#[test]
fn sums_beyond_64_bits_are_shown_in_full() {
    let cases = [
        ("cpu", i128::MAX, "170141183460469231731687303715884105727m"),
        ("memory", i128::MIN, "-147573952589676412928Ei"),
        ("memory", 1 << 70, "1024Ei"),
        ("pods", 10i128.pow(38), "100000000000000000000E"),
    ];
    for (resource, amount, shown) in cases {
        assert_eq!(canonical(resource, amount), shown);
    }
}

#[test]
fn messages_name_the_value_and_what_was_expected() {
    let expected = "expected a number with an optional suffix \
        (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent)";
    let unreadable = [
        ("1.5GB", format!("1.5GB: \"GB\" is not a unit of quantities; {expected}")),
        ("1 Gi", format!("1 Gi: \" Gi\" is not a unit of quantities; {expected}")),
        ("1e", format!("1e: \"e\" is not a unit of quantities; {expected}")),
        ("2\n", format!("2\\n: \"\\n\" is not a unit of quantities; {expected}")),
        ("", format!("\"\" is not a number; {expected}")),
        ("lots", format!("\"lots\" is not a number; {expected}")),
        ("1e99", "1e99: too large; expected no more than 1.7e29".to_owned()),
    ];
    for (text, message) in unreadable {
        assert_eq!(text.parse::<Quantity>().map_err(|error| error.to_string()), Err(message));
    }
    let largest = "170141183460469231731687303715.884105727";
    assert_eq!(quantity(largest).to_string(), "170141183460469231731687303715884105727n");
    assert_eq!(quantity(&format!("-{largest}")).to_string(), "-170141183460469231731687303715884105727n");
    let endless = "x".repeat(100_000).parse::<Quantity>().expect_err("no number").to_string();
    assert!(endless.len() < 300, "a message has an end");

    let uncountable = [
        ("8Ei", "memory", "8Ei: out of range; expected between -9223372036854775808 and 9223372036854775807"),
        ("-9.3E", "pods", "-9300P: out of range; expected between -9223372036854775808 and 9223372036854775807"),
        ("10P", "cpu", "10P: out of range; expected between -9223372036854775808m and 9223372036854775807m"),
    ];
    for (text, resource, message) in uncountable {
        let error = quantity(text).amount(resource).expect_err("does not fit");
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(quantity("-8Ei").value(), Ok(i64::MIN));
}

/// A number with three digits after the point, and a suffix: the text, and its exact value in
/// trillionths (thousandths of the finest step), which 128 bits hold.
fn exact() -> impl Strategy<Value = (String, i128)> {
    let suffixes = [
        ("n", 1_000),
        ("u", 1_000_000),
        ("m", 1_000_000_000),
        ("", 10i128.pow(12)),
        ("k", 10i128.pow(15)),
        ("M", 10i128.pow(18)),
        ("G", 10i128.pow(21)),
        ("E", 10i128.pow(30)),
        ("e-10", 100),
        ("e1", 10i128.pow(13)),
        ("E+5", 10i128.pow(17)),
        ("Ki", 10i128.pow(12) << 10),
        ("Mi", 10i128.pow(12) << 20),
        ("Gi", 10i128.pow(12) << 30),
        ("Ei", 10i128.pow(12) << 60),
    ];
    let thousandths = prop_oneof![-5_000i128..5_000, -2_000_000i128..2_000_000];
    (thousandths, prop::sample::select(suffixes.to_vec())).prop_map(|(thousandths, (suffix, trillionths))| {
        let sign = if thousandths < 0 { "-" } else { "" };
        let (whole, fraction) = (thousandths.abs() / 1000, thousandths.abs() % 1000);
        (format!("{sign}{whole}.{fraction:03}{suffix}"), thousandths * trillionths / 1000)
    })
}

/// `number / unit`, rounded away from zero.
fn divide_up(number: i128, unit: i128) -> i128 {
    number / unit + (number % unit).signum()
}

/// Texts that are quantities, or nearly.
fn near_quantity() -> &'static str {
    "[+-]?[0-9]{0,40}\\.?[0-9]{0,40}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,20}|[a-zA-Z%]{0,3})?"
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn what_is_printed_reads_the_same(text in near_quantity()) {
        if let Ok(read) = text.parse::<Quantity>() {
            let printed = read.to_string();
            let again = quantity(&printed);
            prop_assert_eq!(again, read);
            prop_assert_eq!(again.to_string(), printed, "printing is a fixed point");
            for format in [Format::DecimalSI, Format::BinarySI, Format::DecimalExponent] {
                prop_assert_eq!(quantity(&read.with_format(format).to_string()), read);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Err(error) = text.parse::<Quantity>() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn order_is_that_of_exact_values((left, left_exact) in exact(), (right, right_exact) in exact()) {
        let order = divide_up(left_exact, 1000).cmp(&divide_up(right_exact, 1000));
        prop_assert_eq!(quantity(&left).cmp(&quantity(&right)), order);
        prop_assert_eq!(quantity(&left) == quantity(&right), order.is_eq());
    }

    #[test]
    fn counting_rounds_away_from_zero((text, exact) in exact()) {
        let nanos = divide_up(exact, 1000);
        prop_assert_eq!(quantity(&text).value().ok(), i64::try_from(divide_up(nanos, 1_000_000_000)).ok());
        prop_assert_eq!(quantity(&text).milli_value().ok(), i64::try_from(divide_up(nanos, 1_000_000)).ok());
    }

    #[test]
    fn amounts_survive_printing(amount in any::<i64>(), resource in prop::sample::select(vec!["cpu", "memory", "pods"])) {
        let shown = quantity(&canonical(resource, amount.into()));
        prop_assert_eq!(shown.amount(resource), Ok(amount));
        prop_assert!(shown.is_amount(resource, amount.into()));
    }

    #[test]
    fn any_amount_is_shown(amount in any::<i128>(), resource in prop::sample::select(vec!["cpu", "memory", "pods"])) {
        prop_assert_eq!(canonical(resource, amount).starts_with('-'), amount < 0);
    }
}
