//! The live mappings, for a signal handler. Reading takes no lock, and entries are never freed.

use rustix::fs::fstat;
use rustix::io::pread;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of bytes of a pool's path that are kept for messages.
const NAME_LEN: usize = 256;
/// Number of separate bad ranges seen by faults; the last range grows to cover all further ones.
const LOST_RANGES_MAX: usize = 16;
/// Bytes that a device loses at least, when it loses any.
const SECTOR: usize = 512;
/// The descriptor of a mapping without a file.
const NO_FILE: RawFd = -1;

/// A mapping's entry. It is reused after its mapping is gone but never freed, so a handler may hold it at any time.
#[derive(Debug)]
pub(crate) struct LiveMapping {
    base: AtomicUsize,
    /// Length of the address space in bytes; 0 while the entry is not in use.
    size: AtomicUsize,
    /// True if a fork's child must not touch the mapping.
    shared: AtomicBool,
    /// True in such a child.
    revoked: AtomicBool,
    /// True if any bad range is known, so that the usual check costs one load.
    bad: AtomicBool,
    /// Lock of the thread that adds to `lost`.
    writing: AtomicBool,
    lost: [LostRange; LOST_RANGES_MAX],
    /// The mapped file, or `NO_FILE`.
    file: AtomicI32,
    name: [AtomicU8; NAME_LEN],
    next: AtomicPtr<LiveMapping>,
}

/// A range that a fault has shown to be lost. Not in use while `end` is 0.
#[derive(Debug)]
struct LostRange {
    start: AtomicU64,
    end: AtomicU64,
}

/// The entry of all mappings that the signal handler must not know. It has no bad range.
pub(crate) static UNKNOWN: LiveMapping = LiveMapping::new();
/// List of all entries.
static ALL: AtomicPtr<LiveMapping> = AtomicPtr::new(ptr::null_mut());
/// Entries that are not in use. A handler never touches this list.
static FREE: Mutex<Vec<&'static LiveMapping>> = Mutex::new(Vec::new());

impl LiveMapping {
    const fn new() -> LiveMapping {
        LiveMapping {
            base: AtomicUsize::new(0),
            size: AtomicUsize::new(0),
            shared: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
            bad: AtomicBool::new(false),
            writing: AtomicBool::new(false),
            lost: [const { LostRange { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; LOST_RANGES_MAX],
            file: AtomicI32::new(NO_FILE),
            name: [const { AtomicU8::new(0) }; NAME_LEN],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Enters the mapping of `size` bytes at `base`, and returns its entry. A file has the bytes at the offsets of the mapping, and
    /// stays open until the entry is released.
    pub(crate) fn register(
        base: usize,
        size: usize,
        shared: bool,
        source: Option<(Option<BorrowedFd<'_>>, &Path)>,
    ) -> &'static LiveMapping {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let live = free.unwrap_or_else(|| append(Box::leak(Box::new(LiveMapping::new()))));
        let name = source.map_or(&b"anonymous memory"[..], |(_, path)| path.as_os_str().as_encoded_bytes());
        // A long path is cut at the start: its end identifies it better.
        let name = &name[name.len().saturating_sub(NAME_LEN)..];
        for (index, place) in live.name.iter().enumerate() {
            // ORDER: all fields of an entry are stored before its size, which publishes it.
            place.store(name.get(index).copied().unwrap_or(0), Ordering::Relaxed);
        }
        for lost in &live.lost {
            // ORDER: as above.
            lost.end.store(0, Ordering::Relaxed);
        }
        let file = source.and_then(|(file, _)| file).map_or(NO_FILE, |file| file.as_raw_fd());
        // ORDER: as above.
        live.file.store(file, Ordering::Relaxed);
        // ORDER: as above.
        live.bad.store(false, Ordering::Relaxed);
        // ORDER: as above.
        live.revoked.store(false, Ordering::Relaxed);
        // ORDER: as above.
        live.shared.store(shared, Ordering::Relaxed);
        // ORDER: as above.
        live.base.store(base, Ordering::Relaxed);
        // ORDER: publishes the entry to `find`.
        live.size.store(size, Ordering::Release);
        live
    }

    /// Releases the entry. Call it before the address space is unmapped.
    pub(crate) fn unregister(&'static self) {
        // ORDER: before the addresses can be mapped again, so a later fault at them finds no entry here.
        self.size.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Returns true in the child of a fork, which must not touch the mapping.
    pub(crate) fn is_revoked(&self) -> bool {
        // ORDER: none: set in the child before any of its own code runs.
        self.revoked.load(Ordering::Relaxed)
    }

    /// Returns true if any bad range is known.
    #[inline]
    pub(crate) fn any_bad(&self) -> bool {
        // ORDER: pairs with the release in `mark_bad`: a thread that sees the flag sees the range.
        self.bad.load(Ordering::Acquire)
    }

    /// Records that a bad range is known.
    pub(crate) fn mark_bad(&self) {
        // ORDER: the range is stored before the flag.
        self.bad.store(true, Ordering::Release);
    }

    /// Returns true if the file can be read from `start` to `end`. Bytes that can be read are not lost: an access to them fails
    /// if it needs space and the file system has none, or refuses the store. The end of the file, and what is after it, can't be read.
    /// The signal handler calls it: it makes system calls alone, and takes no lock.
    pub(crate) fn is_readable(&self, start: u64, end: u64) -> bool {
        // ORDER: none: published by the size, which `find` acquired.
        let file = self.file.load(Ordering::Relaxed);
        if file == NO_FILE {
            return false;
        }
        // SAFETY: - the file stays open until the entry is released: `Mapping` drops its memory before its file.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let Some(len) = fstat(file).ok().and_then(|stat| u64::try_from(stat.st_size).ok()) else {
            return false;
        };
        // Small: it lies on the stack of a signal handler.
        let mut sector = [0; SECTOR];
        let can_read = |at: u64| pread(file, &mut sector, at) == Ok(SECTOR.min((len - at) as usize));
        start < len && (start..end.min(len)).step_by(SECTOR).all(can_read)
    }

    /// Records the bytes from `start` to `end` as lost. The signal handler calls it, and simulated losses do. The
    /// handler blocks all signals, and this function faults nowhere, so a thread that holds the lock always proceeds.
    pub(crate) fn record_bad(&self, start: u64, end: u64) {
        // ORDER: the lock is taken before the ranges are read.
        while self.writing.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // ORDER: none: only the holder of the lock writes the ranges.
        let of = |lost: &LostRange| (lost.start.load(Ordering::Relaxed), lost.end.load(Ordering::Relaxed));
        let free_or_known = self.lost.iter().find(|lost| {
            let (known_start, known_end) = of(lost);
            known_end == 0 || known_start <= start && end <= known_end
        });
        let place = free_or_known.unwrap_or(&self.lost[LOST_RANGES_MAX - 1]);
        let (old_start, old_end) = of(place);
        let start = if old_end == 0 { start } else { old_start.min(start) };
        // ORDER: the start is stored before the end: a reader that finds the end includes all of the range.
        place.start.store(start, Ordering::Release);
        // ORDER: as above.
        place.end.store(old_end.max(end), Ordering::Release);
        // ORDER: the lock is released after the ranges are written.
        self.writing.store(false, Ordering::Release);
        self.mark_bad();
    }

    /// Returns the ranges that faults have shown to be lost.
    pub(crate) fn lost_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.lost.iter().filter_map(|lost| {
            // ORDER: the end is read first: a range with an end has a start.
            let end = lost.end.load(Ordering::Acquire);
            // ORDER: see above.
            (end != 0).then(|| lost.start.load(Ordering::Acquire)..end)
        })
    }

    /// Calls `each` with the bytes of the mapping's name.
    pub(crate) fn name(&self, each: impl FnMut(u8)) {
        // ORDER: none: published by the size, which `find` acquired.
        self.name
            .iter()
            .map(|byte| byte.load(Ordering::Relaxed))
            .take_while(|byte| *byte != 0)
            .for_each(each);
    }
}

fn append(live: &'static LiveMapping) -> &'static LiveMapping {
    let place = ptr::from_ref(live).cast_mut();
    // ORDER: none: the exchange below publishes the value that this load read.
    let mut first = ALL.load(Ordering::Relaxed);
    loop {
        // ORDER: as above.
        live.next.store(first, Ordering::Relaxed);
        // ORDER: an entry is complete before a handler can reach it.
        match ALL.compare_exchange_weak(first, place, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return live,
            Err(other) => first = other,
        }
    }
}

fn all() -> impl Iterator<Item = &'static LiveMapping> {
    // ORDER: pairs with the release in `append`.
    let mut next = ALL.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: - every pointer in the list is null, or was leaked and is valid for ever.
        let live: &'static LiveMapping = unsafe { next.as_ref() }?;
        // ORDER: as above.
        next = live.next.load(Ordering::Acquire);
        Some(live)
    })
}

/// Returns the live mapping that holds `address`, and its base.
pub(crate) fn find(address: usize) -> Option<(&'static LiveMapping, usize)> {
    all().find_map(|live| {
        // ORDER: pairs with the release in `enter`: an entry with a size is complete.
        let size = live.size.load(Ordering::Acquire);
        // ORDER: see above.
        let base = live.base.load(Ordering::Relaxed);
        (base..base.saturating_add(size)).contains(&address).then_some((live, base))
    })
}

/// Makes every shared mapping inaccessible in the child of a fork. The child can then neither store into the parent's
/// pool nor map other memory at its addresses.
pub(crate) fn revoke_all() {
    for live in all() {
        // ORDER: the child has one thread; the parent's stores came before the fork.
        let (base, size) = (live.base.load(Ordering::Relaxed), live.size.load(Ordering::Relaxed));
        // ORDER: as above.
        if size == 0 || !live.shared.load(Ordering::Relaxed) {
            continue;
        }
        // ORDER: as above.
        live.revoked.store(true, Ordering::Relaxed);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let base = ptr::with_exposed_provenance_mut(base);
        // SAFETY: - the range belongs to a mapping of this crate. All access goes through the fix-up table, or through
        //           references that a child must not use.
        let revoked = unsafe { mmap_anonymous(base, size, ProtFlags::empty(), flags) };
        if revoked.is_err() {
            // The child must not continue: it could store into the parent's pool.
            std::process::abort();
        }
    }
}
