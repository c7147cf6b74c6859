//! Archives in the ustar format, with nothing in them that differs from one machine to the next.

const BLOCK: usize = 512;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry<'a> {
    Folder { path: &'a str },
    File { path: &'a str, bytes: &'a [u8], executable: bool },
}

/// An archive of these entries, all of root and of this time in seconds since the epoch.
pub fn archive(entries: &[Entry<'_>], time_s: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        match entry {
            Entry::Folder { path } => out.extend(header(path, 0, 0o755, b'5', time_s)),
            Entry::File { path, bytes, executable } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                out.extend(header(path, bytes.len() as u64, mode, b'0', time_s));
                out.extend(*bytes);
                out.resize(out.len().next_multiple_of(BLOCK), 0);
            }
        }
    }
    // Two empty blocks end an archive.
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

/// The longest path that fits; ours are known and shorter.
const PATH_MAX: usize = 100;

fn header(path: &str, size: u64, mode: u32, kind: u8, time_s: u64) -> [u8; BLOCK] {
    assert!(path.len() <= PATH_MAX, "{path} is longer than {PATH_MAX} bytes");
    let mut block = [0u8; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, path.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{time_s:011o}").as_bytes());
    // The checksum counts its own field as blanks.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_whole_blocks_and_an_end() {
        let file = Entry::File { path: "a/b", bytes: b"hello", executable: true };
        let made = archive(&[Entry::Folder { path: "a/" }, file], 1_700_000_000);
        assert_eq!(made.len(), 5 * BLOCK);
        assert_eq!(&made[BLOCK..BLOCK + 3], b"a/b");
        assert_eq!(&made[BLOCK + 124..BLOCK + 135], b"00000000005");
        assert_eq!(&made[2 * BLOCK..2 * BLOCK + 5], b"hello");
        assert!(made[3 * BLOCK..].iter().all(|byte| *byte == 0));
    }
}
