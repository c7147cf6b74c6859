//! What a watch tells.

use quotient_api::{ObjectKey, field};
use quotient_engine::fact::{Name, PodKey};
use serde_json::Value;

use crate::subject::Subject;

/// Something that a watch saw.
#[derive(Debug, Clone)]
pub enum Seen {
    Object(Subject, Value),
    Gone(Subject, ObjectKey),
    /// An object that is there and cannot be read, and why. What was known of it stays known.
    Unreadable(Subject, ObjectKey, String),
    /// All objects that there are have been seen, and those that are not there any more are gone.
    Listed(Subject),
    /// What was seen may not be so any more, and why: it is being listed again, or cannot be.
    Stale(Subject, String),
    /// The API server does not serve the kind; there is nothing of it to see.
    Unavailable(Subject),
}

impl Seen {
    /// The pod that was seen, and as what; `None` where it is gone.
    pub fn pod(&self) -> Option<(PodKey, Option<&Value>)> {
        match self {
            Seen::Object(Subject::Kind(kind), pod) if (kind.group, kind.kind) == ("", "Pod") => {
                let text = |pointer: &str| Name::from(field::text(pod, pointer).unwrap_or_default());
                Some((PodKey { namespace: text("/metadata/namespace"), name: text("/metadata/name") }, Some(pod)))
            }
            Seen::Gone(Subject::Kind(_), ObjectKey { group: "", kind: "Pod", namespace: Some(namespace), name }) => {
                Some((PodKey { namespace: namespace.clone(), name: name.clone() }, None))
            }
            _ => None,
        }
    }
}
