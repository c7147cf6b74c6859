//! What devices cost: by class, by extended name, by consumed capacity and by card.

use crate::device::{Alternative, ClaimSpec, Count, DeviceFact, DeviceRequest, ExtendedRequest};
use crate::devices::Devices;
use crate::fact::{Amount, Name};

/// The resource by which quotas count the devices of a class, as ResourceQuota spells it.
pub(crate) fn class_resource(class: &str, what: &str) -> Name {
    Name::from(format!("{class}.deviceclass.resource.k8s.io/{what}"))
}

/// The name by which devices of any class can be asked for.
pub(crate) const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// The resource by which a pod asked for what a request of its claim for extended resources is about.
pub(crate) fn asked_as(served: &[ExtendedRequest], request: &Name) -> Option<Name> {
    served.iter().find(|asked| request_name(asked) == *request).map(|asked| asked.resource.clone())
}

fn request_name(asked: &ExtendedRequest) -> Name {
    Name::from(format!("container-{}-request-{}", asked.container, asked.request))
}

/// The names by which GPU memory is charged.
const GPU_MEMORY: [&str; 2] = ["n8s.nebuly.ai/gpu-memory", "nos.nebuly.com/gpu-memory"];

/// Names with amounts, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bill(pub Vec<(Name, Amount)>);

impl Bill {
    pub fn add(&mut self, name: Name, amount: Amount) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => self.0.push((name, amount)),
        }
    }

    /// What a device, or a share of one, costs that is chosen for an alternative.
    pub fn add_pick(
        &mut self,
        devices: &Devices,
        alternative: &Alternative,
        device: &DeviceFact,
        amounts: &[i128],
        asked_as: Option<&Name>,
    ) {
        let consumed = device.capacity.iter().zip(amounts).filter(|_| device.shared);
        let consumed: Vec<(Name, i128)> = consumed.map(|(own, amount)| (own.written.clone(), *amount)).collect();
        let whole = (!device.shared).then_some(device);
        self.add_device(devices, &alternative.class, whole, &consumed, asked_as);
    }

    /// What a device of a class costs; the name by which a pod asked for it as a resource is charged already.
    pub fn add_device(
        &mut self,
        devices: &Devices,
        class: &Name,
        device: Option<&DeviceFact>,
        consumed: &[(Name, i128)],
        asked_as: Option<&Name>,
    ) {
        self.add(class_resource(class, "devices"), 1);
        let extended = devices.class(class).and_then(|class| class.extended.clone());
        for name in [Some(Name::from(format!("{IMPLICIT}{class}"))), extended].into_iter().flatten() {
            if asked_as != Some(&name) {
                self.add(name, 1);
            }
        }
        for (capacity, nanos) in consumed {
            let short = capacity.rsplit('/').next().unwrap_or(capacity);
            let unit = if short == crate::fact::CPU { 1_000_000 } else { 1_000_000_000 };
            let amount = nanos / unit + i128::from(nanos % unit > 0);
            self.add(class_resource(class, short), Amount::try_from(amount).unwrap_or(Amount::MAX));
        }
        let Some(device) = device else { return };
        if let Some(card) = &device.card {
            self.add(card.clone(), 1);
            if let Some(gigabytes) = device.gigabytes {
                GPU_MEMORY.iter().for_each(|name| self.add(Name::from(*name), gigabytes));
            }
        }
    }
}

/// The claim for extended resources. Plain init containers use devices of later containers, so of each class their
/// largest request counts where it is larger than all of those together.
pub(crate) fn extended_spec(served: &[(ExtendedRequest, Name)]) -> Option<ClaimSpec> {
    if served.is_empty() {
        return None;
    }
    let request = |(request, class): &(ExtendedRequest, Name), amount: i64| {
        let name = request_name(request);
        let alternative = Alternative {
            name: name.clone(),
            class: class.clone(),
            matcher: class.clone(),
            count: Count::Exactly(u64::try_from(amount).unwrap_or(0)),
            admin: false,
            tolerations: Vec::new(),
            capacity: Vec::new(),
        };
        DeviceRequest { name, alternatives: vec![alternative], listed: false }
    };
    let mut requests: Vec<DeviceRequest> = Vec::new();
    for entry @ (asked, class) in served {
        if !asked.init {
            requests.push(request(entry, asked.amount));
            continue;
        }
        let others = served.iter().filter(|(other, of)| of == class && !other.init).map(|(other, _)| other.amount);
        let before = served.iter().take_while(|other| *other != entry).filter(|(other, of)| of == class && other.init);
        let most = before.map(|(other, _)| other.amount).max().unwrap_or(0).max(others.sum());
        if asked.amount > most {
            requests.push(request(entry, asked.amount - most));
        }
    }
    Some(ClaimSpec { requests, constraints: Vec::new() })
}
