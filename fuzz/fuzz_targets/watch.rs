//! A watch that says anything in any order: objects are gone only when it says so, and the scheduler behind it goes on.
//!
//! Each line is one event: its first byte says which, the rest is the object.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use quotient_api::{Configuration, kinds};
use quotient_engine::{Budget, Tick};
use quotient_host::watched::{Event, Watched};
use quotient_host::{Now, Parts, Seen, Session, SharedObjects, Subject};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let pods = Subject::Kind(kinds::find("", "Pod").expect("it is known"));
    let mut watched = Watched::new(pods);
    let configuration = Configuration::default();
    let names = Some(vec!["quotient".to_string()]);
    let mut session = Session::new(&configuration, names, Parts::default(), SharedObjects::default());
    let (mut known, mut tick) = (BTreeSet::new(), 0);
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let Some((which, text)) = line.split_first() else { continue };
        let object: Value = serde_json::from_slice(text).unwrap_or_default();
        let (event, may_go) = match which % 7 {
            0 => (Event::Listing, false),
            1 => (Event::Item(object), false),
            2 => (Event::Complete, true),
            3 => (Event::Changed(object), false),
            4 => (Event::Deleted(object), true),
            5 => (Event::Lost("fuzz".to_string()), false),
            _ => (Event::Absent, true),
        };
        tick += 1;
        let now = Now { tick: Tick(tick), wall_us: 0 };
        for seen in watched.take(event) {
            match &seen {
                Seen::Gone(_, key) => {
                    assert!(may_go, "{key} is gone, and nothing said so");
                    known.remove(key);
                }
                Seen::Object(_, object) => known.extend(quotient_api::key_of(object).ok()),
                _ => {}
            }
            session.see(now, seen);
        }
        session.turn(now, false, Budget { pods_max: 4 });
    }
});
