//! An open pool: the engine, and what only C programs need.

use crate::buffers;
use crate::failure::{failure, is_undone};
use crate::fatal::fatal;
use crate::first_arenas::first_arenas;
use crate::generation::generation;
use crate::memory::ObjMemory;
use crate::mode::mode as mode_of_pools;
use crate::oid::Oid;
use crate::owner::{Holder, Owner};
use crate::settings::PoolSettings;
use lode_capi_entry::{Failure, PoolFiles, PoolMemory, unless_refused, variable};
use lode_layout::{PmdkObj, PoolOffset};
use lode_obj::{ClassDescription, Finding, Mode, ObjError, ObjView, Pool, Transaction};
use lode_pmem::{FaultScope, Medium};
use std::ffi::c_void;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An open pool.
#[derive(Debug)]
pub(crate) struct OpenPool {
    pub(crate) engine: Pool<ObjMemory>,
    /// Address of the first byte, which is the program's handle.
    pub(crate) base: usize,
    /// The number that OIDs of its objects have.
    pub(crate) uuid_lo: u64,
    /// Offset of the heap.
    heap: u64,
    pub(crate) settings: PoolSettings,
    /// The process that has the pool.
    pub(crate) owner: Owner,
    /// The generation of the process to which `engine` belongs.
    generation: u32,
    /// The failure of this process to take the pool over.
    refusal: OnceLock<Failure>,
    user_data: AtomicPtr<c_void>,
}

impl OpenPool {
    /// Makes a pool at `path`, as [`PoolFiles::create`] says, with this name of its layout.
    pub(crate) fn create(
        files: &PoolFiles,
        path: &Path,
        layout: &[u8],
        len: u64,
        mode: u32,
    ) -> Result<OpenPool, Failure> {
        let (owner, obj_mode) = (Owner::new()?, mode_of_pools(&variable)?);
        let new = files.create(path, len, mode)?;
        Pool::format(&new.medium, layout).map_err(|error| failure(&error, ""))?;
        OpenPool::of(new.publish()?, obj_mode, || owner)
    }

    /// Opens the pool at `path`, whose layout has this name if one is given.
    pub(crate) fn open(files: &PoolFiles, path: &Path, layout: Option<&[u8]>) -> Result<OpenPool, Failure> {
        let (owner, obj_mode) = (Owner::new()?, mode_of_pools(&variable)?);
        unless_refused(|| {
            let memory = files.open(path)?;
            check_replicas(&memory, layout)?;
            OpenPool::of(memory, obj_mode, || owner)
        })
    }

    /// Recovers the pool, which has this mode and this owner after a success.
    fn of(memory: PoolMemory, mode: Mode, owner: impl FnOnce() -> Owner) -> Result<OpenPool, Failure> {
        let uuid_lo = lode_obj::pool_number(memory.header().poolset_uuid.as_bytes());
        let start = memory.memory().locate(PoolOffset::new(0), memory.memory().len());
        let start = start.map_err(|fault| failure(&fault.into(), ""))?;
        let grows = memory.can_grow();
        let mut engine = Pool::open(ObjMemory(memory)).map_err(|error| failure(&error, ""))?;
        engine.set_mode(mode);
        engine.set_arenas(first_arenas());
        if grows {
            engine.let_grow();
        }
        let view = ObjView::open(engine.medium()).map_err(|error| failure(&error, ""))?;
        let heap = view.descriptor().heap;
        let (generation, refusal) = (generation(), OnceLock::new());
        let base = start.as_ptr().expose_provenance();
        let settings = PoolSettings::new();
        let user_data = AtomicPtr::default();
        let owner = owner();
        Ok(OpenPool { engine, base, uuid_lo, heap, settings, owner, generation, refusal, user_data })
    }

    /// Returns the bytes of the pool.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.engine.medium().memory().len()
    }

    /// Returns the bytes of address space that the pool may take.
    pub(crate) fn reserved(&self) -> u64 {
        self.engine.medium().memory().reserved()
    }

    /// Returns true if the pool has replicas beside the master.
    #[inline]
    pub(crate) fn has_replicas(&self) -> bool {
        self.engine.medium().0.has_replicas()
    }

    /// Returns the offsets of the heap.
    #[inline]
    pub(crate) fn heap(&self) -> Range<u64> {
        self.heap..self.engine.heap_end()
    }

    /// Returns the pool for this process, a child of a fork, after its owner has closed it or is gone: the same mapping, with a new
    /// engine that has recovered it. Settings, classes and arenas that the program has made are those of the moment of the fork.
    ///
    /// # Errors
    /// Those of an open. The mapping stays.
    ///
    /// # Safety
    /// This process has taken [`owner`](OpenPool::owner). After a success nothing uses the engine of this value any more, and it is never
    /// dropped.
    pub(crate) unsafe fn taken_over(&self) -> Result<OpenPool, Failure> {
        // SAFETY: - the caller's promise.
        let memory = unsafe { self.engine.medium().0.inherited() }?;
        let pool = OpenPool::of(memory, self.engine.mode(), || self.owner.handed_on())?;
        pool.engine.medium().0.unmap_on_drop();
        pool.settings.copy(&self.settings);
        pool.engine.set_growth_step(self.engine.growth_step());
        pool.set_user_data(self.user_data());
        for (id, class) in (0..=u8::MAX).filter_map(|id| Some((id, self.engine.class(id)?))) {
            // The new engine has the default ones.
            let _ = pool.engine.add_class(&ClassDescription { id: Some(id), ..class });
        }
        pool.engine.follow_arenas(&self.engine);
        Ok(pool)
    }

    /// Returns true if this process could not take the pool over.
    pub(crate) fn has_refused(&self) -> bool {
        self.refusal.get().is_some()
    }

    /// Notes why this process could not take the pool over.
    pub(crate) fn refuse(&self, failure: Failure) {
        let _ = self.refusal.set(failure);
    }

    /// Fails in a child of a fork, as long as the process is there that has the pool: transactions, allocations and the end of the pool
    /// belong to that.
    #[inline]
    pub(crate) fn check_owner(&self, call: &str) -> Result<(), Failure> {
        if self.is_own() { Ok(()) } else { Err(self.foreign(call)) }
    }

    #[cold]
    fn foreign(&self, call: &str) -> Failure {
        if let Some(refusal) = self.refusal.get() {
            let text = format!(
                "{call}: the pool of a process that is gone could not be recovered: {}",
                refusal.text
            );
            return Failure::new(refusal.errno, text);
        }
        Failure::invalid(match self.owner.holder() {
            Holder::Present(name) if name.number() != std::process::id() => format!(
                "{call}: the pool belongs to process {}; wait until that has closed it, or has ended",
                name.number()
            ),
            _ => format!(
                "{call}: the transaction began in the parent of this process, which rolls it back; end it"
            ),
        })
    }

    /// Makes stores of a child of a fork durable while its parent has the pool. Those that the parent's log covers count after its next
    /// checkpoint, which this asks for.
    pub(crate) fn persist_of_child(&self, at: PoolOffset, len: u64) -> Result<(), ObjError> {
        let medium = self.engine.medium();
        FaultScope::run(|| medium.0.flush_in_child(at, len))?;
        // ORDER: the bytes are durable on return.
        medium.drain()?;
        self.owner.note_persist();
        Ok(())
    }

    /// Makes all changes durable at home before a fork: the log covers nothing but open transactions then.
    pub(crate) fn checkpoint_for_children(&self) {
        // A log that has failed refuses the next commit, too.
        let _ = self.engine.checkpoint();
    }

    /// Returns true if the pool at `path` is sound. Changes nothing.
    ///
    /// # Errors
    /// Those of an open.
    pub(crate) fn check(files: &PoolFiles, path: &Path, layout: Option<&[u8]>) -> Result<bool, Failure> {
        let memory = files.open_to_check(path)?;
        check_replicas(&memory, layout)?;
        Ok(!lode_obj::check(&memory).iter().any(Finding::is_damage))
    }

    /// Closes the pool, so that PMDK opens it.
    ///
    /// # Durability
    /// On return.
    pub(crate) fn close(self) -> Result<(), Failure> {
        buffers::release_all(&(self.base..self.base + self.len() as usize));
        let OpenPool { engine, owner, .. } = self;
        let closed = engine.close().map_err(|error| failure(&error, "pmemobj_close"));
        owner.release();
        closed
    }

    /// Begins a transaction.
    #[inline]
    pub(crate) fn begin(&self) -> Result<Transaction, Failure> {
        self.engine.begin().map_err(|error| failure(&error, "pmemobj_tx_begin"))
    }

    /// Commits a transaction. After a failure it is aborted, but for the bytes of the ranges `kept`. Ends the process if the outcome is in doubt, which only the next open
    /// decides.
    ///
    /// # Durability
    /// On return.
    #[inline]
    pub(crate) fn commit(&self, transaction: Transaction, kept: &[Range<u64>]) -> Result<(), Failure> {
        self.check_owner("pmemobj_tx_commit")?;
        let committed = self.engine.commit_keeping(transaction, kept);
        if self.owner.take_persists() {
            self.checkpoint_for_children();
        }
        let Err(error) = committed else { return Ok(()) };
        if !is_undone(&error) {
            fatal(&format!("a commit is in doubt: {error}; open the pool again"));
        }
        Err(failure(&error, "pmemobj_tx_commit"))
    }

    /// Aborts a transaction, but for the bytes of the ranges `kept`. Ends the process if the old bytes can't be put back.
    /// Does nothing in a child of a fork, where the transaction is its parent's.
    pub(crate) fn abort(&self, transaction: Transaction, kept: &[Range<u64>]) {
        if !self.is_own() {
            return;
        }
        if let Err(error) = self.engine.abort_keeping(transaction, kept) {
            fatal(&format!("an abort could not put the old bytes back: {error}; open the pool again"));
        }
    }

    /// Returns true if the engine is this process's own.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.generation == generation() && self.owner.is_here()
    }

    /// Returns the offset of an address in the pool; `None` for any other.
    pub(crate) fn offset_of(&self, address: *const c_void) -> Option<PoolOffset> {
        let off = address.addr().checked_sub(self.base)? as u64;
        (off < self.len()).then(|| PoolOffset::new(off))
    }

    /// Returns the address of an offset. Offsets outside of the pool have addresses outside of it.
    pub(crate) fn address_of(&self, at: PoolOffset) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut::<c_void>(self.base).wrapping_byte_add(at.get() as usize)
    }

    /// Returns the name of the object whose data begins at an offset.
    pub(crate) fn oid(&self, at: PoolOffset) -> Oid {
        Oid { pool_uuid_lo: self.uuid_lo, off: at.get() }
    }

    /// Returns the address that the program has set.
    pub(crate) fn user_data(&self) -> *mut c_void {
        // ORDER: pairs with `set_user_data`.
        self.user_data.load(Ordering::Acquire)
    }

    /// Sets the address that `user_data` returns.
    pub(crate) fn set_user_data(&self, data: *mut c_void) {
        // ORDER: what the program stored at the address is visible with it.
        self.user_data.store(data, Ordering::Release);
    }
}

/// Checks the descriptor of each replica, and the state and the heap's header of all but the master, whose are checked by what opens it.
fn check_replicas(memory: &PoolMemory, layout: Option<&[u8]>) -> Result<(), Failure> {
    memory.replicas().try_for_each(|replica| check_descriptor(replica, layout))?;
    for (number, replica) in memory.replicas().enumerate().skip(1) {
        ObjView::open(replica).map_err(|error| {
            let text = format!("{error}; make it anew from the others with pmempool sync");
            Failure::invalid(format!("inconsistent replica #{number}")).and(&text)
        })?;
    }
    Ok(())
}

/// Checks the descriptor in PMDK's words, and compares the name of the pool's layout if one is given.
fn check_descriptor<M: Medium>(memory: &M, layout: Option<&[u8]>) -> Result<(), Failure> {
    let mut bytes = [0; PmdkObj::LEN];
    let read = memory.memory().reading(|memory| memory.read(PoolOffset::new(PmdkObj::OFF), &mut bytes));
    read.map_err(|fault| failure(&fault.into(), ""))?;
    let found = PmdkObj::decode(&bytes).map_err(|error| match error.field {
        "checksum" => Failure::invalid("invalid checksum of pool descriptor").and(&error.to_string()),
        _ => Failure::invalid(format!("the descriptor of the pool: {error}; restore the pool from a copy")),
    })?;
    let Some(wanted) = layout.filter(|wanted| *wanted != found.layout) else { return Ok(()) };
    let [wanted, found] = [wanted, &found.layout].map(String::from_utf8_lossy);
    Err(Failure::invalid(format!(
        "wrong layout (\"{wanted}\"), pool created with layout \"{found}\"; pass that one, or null for any"
    )))
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::PmdkKind;
    use lode_pmem::{ByAddress, Cpu};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// Calls `call` until the lock of the pool is free: a process that another test starts has it until its program runs.
    fn unlocked<T>(call: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        loop {
            match call() {
                Err(failure) if failure.errno == libc::EAGAIN => std::thread::yield_now(),
                outcome => return outcome,
            }
        }
    }

    #[test]
    fn refusals_have_pmdks_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let instructions = ByAddress::new(Cpu::oldest());
        let files = PoolFiles { kind: PmdkKind::Objects, instructions, forced: Some(true) };
        let pool = OpenPool::create(&files, &path, b"name", 8 << 20, 0o600).unwrap();
        assert_eq!(OpenPool::open(&files, &path, None).unwrap_err().errno, libc::EAGAIN);
        assert_eq!(
            (pool.offset_of(pool.address_of(PoolOffset::new(8))), pool.len()),
            (Some(PoolOffset::new(8)), 8 << 20)
        );
        assert_eq!(pool.offset_of(pool.address_of(PoolOffset::new(pool.len()))), None);
        pool.close().unwrap();
        assert_eq!(unlocked(|| OpenPool::check(&files, &path, Some(b"name"))), Ok(true));
        let file = File::options().write(true).open(&path).unwrap();
        for (layout, damaged, words) in [
            (Some(&b"nam"[..]), 0, "wrong layout (\"nam\"), pool created with layout \"name\""),
            (Some(b""), 0, "wrong layout (\"\"), pool created with layout \"name\""),
            (Some(b"name"), 0x30_2000, "heap: invalid header's checksum; "),
            (None, 0x1400, "invalid checksum of pool descriptor; "),
            (Some(b"nam"), 0x1400, "invalid checksum of pool descriptor; "),
        ] {
            if damaged != 0 {
                file.write_all_at(&[7; 64], damaged).unwrap();
            }
            let failure =
                unlocked(|| OpenPool::open(&files, &path, layout).map(OpenPool::close)).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL);
            assert!(failure.text.starts_with(words), "{failure:?}");
            let checked = unlocked(|| OpenPool::check(&files, &path, layout));
            if damaged == 0x30_2000 {
                assert_eq!(checked, Ok(false));
            } else {
                assert!(checked.unwrap_err().text.starts_with(words));
            }
        }
    }

    #[test]
    fn child_of_a_fork_is_no_owner() {
        let folder = tempfile::tempdir().unwrap();
        let instructions = ByAddress::new(Cpu::oldest());
        let files = PoolFiles { kind: PmdkKind::Objects, instructions, forced: Some(true) };
        let pool = OpenPool::create(&files, &folder.path().join("pool"), b"", 8 << 20, 0o600).unwrap();
        assert_eq!(pool.check_owner("x"), Ok(()));
        let other = OpenPool { generation: pool.generation.wrapping_add(1), ..pool };
        assert_eq!(other.check_owner("x").unwrap_err().errno, libc::EINVAL);
    }
}
