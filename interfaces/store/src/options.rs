//! Options for opening a store.

use lode_pmem::Durability;
use std::time::Duration;

/// Size in bytes of a new store.
const SIZE_DEFAULT: u64 = 256 << 10;
/// Time after which a transaction that has returned before is made durable.
pub(crate) const LATER_INTERVAL: Duration = Duration::from_millis(100);

/// Options for opening a store: [`Store::options`](crate::Store::options).
///
/// # Example
/// ```
/// use lodestone::{Durability, Store};
///
/// # fn main() -> lodestone::Result<()> {
/// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
/// # let path = folder.path().join("stones");
/// let store = Store::options()
///     .size(2 << 20) // bytes to start with; the file grows
///     .size_max(1 << 30)
///     .durability(Durability::None) // for memory that loses its content with the power
///     .open(&path)?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) size: u64,
    pub(crate) size_max: Option<u64>,
    pub(crate) durability: Option<Durability>,
    pub(crate) snapshot_memory: Option<u64>,
    pub(crate) later_interval: Duration,
    pub(crate) later_bytes: Option<u64>,
}

impl Options {
    pub(crate) fn new() -> Options {
        Options {
            size: SIZE_DEFAULT,
            size_max: None,
            durability: None,
            snapshot_memory: None,
            later_interval: LATER_INTERVAL,
            later_bytes: None,
        }
    }

    /// Sets the size of a new store in bytes [default: 256 KiB]. Ignored if the store exists.
    pub fn size(&mut self, bytes: u64) -> &mut Options {
        self.size = bytes;
        self
    }

    /// Sets the size in bytes up to which a new store grows by itself [default: 1 TiB]. Ignored if the store exists.
    pub fn size_max(&mut self, bytes: u64) -> &mut Options {
        self.size_max = Some(bytes);
        self
    }

    /// Sets the durability in place of the one that the medium is found to offer. Memory that loses its content with the
    /// power is refused unless [`Durability::None`] is set.
    pub fn durability(&mut self, durability: Durability) -> &mut Options {
        self.durability = Some(durability);
        self
    }

    /// Sets the private memory in bytes that may keep replaced words for open snapshots [default: 256 MiB]. At this
    /// limit the oldest snapshot ends with an error.
    pub fn snapshot_memory(&mut self, bytes: u64) -> &mut Options {
        self.snapshot_memory = Some(bytes);
        self
    }

    /// Sets the time after which a transaction of [`Store::write_later`](crate::Store::write_later) is made durable
    /// [default: 100 ms]. A power cut takes what was committed in this time, and in that of a sync.
    pub fn later_interval(&mut self, interval: Duration) -> &mut Options {
        self.later_interval = interval;
        self
    }

    /// Sets the bytes of the log that may wait to be durable [default: 1 MiB]. At half of it a sync begins before the
    /// interval is over; at the limit the next transaction waits for it. When half of the
    /// log is full, a checkpoint makes all durable, whatever this limit is. Private memory of a few times as much is used
    /// meanwhile.
    pub fn later_bytes(&mut self, bytes: u64) -> &mut Options {
        self.later_bytes = Some(bytes);
        self
    }
}
