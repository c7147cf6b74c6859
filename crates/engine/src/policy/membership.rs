//! Which quotas a pod, or a group, answers to.

use crate::fact::{Labels, Name};
use crate::policy::{QuotaId, Quotas};
use crate::reason::Code;

/// What a pod says, or is said of it, about its quotas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ties<'a> {
    pub namespace: &'a Name,
    /// What its namespace is labelled.
    pub labels: &'a Labels,
    /// The quota that it names.
    pub quota: Option<&'a Name>,
    /// The queue that it names, or its group.
    pub queue: Option<&'a Name>,
}

/// The quotas that a pod answers to, by key, and why it lacks one, if so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    pub quotas: Vec<QuotaId>,
    pub error: Option<(Code, Name)>,
}

impl Quotas {
    /// The quotas that a pod answers to: those of its namespace, the quota that it names, and its queue.
    pub fn membership(&self, ties: Ties<'_>) -> Membership {
        let mut quotas = self.shared.namespaces.quotas_of(ties.namespace).to_vec();
        let mut error = None;
        match self.tree_quota_of(&ties) {
            Ok(quota) => quotas.extend(quota),
            Err((code, why)) => error = Some((code, Name::from(why))),
        }
        match self.admitting_quota(ties.namespace, ties.labels, ties.queue) {
            Ok(quota) => quotas.extend(quota),
            Err((code, why)) => error = Some((code, Name::from(why))),
        }
        quotas.sort_by(|a, b| self.get(*a).key.cmp(&self.get(*b).key));
        Membership { quotas, error }
    }

    /// The quota that admits a group, which is also that of its pods: the queue that is named, that of the namespace,
    /// or the default where there is one. The error is why there is none, though there should be.
    pub fn admitting_quota(
        &self,
        namespace: &Name,
        labels: &Labels,
        named: Option<&Name>,
    ) -> Result<Option<QuotaId>, (Code, String)> {
        let queues = &self.shared.queues;
        let Some(name) = named.cloned().or_else(|| queues.default_of(namespace)) else { return Ok(None) };
        match queues.find(&name) {
            Some(queue) if self.may_use(queue, namespace, labels) => Ok(Some(queue)),
            Some(_) => Err((Code::QuotaNotAllowed, format!("namespace {namespace} may not use queue {name}"))),
            None => Err((Code::QueueNotFound, format!("queue {name} does not exist"))),
        }
    }

    /// Notes the queue of those in a namespace that name none. Returns whether it is another one than before.
    pub fn set_queue_of_namespace(&mut self, namespace: Name, queue: Option<Name>) -> bool {
        self.shared.queues.set_of_namespace(namespace, queue)
    }
}
