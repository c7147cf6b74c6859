//! Disruption budgets.

use quotient_engine::fact::BudgetFact;

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::selector::label_selector;

/// What there is to tell about a PodDisruptionBudget. Without a status it allows nothing.
pub(crate) fn budget(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> BudgetFact {
    let (spec, status) = (root.field("spec"), root.field("status"));
    BudgetFact {
        namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
        name: interner.name(&key.name),
        selector: label_selector(&spec.field("selector"), interner),
        allowed: status.field("disruptionsAllowed").int::<i64>().unwrap_or(0).clamp(0, u32::MAX.into()) as u32,
    }
}
