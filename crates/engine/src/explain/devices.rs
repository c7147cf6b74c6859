//! Why a pod has no devices.

use crate::devices::found::Fault;
use crate::devices::search::STEPS_MAX;
use crate::devices::world::DeviceTrouble;
use crate::explain::plain;
use crate::nodes::NodeId;
use crate::place::Question;
use crate::reason::{Code, Reason};
use crate::world::World;

impl World {
    /// The nodes that lack nothing for the pod but, it may be, devices.
    fn open_but_for_devices<'w>(&'w self, question: &'w Question) -> impl Iterator<Item = NodeId> + 'w {
        let shape = self.shapes.get(question.shape);
        (0..self.nodes.limit()).map(|node| NodeId(node as u32)).filter(move |node| {
            self.nodes.is_present(*node)
                && self.node_rules.get(question.rule).closed_by(*node).is_none()
                && self.closed_locally(question, shape, *node).is_none()
                && self.closed_by_others(question, shape, *node).is_none()
        })
    }

    /// Whether the search for the pod's devices cannot be done as things are.
    pub fn has_device_fault(&self, question: &Question) -> bool {
        let Some(ask) = &question.devices else { return false };
        self.open_but_for_devices(question).any(|node| self.find_devices(ask, node, true).is_err())
    }

    /// Why the pod has no devices, where that is more than that there are none.
    pub fn device_reason(&self, question: &Question) -> Option<Reason> {
        let ask = question.devices.as_ref()?;
        let open: Vec<NodeId> = self.open_but_for_devices(question).collect();
        match self.device_trouble(ask, open.into_iter()) {
            DeviceTrouble::Fault(fault) => Some(faulty(&fault)),
            DeviceTrouble::Refused(refusal) => Some(self.refused(&refusal)),
            DeviceTrouble::None { given_up: 0 } => None,
            DeviceTrouble::None { given_up } => {
                let message = format!(
                    "the search for devices was given up after {STEPS_MAX} steps on {given_up} of {} nodes",
                    self.nodes.present_count()
                );
                let remedies = vec!["ask for fewer devices, or with fewer constraints".to_owned()];
                Some(plain(Code::NoFittingNode, message, remedies))
            }
        }
    }
}

fn faulty(fault: &Fault) -> Reason {
    let (code, message, remedy) = match fault {
        Fault::Selector { request, device, message } => (
            Code::InvalidRequest,
            format!("request {request}: selector cannot be evaluated for device {device}: {message}"),
            "let the selector ask first, with has(), whether the device has the attribute",
        ),
        Fault::TooMany { request } => (
            Code::InvalidRequest,
            format!("request {request}: the claim is for more than {} devices", crate::device::RESULTS_MAX),
            "ask for fewer devices",
        ),
        Fault::Excluded { request, device } => (
            Code::NoFittingNode,
            format!("request {request}: all devices are asked for, and a constraint excludes device {device}"),
            "select the devices that the constraint allows",
        ),
        Fault::Unready { request, pool } => (
            Code::NoFittingNode,
            format!(
                "request {request}: all devices are asked for, and pool {}/{} is not ready",
                pool.driver, pool.pool
            ),
            "wait until the driver has published the pool",
        ),
    };
    plain(code, message, vec![remedy.to_owned()])
}
