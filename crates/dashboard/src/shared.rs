//! Names and values that many rows share, and that can be written as JSON.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name that is shared. The engine's own names are of the same kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(Arc<str>);

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Name(name)
    }
}

impl From<&Arc<str>> for Name {
    fn from(name: &Arc<str>) -> Self {
        Name(name.clone())
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Name(Arc::from(name))
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Name(Arc::from(name))
    }
}

impl Name {
    /// The same name, as the engine has it.
    pub fn of_engine(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A value that many rows share.
#[derive(Debug, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared(Arc::new(value))
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Name::from)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

/// A word of the program's own, such as a reason code.
pub type Word = &'static str;

/// The program's words are few; what says more of them is not this program.
const WORDS_MAX: usize = 4096;

/// Reads a word that another process of this program wrote.
pub fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    static WORDS: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());
    let text = String::deserialize(deserializer)?;
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(&*text) {
        return Ok(known);
    }
    if words.len() >= WORDS_MAX {
        return Err(serde::de::Error::custom("expected a word of this program"));
    }
    let word: Word = Box::leak(text.into_boxed_str());
    words.insert(word);
    Ok(word)
}

/// Reads a word, if there is one.
pub fn some_word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "word")] Word);
    Ok(Option::<One>::deserialize(deserializer)?.map(|One(word)| word))
}
