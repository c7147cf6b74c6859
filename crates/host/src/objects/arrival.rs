//! Objects on their way in.

use std::ops::Deref;
use std::sync::Arc;

use quotient_api::ObjectKey;
use serde_json::Value;

use super::{News, Objects};

/// An object on its way in.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// It belongs to nobody else.
    Own(Value),
    /// Somebody else keeps it as it is.
    Shared(&'a Arc<Value>),
}

impl Arrival<'_> {
    /// Takes it in.
    pub fn keep_in(&self, objects: &mut Objects, key: &ObjectKey) -> News {
        match self {
            Arrival::Own(object) => objects.seen(key, object),
            Arrival::Shared(object) => objects.seen_shared(key, object),
        }
    }

    /// The object to change, which is nobody else's from now on.
    pub fn to_mut(&mut self) -> &mut Value {
        if let Arrival::Shared(object) = self {
            *self = Arrival::Own(Value::clone(object));
        }
        match self {
            Arrival::Own(object) => object,
            Arrival::Shared(_) => unreachable!("it was copied"),
        }
    }
}

impl Deref for Arrival<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Arrival::Own(object) => object,
            Arrival::Shared(object) => object,
        }
    }
}
