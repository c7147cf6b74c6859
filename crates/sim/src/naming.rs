//! Names that the virtual cluster makes up: the same input gives the same names.

use serde_json::Value;

/// Letters and digits as Kubernetes uses them in generated names: none that spells or misleads.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The longest name of a pod, which is also its host name.
const NAME_CHARS_MAX: usize = 63;

/// How many characters tell pods of one owner apart.
const SUFFIX_CHARS: u32 = 5;

/// A number that stands for a text (FNV-1a, 64 bits): stable over time and builds.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// `chars` characters that stand for a number.
fn spell(mut number: u64, chars: u32) -> String {
    (0..chars)
        .map(|_| {
            let letter = ALPHABET[(number % 27) as usize];
            number /= 27;
            letter as char
        })
        .collect()
}

/// What stands for a pod template in names and labels; equal templates have equal ones, however
/// their keys are ordered.
pub fn template_hash(template: &Value) -> String {
    let mut text = String::new();
    write_sorted(template, &mut text);
    spell(fingerprint(&text), 10)
}

/// Writes a value with the keys of its mappings in order.
fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for key in keys {
                text.push_str(key);
                text.push(':');
                write_sorted(&map[key], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// The name of the `index`-th object that `owner` (`Kind/namespace/name`) makes, after its `stem`.
pub fn generated(stem: &str, owner: &str, index: u64) -> String {
    let suffix = spell(fingerprint(&format!("{owner}#{index}")), SUFFIX_CHARS);
    let room = NAME_CHARS_MAX - SUFFIX_CHARS as usize - 1;
    let stem = stem.char_indices().nth(room).map_or(stem, |(end, _)| &stem[..end]);
    format!("{}-{suffix}", stem.trim_end_matches(['-', '.']))
}

/// How the uids that are made up here begin. A real one begins so once in 2^74.
const UID_STEM: &str = "00000000-0000-4000-8000-";

/// A uid for the `index`-th object of a cluster, in the form that uids have.
pub fn uid(index: u64) -> String {
    format!("{UID_STEM}{:012x}", index & 0xffff_ffff_ffff)
}

/// Whether a uid was made up here.
pub fn is_uid(uid: &str) -> bool {
    uid.starts_with(UID_STEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_templates_have_one_hash() {
        assert_eq!(template_hash(&json!({"a": 1, "b": [2]})), template_hash(&json!({"b": [2], "a": 1})));
        assert_ne!(template_hash(&json!({"a": 1})), template_hash(&json!({"a": 2})));
    }

    #[test]
    fn generated_names_are_names_of_pods() {
        let long = "x".repeat(80);
        for stem in ["web", "web.example", long.as_str()] {
            let name = generated(stem, "ReplicaSet/a/web", 0);
            assert!(name.len() <= NAME_CHARS_MAX, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'));
        }
        assert_ne!(generated("web", "ReplicaSet/a/web", 0), generated("web", "ReplicaSet/a/web", 1));
    }
}
