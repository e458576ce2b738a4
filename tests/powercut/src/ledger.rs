//! A program under test: each of its threads keeps an account in a pool, and prints which transactions are durable.
//!
//! Transaction `n` of a thread stores `n` to words on three pages, and allocates an object whose content follows from
//! the thread and `n`. It puts the object in the place of the one from [`OBJECTS_KEPT`] transactions before, and frees
//! that one. Every [`SHARED_INTERVAL`]th transaction also adds 1 to a word that all threads share. So the number alone
//! determines the expected content.

use anyhow::{Context, Result, ensure};
use lode_heap::{Heap, HeapError, Pool, Tx};
use lode_layout::{Durability, LayoutName, PoolOffset, WORD};
use lode_pmem::Mapping;
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Number of objects that an account keeps.
pub const OBJECTS_KEPT: u64 = 32;
/// Number of transactions of a thread after which it adds to the shared word.
pub const SHARED_INTERVAL: u64 = 8;
/// Offsets in an account to which the number is stored, on pages of their own.
const COPIES: [u64; 3] = [0, 4096, 8192];
/// Offset of an account's list of objects.
const LIST: u64 = 64;
const ACCOUNT_LEN: u64 = COPIES[2] + 64;
/// The types of the objects in the pool.
const ROOT_TYPE: u64 = 1;
const ACCOUNT_TYPE: u64 = 2;
const OBJECT_TYPE: u64 = 3;

/// A pool with an account for each thread.
#[derive(Debug)]
pub struct Ledger {
    pool: Pool,
    root: PoolOffset,
}

impl Ledger {
    /// Makes a pool of `size` bytes at `path` with `threads` accounts, and closes it.
    ///
    /// # Errors
    /// Any error of pool or heap.
    pub fn create(path: &Path, size: u64, threads: u64) -> Result<()> {
        let layout = LayoutName::new("ledger").ok().context("a layout name")?;
        let content = |tx: &Tx<'_, &Mapping>| {
            let root = tx.alloc_zeroed((2 + threads) * WORD, WORD, ROOT_TYPE)?;
            tx.store8(root, threads);
            for thread in 0..threads {
                let account = tx.alloc_zeroed(ACCOUNT_LEN, WORD, ACCOUNT_TYPE)?;
                tx.store8(root.plus((2 + thread) * WORD), account.get());
            }
            tx.set_root(root);
            Ok::<_, HeapError>(())
        };
        create(path, size, layout, |heap| Ok(heap.run(content)?))
    }

    /// Opens the pool at `path` at durability `commit`.
    ///
    /// # Errors
    /// Any error of pool or heap.
    pub fn open(path: &Path) -> Result<Ledger> {
        let (pool, root) = open(path)?;
        Ok(Ledger { pool, root })
    }

    /// Closes the pool.
    ///
    /// # Errors
    /// Any error of pool or heap.
    pub fn close(self) -> Result<()> {
        Ok(self.pool.close()?)
    }

    /// Returns the number of threads that have accounts.
    pub fn threads(&self) -> u64 {
        self.load(self.root)
    }

    /// Runs transactions of `thread` until one fails. Calls `durable` with the number of each transaction that is
    /// durable.
    ///
    /// # Errors
    /// The error that ended it.
    pub fn run_thread(&self, thread: u64, durable: impl Fn(u64) -> io::Result<()>) -> Result<()> {
        for number in self.number(thread) + 1.. {
            self.pool.heap().run(|tx| self.transact(tx, thread, number))?;
            durable(number)?;
        }
        Ok(())
    }

    /// Compares the pool with the expected content. Of each thread, at least `acknowledged[thread]` transactions must
    /// be there, and at most one more that was in flight. Each must be there whole.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, acknowledged: &[u64]) -> Result<()> {
        ensure!(self.threads() == acknowledged.len() as u64, "the pool has {} accounts", self.threads());
        let mut shared = 0;
        for (thread, known) in (0..).zip(acknowledged) {
            let number = self.number(thread);
            ensure!(
                number >= *known,
                "thread {thread}: {known} transactions were acknowledged, {number} are there"
            );
            ensure!(
                number <= known + 1,
                "thread {thread}: {number} transactions are there, after {known} only one was under way"
            );
            self.verify_account(thread, number)
                .with_context(|| format!("thread {thread}, transaction {number}"))?;
            shared += number / SHARED_INTERVAL;
        }
        let found = self.load(self.shared_at());
        ensure!(found == shared, "the shared word is {found} and not {shared}");
        Ok(())
    }

    /// Runs one transaction of each thread, as after any other open.
    ///
    /// # Errors
    /// Any error of the heap.
    pub fn run_one_each(&self) -> Result<(), HeapError> {
        for thread in 0..self.threads() {
            let number = self.number(thread) + 1;
            self.pool.heap().run(|tx| self.transact(tx, thread, number))?;
        }
        Ok(())
    }

    fn transact(&self, tx: &Tx<'_, Arc<Mapping>>, thread: u64, number: u64) -> Result<(), HeapError> {
        let account = self.account(thread);
        for copy in COPIES {
            tx.store8(account.plus(copy), number);
        }
        let place = account.plus(LIST + number % OBJECTS_KEPT * WORD);
        let old = PoolOffset::new(tx.load8(place));
        let new = tx.alloc_with(&content(thread, number), WORD, OBJECT_TYPE)?;
        tx.store8(place, new.get());
        if old != PoolOffset::NULL {
            tx.free(old)?;
        }
        if number.is_multiple_of(SHARED_INTERVAL) {
            tx.lock(self.root)?;
            tx.store8(self.shared_at(), tx.load8(self.shared_at()) + 1);
        }
        Ok(())
    }

    fn verify_account(&self, thread: u64, number: u64) -> Result<()> {
        let account = self.account(thread);
        for copy in COPIES {
            let found = self.load(account.plus(copy));
            ensure!(found == number, "the copy at {copy} is {found}");
        }
        for transaction in number.saturating_sub(OBJECTS_KEPT - 1).max(1)..=number {
            let object = PoolOffset::new(self.load(account.plus(LIST + transaction % OBJECTS_KEPT * WORD)));
            ensure!(object != PoolOffset::NULL, "the object of transaction {transaction} is not there");
            let expected = content(thread, transaction);
            let found: Vec<u64> =
                (0..expected.len() as u64).map(|index| self.load(object.plus(index * WORD))).collect();
            ensure!(
                found == expected,
                "the object of transaction {transaction} at {object} has other content"
            );
        }
        Ok(())
    }

    fn load(&self, at: PoolOffset) -> u64 {
        self.pool.heap().memory().reading(|memory| memory.load8(at)).expect("the file is as long as the pool")
    }

    fn number(&self, thread: u64) -> u64 {
        self.load(self.account(thread))
    }

    fn account(&self, thread: u64) -> PoolOffset {
        PoolOffset::new(self.load(self.root.plus((2 + thread) * WORD)))
    }

    fn shared_at(&self) -> PoolOffset {
        self.root.plus(WORD)
    }
}

/// Runs `ledger` with all its threads until a transaction fails. Prints each acknowledgement as a line `THREAD NUMBER`.
///
/// # Errors
/// The error that ended the threads.
pub fn run(ledger: &Ledger) -> Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..ledger.threads())
            .map(|thread| {
                scope.spawn(move || {
                    ledger.run_thread(thread, |number| writeln!(io::stdout(), "{thread} {number}"))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("workers return their errors"))
    })
}

/// Returns the number that the last line of each thread in `output` acknowledges. A line that was cut short is ignored.
pub fn acknowledged(output: &str, threads: u64) -> Vec<u64> {
    let mut numbers = vec![0; threads as usize];
    for line in output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words = line
            .split_once(' ')
            .and_then(|(thread, number)| Some((thread.parse::<usize>().ok()?, number.parse::<u64>().ok()?)));
        if let Some((number, value)) =
            words.and_then(|(thread, value)| Some((numbers.get_mut(thread)?, value)))
        {
            *number = value;
        }
    }
    numbers
}

/// Returns the words of the object that transaction `number` of `thread` makes. It draws from few lengths, since each
/// needs a superblock of its own in a small pool.
fn content(thread: u64, number: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(thread << 48 | number);
    let len = [1, 6, 6, 6, 24, 150][random.usize(..6)];
    (0..len).map(|_| random.u64(..)).collect()
}

/// Makes a pool at durability `commit` that does not grow, with what `content` puts into it, and closes it.
pub(crate) fn create(
    path: &Path,
    size: u64,
    layout: LayoutName,
    content: impl FnOnce(&Heap<&Mapping>) -> Result<()>,
) -> Result<()> {
    let options = CreateOptions {
        durability: Some(Durability::Commit),
        size_max: None,
        ..CreateOptions::new(size, layout)
    };
    Ok(Pool::create_with(path, &options, content)?.close()?)
}

/// Opens the pool at `path` at durability `commit`. Returns it with its root, which it must have.
pub(crate) fn open(path: &Path) -> Result<(Pool, PoolOffset)> {
    let options = OpenOptions { durability: Some(Durability::Commit), ..OpenOptions::new(Access::ReadWrite) };
    let pool = Pool::open(path, &options)?;
    let root = pool.heap().root()?;
    ensure!(root != PoolOffset::NULL, "the pool has no root");
    Ok((pool, root))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn partial_lines_are_ignored() {
        assert_eq!(acknowledged("0 1\n1 1\n0 2\n1 27\n0 31", 3), [2, 27, 0]);
    }

    #[test]
    fn verify_finds_missing_and_extra_transactions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        Ledger::create(&path, 1 << 20, 2).unwrap();
        let ledger = Ledger::open(&path).unwrap();
        for _ in 0..2 * OBJECTS_KEPT + 5 {
            ledger.run_one_each().unwrap();
        }
        let number = 2 * OBJECTS_KEPT + 5;
        ledger.verify(&[number, number - 1]).unwrap();
        for wrong in [[number + 1, number], [number - 2, number]] {
            assert!(ledger.verify(&wrong).is_err(), "{wrong:?}");
        }
        let account = ledger.account(1);
        let object = ledger.load(account.plus(LIST));
        for at in [account.plus(COPIES[2]), PoolOffset::new(object), ledger.shared_at()] {
            let damage = |change: u64| {
                let word = ledger.load(at);
                let changed: Result<(), HeapError> = ledger.pool.heap().run(|tx| {
                    tx.store8(at, word ^ change);
                    Ok(())
                });
                changed.unwrap();
            };
            damage(1);
            assert!(ledger.verify(&[number, number]).is_err(), "damage at {at}");
            damage(1);
        }
        ledger.verify(&[number, number]).unwrap();
        ledger.close().unwrap();
    }
}
