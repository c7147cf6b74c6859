//! What a search for devices comes to.

use crate::device::{Alternative, DeviceFact, PoolKey};
use crate::fact::Name;

/// What ends the attempt to place a pod, on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A selector cannot be evaluated for a device that was up.
    Selector { request: Name, device: Name, message: Name },
    /// One request is for more devices than a claim can have.
    TooMany { request: Name },
    /// A request for all devices meets one that a constraint excludes.
    Excluded { request: Name, device: Name },
    /// A request for all devices meets a pool that is not ready.
    Unready { request: Name, pool: PoolKey },
}

/// A device that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub claim: usize,
    pub request: usize,
    pub alternative: usize,
    /// By place in [`Site::candidates`].
    pub candidate: usize,
    /// By capacity of the device, where it is a share.
    pub consumed: Vec<i128>,
}

/// A device that is about to be chosen, for whoever counts the cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick<'p> {
    pub claim: usize,
    pub alternative: &'p Alternative,
    pub device: &'p DeviceFact,
    /// By capacity of the device, where it is a share.
    pub consumed: &'p [i128],
}

/// Whether the devices chosen so far can be paid for.
pub(crate) type Affordable<'f> = &'f mut dyn FnMut(&[Pick<'_>]) -> bool;

/// What a search comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Devices(Vec<Chosen>),
    Nothing,
    /// The search was given up.
    TooLong,
}
