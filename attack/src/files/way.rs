//! What a user does with a pool, in whatever way.

use std::path::Path;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An error that says so, and an exit code that is not 0.
    Said(String),
    /// A panic, a signal, a hang, or an exit code that means nothing.
    Broke(String),
    /// The question can't be asked in this way.
    Unasked,
}

/// An answer, or why there is none.
pub type Answer<T> = Result<T, Refusal>;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A key next to those that were lost; none where they begin with the first key, or end with the last.
pub type End = Option<Vec<u8>>;

/// What a repair says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Whether the pool is still damaged.
    pub is_damaged: bool,
    /// Whether a transaction was lost, so that any key may be old.
    pub lost_transactions: bool,
    /// Between which keys some were lost.
    pub lost: Vec<(End, End)>,
}

/// What keys a scan is to print.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Keys with this prefix.
    pub prefix: Vec<u8>,
    /// Keys from this one on.
    pub from: Option<Vec<u8>>,
    /// Keys before this one.
    pub to: Option<Vec<u8>>,
    /// From the last to the first.
    pub reverse: bool,
    /// At most so many.
    pub limit: Option<usize>,
    /// That no key is missing is proved.
    pub verify: bool,
}

impl Wanted {
    /// Whether all keys are wanted.
    pub fn is_whole(&self) -> bool {
        self.prefix.is_empty() && self.from.is_none() && self.to.is_none() && self.limit.is_none()
    }

    /// Returns what a scan of `pairs`, in order, is to print.
    pub fn of<'a>(&self, pairs: impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Vec<Pair> {
        let within = |key: &[u8]| {
            key.starts_with(&self.prefix)
                && self.from.as_ref().is_none_or(|from| key >= &from[..])
                && self.to.as_ref().is_none_or(|to| key < &to[..])
        };
        let chosen = pairs.filter(|(key, _)| within(key)).map(|(key, value)| (key.clone(), value.clone()));
        let limit = self.limit.unwrap_or(usize::MAX);
        if self.reverse { chosen.rev().take(limit).collect() } else { chosen.take(limit).collect() }
    }
}

/// A way in which a user reads, checks and repairs a pool in a file. Reading changes no byte of it.
pub trait Way {
    /// All keys and values.
    fn export(&self, pool: &Path) -> Answer<Vec<Pair>>;
    /// A part of them.
    fn scan(&self, pool: &Path, wanted: &Wanted) -> Answer<Vec<Pair>>;
    /// The values of keys, one answer each, for the first ones or all; none where it is told that there is no such key. With `verify`, absence is
    /// proven.
    fn get(&self, pool: &Path, keys: &[Vec<u8>], verify: bool) -> Vec<Answer<Option<Vec<u8>>>>;
    /// How many keys to look up.
    fn lookups(&self) -> usize;
    /// The number of keys.
    fn count(&self, pool: &Path) -> Answer<u64>;
    /// Whether damage was found.
    fn check(&self, pool: &Path) -> Answer<bool>;
    /// Repairs the file.
    fn repair(&self, pool: &Path) -> Answer<Repaired>;
}
