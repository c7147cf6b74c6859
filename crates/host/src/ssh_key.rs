//! SSH key pairs as OpenSSH keeps them: Ed25519, without a passphrase.

use ring::signature::{Ed25519KeyPair, KeyPair as _};

const KIND: &[u8] = b"ssh-ed25519";

/// The length of a line of the private key's file.
const LINE_CHARS: usize = 70;

/// The files of a key pair. It cannot be printed by mistake.
pub struct KeyPair {
    pub private: String,
    /// One line, as `authorized_keys` has it too.
    pub public: String,
}

impl KeyPair {
    /// The key pair that follows from these bytes. `comment` says whose it is.
    pub fn from_seed(seed: &[u8; 32], comment: &str) -> Self {
        let pair =
            Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed has 32 bytes, which is all that is asked of it");
        let public_key = pair.public_key().as_ref();
        let public = [field(KIND), field(public_key)].concat();
        let secret = [&seed[..], public_key].concat();
        let check = [0x71, 0x75, 0x6f, 0x74].repeat(2); // Twice the same: it tells whether it was deciphered.
        let mut private = [check, public.clone(), field(&secret), field(comment.as_bytes())].concat();
        private.extend((1..=8).take(private.len().next_multiple_of(8) - private.len()));
        let (none, one) = (field(b"none"), 1_u32.to_be_bytes().to_vec());
        let head = b"openssh-key-v1\0".to_vec();
        let file = [head, none.clone(), none, field(b""), one, field(&public), field(&private)].concat();
        let text = base64(&file);
        let lines: Vec<&str> =
            (0..text.len()).step_by(LINE_CHARS).map(|at| &text[at..text.len().min(at + LINE_CHARS)]).collect();
        KeyPair {
            private: format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
                lines.join("\n")
            ),
            public: format!("ssh-ed25519 {} {comment}\n", base64(&public)),
        }
    }
}

/// Bytes after their length.
fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("no part of a key is that long");
    [&length.to_be_bytes()[..], bytes].concat()
}

pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().chain(&[0; 2]).take(3).fold(0_u32, |group, byte| (group << 8) | u32::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[((group >> (18 - 6 * place)) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_pair_is_what_ssh_keygen_reads() {
        // The first key of RFC 8032, section 7.1; ssh-keygen -y gives this public key for the private one.
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let KeyPair { private, public } = KeyPair::from_seed(&seed, "job");
        let expected = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea job\n";
        assert_eq!(public, expected);
        let body: Vec<&str> = private.lines().filter(|line| !line.starts_with('-')).collect();
        let expected = [
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
            "QyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGgAAAIhxdW90cXVv",
            "dAAAAAtzc2gtZWQyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg",
            "AAAECdYbGd7/1aYLqESvSS7CzEREnFaXsyaRlwO6wDHK5/YNdamAGCsQq31Uv+08lkBzoO",
            "4XLz2qYjJa8CGmj3B1EaAAAAA2pvYgEC",
        ];
        assert_eq!(body, expected);
    }
}
