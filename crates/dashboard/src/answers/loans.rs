//! Who lends to whom.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::shared::Name;
use crate::view::{QuotaRow, View};
use crate::viewer::Viewer;

/// Quotas and who lends to whom.
#[derive(Debug, Clone, Serialize)]
pub struct Quotas<'a> {
    pub quotas: &'a [QuotaRow],
    pub loans: Vec<Loan>,
}

/// What one quota uses of what another is entitled to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loan {
    pub resource: Name,
    pub lender: Name,
    pub borrower: Name,
    pub amount: i64,
}

/// Quotas that lend to each other: those of one API group and tree below one parent.
type PoolKey<'a> = (&'a str, Option<&'a Name>, Option<&'a Name>);

/// The quotas of a view, and the loans between them that the viewer may see. A loan is what a lender lends, in
/// proportion to what each borrower of its pool borrows.
pub fn quotas<'a>(whole: &View, view: &'a View, viewer: &Viewer) -> Quotas<'a> {
    let mut pools: BTreeMap<PoolKey<'_>, Vec<&QuotaRow>> = BTreeMap::new();
    for quota in &whole.quotas {
        pools.entry((quota.group, quota.tree.as_ref(), quota.parent.as_ref())).or_default().push(quota);
    }
    let mut loans = Vec::new();
    for pool in pools.values() {
        let resources: BTreeSet<&Name> = pool.iter().flat_map(|quota| quota.resources.keys()).collect();
        for resource in resources {
            let of = |quota: &QuotaRow| quota.resources.get(resource).copied().unwrap_or_default();
            let borrowed: i128 = pool.iter().map(|quota| i128::from(of(quota).borrowed)).sum();
            if borrowed == 0 {
                continue;
            }
            for lender in pool.iter().filter(|quota| of(quota).lent > 0 && viewer.sees_quota(&quota.object)) {
                for borrower in pool.iter().filter(|quota| of(quota).borrowed > 0 && viewer.sees_quota(&quota.object)) {
                    let amount = i128::from(of(lender).lent) * i128::from(of(borrower).borrowed) / borrowed;
                    loans.push(Loan {
                        resource: resource.clone(),
                        lender: lender.object.clone(),
                        borrower: borrower.object.clone(),
                        amount: amount as i64,
                    });
                }
            }
        }
    }
    loans.retain(|loan| loan.amount > 0);
    Quotas { quotas: &view.quotas, loans }
}
