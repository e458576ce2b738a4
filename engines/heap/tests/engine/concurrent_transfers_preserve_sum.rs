//! Threads that lock the same accounts in inverted order make progress, and no money is lost.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{PCell, PMutex, Persist};
use std::sync::Barrier;
use std::thread;

lode_heap::brand!(Bank);

const ACCOUNTS: usize = 6;
const START: i64 = 1000;
const TRANSFERS: u64 = 200;

#[derive(Persist)]
#[persist(brand = Bank)]
#[repr(C)]
struct Accounts {
    accounts: [PMutex<PCell<i64, Bank>, Bank>; ACCOUNTS],
    made: PMutex<PCell<u64, Bank>, Bank>,
}

#[test]
fn lock_order_inversion_makes_progress() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Bank>();
    let bank: &Accounts = heap
        .root_or_init(|_| {
            let accounts = [(); ACCOUNTS].map(|()| PMutex::new(PCell::new(START)));
            Ok(Accounts { accounts, made: PMutex::new(PCell::new(0)) })
        })
        .unwrap();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for number in 0..4usize {
            let (heap, start) = (&heap, &start);
            scope.spawn(move || {
                start.wait();
                for step in 0..TRANSFERS {
                    let from = (number + step as usize) % ACCOUNTS;
                    // Half of the threads lock the lower account first, half the higher one.
                    let to = (from + if number % 2 == 0 { 1 } else { ACCOUNTS - 1 }) % ACCOUNTS;
                    heap.run(|tx| {
                        let from = bank.accounts[from].lock(tx)?;
                        let to = bank.accounts[to].lock(tx)?;
                        let left = from.get(tx)? - 1;
                        if step % 4 == 0 {
                            // Lets other threads run in between.
                            thread::yield_now();
                        }
                        from.set(tx, left)?;
                        to.set(tx, to.get(tx)? + 1)?;
                        let made = bank.made.lock(tx)?;
                        made.set(tx, made.get(tx)? + 1)
                    })
                    .unwrap();
                }
            });
        }
        // A reader without a lock sees each account whole.
        scope.spawn(|| {
            for _ in 0..1000 {
                let guard = heap.guard();
                let account = bank.accounts[0].read(&guard, |account| account.load(&guard)).unwrap();
                assert!(account.abs() < START + 4 * TRANSFERS as i64);
            }
        });
    });
    drop(heap);
    let heap = pool.typed::<Bank>();
    let bank: &Accounts = heap.root().unwrap().unwrap();
    let sum = heap.run(|tx| {
        assert_eq!(bank.made.lock(tx)?.get(tx)?, 4 * TRANSFERS);
        bank.accounts.iter().try_fold(0, |sum, account| Ok(sum + account.lock(tx)?.get(tx)?))
    });
    assert_eq!(sum, Ok(ACCOUNTS as i64 * START));
}
