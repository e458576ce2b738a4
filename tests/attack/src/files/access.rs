//! The operations of a user on a pool, through the library or the program.

use std::path::Path;

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error with a message, and an exit code that is not 0.
    Error(String),
    /// A panic, a signal, a hang, or an unknown exit code.
    Crash(String),
    /// This way can't ask the question.
    Unsupported,
}

/// An answer, or the reason why there is none.
pub type Response<T> = Result<T, Failure>;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A key next to the lost ones; `None` if they begin with the first key, or end with the last.
pub type KeyBound = Option<Vec<u8>>;

/// The report of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairResult {
    /// True if the pool is still damaged.
    pub is_damaged: bool,
    /// True if a transaction was lost, so that any key may be old.
    pub lost_transactions: bool,
    /// Pairs of keys between which some were lost.
    pub lost: Vec<(KeyBound, KeyBound)>,
}

/// The keys that a scan must print.
#[derive(Clone, Debug, Default)]
pub struct ScanRequest {
    /// Keys with this prefix.
    pub prefix: Vec<u8>,
    /// Keys from this one on.
    pub from: Option<Vec<u8>>,
    /// Keys before this one.
    pub to: Option<Vec<u8>>,
    /// True to print from the last key to the first.
    pub reverse: bool,
    /// Greatest number of keys.
    pub limit: Option<usize>,
    /// True to prove that no key is missing.
    pub verify: bool,
}

impl ScanRequest {
    /// Returns true if all keys are wanted.
    pub fn is_unbounded(&self) -> bool {
        self.prefix.is_empty() && self.from.is_none() && self.to.is_none() && self.limit.is_none()
    }

    /// Returns the pairs that a scan of `pairs`, in order, must print.
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
pub trait PoolAccess {
    /// Returns all keys and values.
    fn export(&self, pool: &Path) -> Response<Vec<Pair>>;
    /// Returns the keys and values that `request` describes.
    fn scan(&self, pool: &Path, request: &ScanRequest) -> Response<Vec<Pair>>;
    /// Looks up the first of `keys`, or all of them, and returns one answer for each. `None` says that there is no
    /// such key. With `verify`, absence is proved.
    fn get(&self, pool: &Path, keys: &[Vec<u8>], verify: bool) -> Vec<Response<Option<Vec<u8>>>>;
    /// Returns the number of keys to look up.
    fn lookups(&self) -> usize;
    /// Returns the number of keys.
    fn count(&self, pool: &Path) -> Response<u64>;
    /// Returns true if a check finds damage.
    fn check(&self, pool: &Path) -> Response<bool>;
    /// Repairs the file.
    fn repair(&self, pool: &Path) -> Response<RepairResult>;
}
