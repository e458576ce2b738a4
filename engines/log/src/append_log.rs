//! The handle of a log.

use crate::area::Area;
use crate::error::{AppendLogError, InDoubtCause};
use crate::state::{self, Places};
use lode_layout::LogState;
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, SpinMutex};
use lode_redo::Log;

/// The log of a pool: records that any number of threads append and read.
///
/// A record has a position, which never changes. Positions increase, and are not reused. That of a frame of records is a distance
/// in bytes, a multiple of 64; each record has the position of its frame plus its index there.
///
/// # Durability
/// Without a [volatile cache](AppendLog::has_volatile_cache), an append is durable when it returns. With one it is visible
/// then, and durable after the next [`persist`](AppendLog::persist). A power cut leaves all records up to some place.
///
/// # Locks
/// Appends wait for each other while they take their positions, and until those before them are durable; they share no drain.
/// With a volatile cache they wait for each other while they copy. Reads wait for none of them.
#[derive(Debug)]
pub struct AppendLog<M: Medium> {
    pub(crate) redo: Log<M>,
    pub(crate) uuid: [u8; 16],
    pub(crate) places: Places,
    pub(crate) area: Area,
    /// Number of this opening.
    pub(crate) epoch: u32,
    /// True where appends become durable by syncs.
    pub(crate) is_cached: bool,
    /// The newest durable state. Held while it changes.
    pub(crate) state: SpinMutex<LogState>,
    /// Position of the first live record.
    pub(crate) head: AtomicU64,
    /// Position of the next append. Held while an append takes its position, and with a volatile cache while it is copied.
    pub(crate) reserved: SpinMutex<u64>,
    /// Position up to which records can be read, if they become durable by syncs.
    pub(crate) visible: AtomicU64,
    /// Position up to which all records are durable.
    pub(crate) durable: AtomicU64,
    /// Held during a sync.
    pub(crate) persisting: SpinMutex<()>,
    /// True if an operation is in doubt.
    pub(crate) failed: AtomicBool,
}

impl<M: Medium> AppendLog<M> {
    /// Returns the medium.
    pub fn medium(&self) -> &M {
        self.redo.medium()
    }

    /// Returns true if appends are durable after a persist only.
    pub fn has_volatile_cache(&self) -> bool {
        self.is_cached
    }

    /// Returns the length of the area in bytes.
    pub fn capacity(&self) -> u64 {
        self.area.len()
    }

    /// Returns the most bytes that the frames of one append may take. [`LogFrames`](lode_layout::LogFrames) counts them: a record
    /// alone takes 32 bytes more than its content, rounded up to 64.
    pub fn append_max(&self) -> u64 {
        self.area.append_max()
    }

    /// Returns the position of the first live record, or of the end if there is none.
    pub fn head(&self) -> u64 {
        // ORDER: acquires; pairs with the release in `truncate`: a reader that has copied bytes, and then finds the old head,
        // has copied them before they were overwritten.
        self.head.load(Ordering::Acquire)
    }

    /// Returns the position after the last record that can be read.
    pub fn end(&self) -> u64 {
        if !self.is_cached {
            return self.durable();
        }
        // ORDER: acquires; pairs with the release in `append_records`: the records before the position can be read.
        self.visible.load(Ordering::Acquire)
    }

    /// Returns the position up to which all records are durable.
    pub fn durable(&self) -> u64 {
        // ORDER: acquires; pairs with the releases in `acknowledge` and `persist`: the records before the position are durable,
        // and can be read.
        self.durable.load(Ordering::Acquire)
    }

    /// Returns the number of bytes that appends can take before the log is full.
    pub fn free(&self) -> u64 {
        self.area.limit(self.head()).saturating_sub(self.end())
    }

    /// Fails if the handle accepts no changes.
    pub(crate) fn check_accepts(&self) -> Result<(), AppendLogError> {
        if self.has_failed() {
            return Err(AppendLogError::Poisoned);
        }
        Ok(self.redo.begin_epoch()?)
    }

    pub(crate) fn has_failed(&self) -> bool {
        // ORDER: none: an operation that misses it fails at its own drain, or waits for the durable position, and asks again.
        self.failed.load(Ordering::Relaxed)
    }

    /// Makes the handle refuse all further changes, and returns the error of this one.
    #[cold]
    pub(crate) fn fail(&self, cause: InDoubtCause) -> AppendLogError {
        // ORDER: none: see `has_failed`.
        self.failed.store(true, Ordering::Relaxed);
        AppendLogError::InDoubt(cause)
    }

    /// Makes a state durable. The caller holds `state`.
    ///
    /// # Errors
    /// After an error the handle accepts no more changes.
    ///
    /// # Cost
    /// One drain.
    pub(crate) fn commit_state(&self, new: &LogState) -> Result<(), AppendLogError> {
        let mut record = state::record(&self.places, &self.uuid, new);
        match self.redo.commit(&mut record, &[]) {
            Ok(_) => Ok(()),
            Err(error) => {
                // ORDER: none: see `has_failed`.
                self.failed.store(true, Ordering::Relaxed);
                Err(error.into())
            }
        }
    }
}
