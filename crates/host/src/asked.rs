//! What was asked to be written and is not seen yet, so that it is not asked for again.
//!
//! What comes of a write is seen in its object, and nowhere else. Until then the same is not asked for twice. When the
//! API server refuses it, it is asked for again after a while that grows; when the object changes, at once.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_engine::Tick;

use crate::write::{Slot, Write};

/// The pauses before something that was refused is asked for again, in milliseconds: the first, and the longest.
const PAUSE_MIN_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 60_000;

#[derive(Debug, Clone)]
struct Entry {
    write: Write,
    refusals: u32,
    /// When to ask again, if it was refused, and what was said.
    refused: Option<(Tick, String)>,
}

/// What was asked for, by what it is about.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    entries: BTreeMap<Slot, Entry>,
}

impl Asked {
    /// The write, unless it was asked for already.
    pub fn ask(&mut self, write: Write, now: Tick) -> Option<Write> {
        let slot = write.slot();
        let known = self.entries.remove(&slot).filter(|known| known.write.says_the_same(&write));
        let entry = match known {
            None => Entry { write, refusals: 0, refused: None },
            Some(known) => match &known.refused {
                Some((again_at, _)) if *again_at <= now => Entry { refused: None, ..known },
                _ => {
                    self.entries.insert(slot, known);
                    return None;
                }
            },
        };
        let write = entry.write.clone();
        self.entries.insert(slot, entry);
        Some(write)
    }

    /// The object was seen, or is gone: what was asked of it is history.
    pub fn seen(&mut self, key: &ObjectKey) {
        // Most objects are pods, of which nothing is asked.
        if self.entries.is_empty() {
            return;
        }
        for slot in [Slot::Amend(key.clone()), Slot::Make(key.clone()), Slot::Delete(key.clone())] {
            self.entries.remove(&slot);
        }
    }

    /// The API server refused it. Says whether it was asked for here.
    pub fn refused(&mut self, slot: &Slot, message: &str, now: Tick) -> bool {
        let Some(entry) = self.entries.get_mut(slot) else { return false };
        let pause = (PAUSE_MIN_MS << entry.refusals.min(6)).min(PAUSE_MAX_MS);
        entry.refusals += 1;
        entry.refused = Some((Tick(now.0 + pause), message.to_string()));
        true
    }

    /// What was refused may be asked for again at once.
    pub fn retry(&mut self) {
        for entry in self.entries.values_mut() {
            if let Some((again_at, _)) = &mut entry.refused {
                *again_at = Tick(0);
            }
        }
    }

    /// Why it was refused last, if so.
    pub fn refusal(&self, slot: &Slot) -> Option<&str> {
        self.entries.get(slot)?.refused.as_ref().map(|(_, message)| message.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::Amendment;
    use serde_json::json;

    #[test]
    fn what_is_refused_is_asked_for_again_later_and_later_and_when_the_object_changes_at_once() {
        let key = ObjectKey::pod("a", "p");
        let write = |phase: &str| {
            let change = Amendment::between(&key, &json!({}), &json!({"status": {"phase": phase}}));
            Write::Amend(change.expect("it differs"))
        };
        let slot = write("x").slot();
        let mut asked = Asked::default();
        assert!(asked.ask(write("x"), Tick(0)).is_some());
        assert!(asked.ask(write("x"), Tick(1_000_000)).is_none(), "it is under way");
        assert!(asked.refused(&slot, "no", Tick(0)));
        assert_eq!(asked.refusal(&slot), Some("no"));
        assert!(asked.ask(write("x"), Tick(999)).is_none());
        assert!(asked.ask(write("x"), Tick(1_000)).is_some());
        asked.refused(&slot, "no", Tick(1_000));
        assert!(asked.ask(write("x"), Tick(2_999)).is_none(), "each time later");
        assert!(asked.ask(write("y"), Tick(2_999)).is_some(), "something else");
        asked.refused(&slot, "no", Tick(3_000));
        asked.seen(&key);
        assert!(asked.ask(write("y"), Tick(3_000)).is_some());
        assert!(!asked.refused(&Slot::Delete(key.clone()), "no", Tick(3_000)));
    }
}
