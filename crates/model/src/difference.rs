//! What the program and the model can differ in.

/// A kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A pod was bound beyond a ceiling or beyond what its node has.
    Ceiling,
    /// A pod waits beside room that it may have.
    Room,
    /// A pod was evicted without a right to.
    Right,
    /// A cheaper set of victims was to be had.
    Dearer,
    /// Nobody was evicted though a claimant has the right to.
    NoClaim,
    /// Evictions do not come to an end.
    Loop,
    /// A pod was bound before one whose turn it was.
    Order,
    /// A pod took what is reserved for another.
    Reservation,
    /// A claimant still waits although its victims are gone.
    ForNothing,
    /// Over-use was ended wrongly.
    Overuse,
    /// A restart, the same again, other names or other units gave another result.
    Metamorphic,
    /// The program reports a fault of its own.
    Fault,
}

/// Where the program and the model differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub kind: Kind,
    /// The policies and traits of those concerned.
    pub about: String,
    pub why: String,
}
