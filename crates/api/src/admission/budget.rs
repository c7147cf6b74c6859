//! Disruption budgets.

use super::Context;
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::label_selector;

/// Checks a PodDisruptionBudget.
pub(super) fn check(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    let (available, unavailable) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if available.exists() && unavailable.exists() {
        unavailable.note("must be left out where minAvailable is given");
    }
    for at in [available, unavailable] {
        check_count(&at);
    }
    label_selector(&spec.field("selector"), &mut Interner::default());
}

/// A count is a whole number not below 0, or a percentage.
fn check_count(at: &Cursor<'_, '_>) {
    let Some(value) = at.value() else { return };
    let is_count = value.as_u64().is_some();
    let percentage = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<u8>().ok());
    if !is_count && percentage.is_none_or(|percentage| percentage > 100) {
        at.note("expected a whole number not below 0, or a percentage such as \"50%\"");
    }
}
