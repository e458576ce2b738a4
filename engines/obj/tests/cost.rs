//! What each call of a pool asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{PmdkHeader, PmdkKind, PoolOffset};
use lode_obj::{Action, Mode, ObjError, Pool, Request};
use lode_pmem::{Counted, Counts, Durability, Mapping, Medium};
use lode_testing::cost::{self, Table};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of the pool.
const SIZE: u64 = 16 << 20;
const OF_64: Request =
    Request { size: 64, type_number: 3, is_zeroed: true, class: None, arena: None, is_internal: false };
/// An object with a chunk of its own.
const HUGE: Request = Request { size: 1 << 20, is_zeroed: false, ..OF_64 };

/// An open pool whose calls are lines of a table.
struct Measured<'a> {
    pool: Pool<Arc<Counted<Mapping>>>,
    table: &'a mut Table,
    /// The first part of the names of the lines.
    prefix: &'a str,
}

impl Measured<'_> {
    /// Runs `call` and adds its line.
    fn measure<R>(
        &mut self,
        name: &str,
        call: impl FnOnce(&Pool<Arc<Counted<Mapping>>>) -> Result<R, ObjError>,
    ) -> (R, Counts) {
        let name = format!("{}-{name}", self.prefix);
        let (result, counts) = self.table.measure(self.pool.medium(), &name, || call(&self.pool));
        (result.unwrap(), counts)
    }

    /// Measures the calls that allocate and free objects.
    fn measure_objects(&mut self) {
        // The first object of a class makes a run; the next ones are what a program pays.
        for name in ["first", "64"] {
            self.measure(&format!("tx-alloc-{name}"), |pool| {
                let mut tx = pool.begin()?;
                pool.allocate(&mut tx, &OF_64)?;
                pool.commit(tx)
            });
        }
        let (huge, _) = self.measure("tx-alloc-huge", |pool| {
            let mut tx = pool.begin()?;
            let reservation = pool.allocate(&mut tx, &HUGE)?;
            pool.commit(tx)?;
            Ok(reservation.at)
        });
        self.measure("tx-free-huge", |pool| {
            let mut tx = pool.begin()?;
            pool.free(&mut tx, huge)?;
            pool.commit(tx)
        });
        self.measure("tx-alloc-abort", |pool| {
            let mut tx = pool.begin()?;
            pool.allocate(&mut tx, &OF_64)?;
            pool.abort(tx)
        });
        let (reservation, counts) = self.measure("reserve", |pool| pool.reserve(&OF_64));
        assert_eq!(counts.drains, 0, "a reservation is the process's alone");
        self.measure("publish", |pool| pool.publish(&[Action::Allocate(reservation)]));
        let (_, counts) = self.measure("free", |pool| pool.publish(&[Action::Free(reservation.at)]));
        assert!(counts.drains <= 2, "an image of the bits, and the record");
        let (reservation, _) = self.measure("reserve-again", |pool| pool.reserve(&OF_64));
        self.measure("cancel", |pool| {
            pool.cancel(&reservation);
            Ok(())
        });
    }

    /// Measures the calls on the bytes of `object`. Its units are free before the first call on them in an epoch.
    fn measure_bytes(&mut self, object: PoolOffset) {
        for ranges in [1, 4, 16] {
            for state in ["free", "covered"] {
                self.measure(&format!("tx-{ranges}-{state}"), |pool| {
                    let mut tx = pool.begin()?;
                    for index in 0..ranges {
                        let at = object.plus(8192 * (ranges + index));
                        pool.add_range(&mut tx, at, 8)?;
                        pool.medium().store8(at, 7);
                    }
                    pool.commit(tx)
                });
            }
        }
        // The first range leaves no room in the record, and fills more than one entry of a spill.
        self.measure("tx-spilled", |pool| {
            let mut tx = pool.begin()?;
            pool.add_range(&mut tx, object.plus(8192 * 64), 200 << 10)?;
            for index in 96..104 {
                pool.add_range(&mut tx, object.plus(8192 * index), 8)?;
                pool.medium().store8(object.plus(8192 * index), 7);
            }
            pool.commit(tx)
        });
        let (_, counts) = self.measure("tx-empty", |pool| pool.commit(pool.begin()?));
        assert_eq!(counts, Counts::default(), "nothing to make durable");
        self.measure("tx-abort", |pool| {
            let mut tx = pool.begin()?;
            pool.add_range(&mut tx, object.plus(8192), 8)?;
            pool.abort(tx)
        });
        self.measure("tx-set", |pool| {
            let mut tx = pool.begin()?;
            pool.publish_in(&mut tx, &[Action::Store { at: object.plus(8192), value: 5 }])?;
            pool.commit(tx)
        });
        self.measure("publish-word", |pool| {
            pool.publish(&[Action::Store { at: object.plus(8192), value: 6 }])
        });
        let (_, counts) = self.measure("persist-covered", |pool| pool.persist(object.plus(8192), 8));
        assert_eq!(counts.drains, 1);
        let (_, counts) = self.measure("persist-free", |pool| pool.persist(object.plus(8192 * 40), 8));
        assert_eq!(counts.drains, 1);
        self.measure("persist-4k-free", |pool| pool.persist(object.plus(8192 * 41), 4096));
    }
}

fn measure_all(table: &mut Table, durability: Durability, mode: Mode) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(7), Uuid::from_u128(8), 9);
    medium.store(PoolOffset::NULL, &header.encode());
    let prefix = if mode == Mode::Careful { "careful" } else { "pool" };
    let (formatted, _) =
        table.measure(&medium, &format!("{prefix}-format"), || Pool::format(&medium, b"cost"));
    formatted.unwrap();
    let (opened, _) = table.measure(&medium, &format!("{prefix}-open"), || Pool::open(Arc::clone(&medium)));
    let mut pool = opened.unwrap();
    pool.set_mode(mode);
    let mut measured = Measured { pool, table, prefix };
    let (object, _) = measured.measure("root-of", |pool| pool.root_of::<ObjError>(1 << 20, |_| Ok(())));
    measured.measure_objects();
    measured.measure_bytes(object);
    measured.measure("checkpoint", Pool::checkpoint);
    let Measured { pool, table, .. } = measured;
    let (closed, _) = table.measure(&medium, &format!("{prefix}-close"), || pool.close());
    closed.unwrap();
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Byte, Durability::Commit] {
        for mode in [Mode::Fast, Mode::Careful] {
            measure_all(&mut table, durability, mode);
        }
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
