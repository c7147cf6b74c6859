//! Points in time and durations, as objects write them.

use std::time::Duration;

use jiff::Timestamp;

/// Reads RFC 3339 (`2026-01-02T03:04:05.678Z`) as microseconds since the Unix epoch.
pub fn parse_timestamp(text: &str) -> Result<i64, String> {
    match text.parse::<Timestamp>() {
        Ok(timestamp) => Ok(timestamp.as_microsecond()),
        Err(_) => Err("expected a time such as 2026-01-02T03:04:05Z".to_string()),
    }
}

/// Writes microseconds since the Unix epoch as RFC 3339 in UTC; whole seconds without a fraction, as
/// object metadata has them. What no calendar holds becomes the nearest that it does.
pub fn format_timestamp(micros: i64) -> String {
    let nearest = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(micros).unwrap_or(nearest).to_string()
}

/// The units of a duration, in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// The most digits a number in a duration may have; enough for three centuries in nanoseconds.
const DIGITS_MAX: usize = 19;

/// Reads a duration such as `30s`, `1m30s`, `1h30m`, `500ms` or `1.5h`, as Go writes them. Not below 0.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration such as 30s, 5m or 1h30m".to_string();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || whole.len().max(fraction.len()) > DIGITS_MAX || fraction.contains('.') {
            return Err(wrong());
        }
        let digits = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u128>().map_err(|_| wrong()) };
        nanos += digits(whole)? * scale + digits(fraction)? * scale / 10_u128.pow(fraction.len() as u32);
        rest = after;
    }
    // Go counts nanoseconds in 63 bits; what is longer is no duration there either.
    match i64::try_from(nanos) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos.unsigned_abs())),
        Err(_) => Err("is longer than any duration can be (292 years)".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("2h", Some(7_200_000)),
            ("500ms", Some(500)),
            ("1.5h", Some(5_400_000)),
            (".5s", Some(500)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1m0.25s", Some(60_250)),
            ("", None),
            ("5", None),
            ("-5m", None),
            ("5 m", None),
            ("5min", None),
            ("1..5s", None),
            (".s", None),
            ("m", None),
            ("99999999999h", None),
            ("5d", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn timestamps() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:01.5Z", Some(1_500_000)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("2026-01-02T03:04:05.678901Z", Some(1_767_323_045_678_901)),
            ("2026-01-02", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_timestamp(text).ok(), micros, "{text}");
        }
    }

    #[test]
    fn timestamps_come_back() {
        for text in ["1970-01-01T00:00:00Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000001Z"] {
            assert_eq!(format_timestamp(parse_timestamp(text).expect("a time")), text);
        }
        assert_eq!(format_timestamp(i64::MAX), format_timestamp(i64::MAX - 1));
    }
}
