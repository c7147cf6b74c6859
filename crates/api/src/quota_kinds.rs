//! Kinds of quota whose objects each give one fact, whatever other objects say. How such a kind is read, admitted and
//! defined is one row of this table; translation, admission and the definitions follow it.

use quotient_engine::fact::QuotaFact;

use crate::admission::{NOTHING, Part, Rules, queue as queue_admission};
use crate::crd::{self, Definition};
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::volcano::{QUEUE, SCHEDULING, queue};
use crate::{elastic, tree};

/// A kind of quota.
pub(crate) struct QuotaKind {
    /// What an object says.
    pub read: fn(&Cursor<'_, '_>, &ObjectKey, &mut Interner) -> QuotaFact,
    /// What happens to an object on its way in; this also names the group and the kind.
    pub rules: Rules,
    /// Its CustomResourceDefinition, with those of the kinds that go with it.
    pub definitions: fn() -> Vec<Definition>,
}

/// Every such kind.
pub(crate) static QUOTA_KINDS: &[QuotaKind] = &[QuotaKind {
    read: |root, key, interner| QuotaFact::from(queue::queue(root, key, interner)),
    rules: Rules {
        group: SCHEDULING,
        kind: QUEUE,
        server: NOTHING,
        webhook: Part { checks: &[queue_admission::check], on_delete: &[queue_admission::check_delete], ..NOTHING },
    },
    definitions: crd::volcano::definitions,
}];

/// The kind of that group and name, if it is one of these.
pub(crate) fn find(group: &str, kind: &str) -> Option<&'static QuotaKind> {
    QUOTA_KINDS.iter().find(|quota| quota.rules.group == group && quota.rules.kind == kind)
}

/// Whether objects of the kind are quotas, of whatever system.
pub fn is_quota(group: &str, kind: &str) -> bool {
    let is_elastic =
        elastic::is_fair(group).is_some_and(|fair| kind == elastic::PLAIN || fair && kind == elastic::COMPOSITE);
    is_elastic || (group, kind) == (tree::GROUP, tree::QUOTA) || find(group, kind).is_some()
}
