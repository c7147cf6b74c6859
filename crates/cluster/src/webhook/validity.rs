//! When a certificate is valid, which is all that is read of one here: a few steps through its DER.

use quotient_api::time;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::authority::Term;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// One value: its tag, what is in it, and what follows it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // Longer ones say in how many bytes their length follows; no certificate needs more than three.
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, after) = rest.split_at_checked(length)?;
    Some((*tag, inside, after))
}

/// What is in a sequence, and what follows it.
fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    value(bytes).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, inside, after)| (inside, after))
}

/// Seconds since the Unix epoch, and what follows.
fn instant(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, text, after) = value(bytes)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let full = match tag {
        // Years have two digits until 2049.
        UTC_TIME if text.len() == 12 => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME if text.len() == 14 => text.to_string(),
        _ => return None,
    };
    let part = |range: std::ops::Range<usize>| full.get(range);
    let (date, clock) = ((part(0..4)?, part(4..6)?, part(6..8)?), (part(8..10)?, part(10..12)?, part(12..14)?));
    let stamp = format!("{}-{}-{}T{}:{}:{}Z", date.0, date.1, date.2, clock.0, clock.1, clock.2);
    Some((time::parse_timestamp(&stamp).ok()?.div_euclid(1_000_000), after))
}

/// From when until when a certificate is valid, if that can be read.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<Term> {
    let (certificate, _) = sequence(certificate)?;
    let (mut signed, _) = sequence(certificate)?;
    let (tag, _, after_version) = value(signed)?;
    if tag == VERSION {
        signed = after_version;
    }
    let (_, _, after_number) = value(signed)?;
    let (_, after_algorithm) = sequence(after_number)?;
    let (_, after_issuer) = sequence(after_algorithm)?;
    let (term, _) = sequence(after_issuer)?;
    let (from_s, after) = instant(term)?;
    let (until_s, _) = instant(after)?;
    Some(Term { from_s, until_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::authority::Authority;
    use std::time::Duration;

    #[test]
    fn the_term_of_a_certificate_is_read() {
        let (now_s, year_s) = (1_767_225_600, 365 * 24 * 3600);
        for years in [1, 30] {
            let authority = Authority::make(now_s, Duration::from_secs(years * year_s)).expect("it is made");
            let serving = authority.sign(&["a".to_string()], now_s, Duration::from_secs(years * year_s));
            let certified = serving.expect("it signs").certified;
            let term = validity(&certified.cert[0]).expect("it has a term");
            assert_eq!(term.until_s, now_s + i64::try_from(years * year_s).expect("it is small"));
            assert!(term.from_s <= now_s);
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_term() {
        for bytes in [&[][..], &[0x30], &[0x30, 0x83, 1, 0, 0], &[0x30, 0x84, 0, 0, 0, 1, 0], &[0x30, 3, 0x30, 1, 2]] {
            assert_eq!(validity(&CertificateDer::from(bytes.to_vec())), None, "{bytes:?}");
        }
    }
}
