//! Migrations of typed data under SIGKILL: a pool is migrated in steps, is killed after some, and goes on, first to the types of a
//! second program, and then to those of a third, which may begin before the second has ended.
//!
//! The moment of a kill is a number of acknowledged steps, and some microseconds of the steps after it: a child waits to be killed a
//! few steps later. So the same part of a migration is met on every machine.

use super::{Journal, Kills, start};
use crate::api::{self, Outcome, ensure, expect_ok};
use crate::{Finding, scratch_folder};
use anyhow::Result;
use fastrand::Rng;
use lode_fsck::check_pool;
use lode_heap::{
    Access, CreateOptions, Durability, HeapError, LayoutName, Migrate, OpenOptions, PBox, PCell, PString,
    PVec, Persist, TypedPool,
};
use lode_pool::map_unchecked;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

lode_heap::brand!(
    /// The pool that is migrated.
    Stock
);

const SIZE: u64 = 4 << 20;
/// Number of items in the list.
const ITEMS: u64 = 250;
/// Pointers that a migration follows, about: some in each item and its crate. Each child begins at the root again.
const POINTERS: u64 = ITEMS * 6;
/// Steps that a child takes at most between the moment of its kill and the wait for it.
const MORE_MAX: u64 = 4;
/// Superblocks that the third program converts in place, about.
const IN_PLACE_MAX: u64 = 3;
/// The words of the journal: steps that were acknowledged, in all; steps after which a child waits for its kill; whether the third
/// program has begun, or is done.
const STEPS: u64 = 0;
const LIMIT: u64 = 1;
const THIRD: u64 = 2;
const BEGUN: u64 = 1;
const DONE: u64 = 2;

/// The types of the first program.
mod first {
    use super::{PBox, PCell, PString, PVec, Persist, Stock};

    #[derive(Persist)]
    #[persist(brand = Stock)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) number: u64,
        pub(super) euros: PCell<u32, Stock>,
        pub(super) name: PString<Stock>,
        pub(super) note: PBox<PCell<u64, Stock>, Stock>,
        pub(super) box_: PBox<Crate, Stock>,
        pub(super) next: PBox<Item, Stock>,
    }

    /// Does not change.
    #[derive(Persist)]
    #[persist(brand = Stock)]
    #[repr(C)]
    pub(super) struct Crate {
        pub(super) places: PVec<u16, Stock>,
        pub(super) spare: PBox<Item, Stock>,
    }
}

/// The types of the second program: prices in cents, no notes.
mod second {
    use super::{HeapError, Migrate, PBox, PCell, PString, PVec, Persist, Stock};

    #[derive(Persist)]
    #[persist(brand = Stock, was = ItemV1)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Stock>,
        pub(super) cents: PCell<u64, Stock>,
        pub(super) number: u64,
        pub(super) box_: PBox<Crate, Stock>,
        pub(super) next: PBox<Item, Stock>,
    }

    #[derive(Persist)]
    #[persist(brand = Stock, name = "Item")]
    #[repr(C)]
    pub(super) struct ItemV1 {
        number: u64,
        euros: PCell<u32, Stock>,
        name: PString<Stock>,
        note: PBox<PCell<u64, Stock>, Stock>,
        box_: PBox<Crate, Stock>,
        next: PBox<Item, Stock>,
    }

    #[derive(Persist)]
    #[persist(brand = Stock)]
    #[repr(C)]
    pub(super) struct Crate {
        places: PVec<u16, Stock>,
        spare: PBox<Item, Stock>,
    }

    impl Migrate<ItemV1> for Item {
        fn migrate(old: ItemV1) -> Result<Item, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(Item { name: old.name, cents, number: old.number, box_: old.box_, next: old.next })
        }
    }
}

/// The types of the third program: half of the number's bytes say whether it is odd. So items fit where they lie, and whole
/// superblocks are converted in place.
mod third {
    use super::{HeapError, Migrate, PBox, PCell, PString, PVec, Persist, Stock};

    #[derive(Persist)]
    #[persist(brand = Stock, was = ItemV2)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) odd: u32,
        pub(super) number: u32,
        pub(super) name: PString<Stock>,
        pub(super) cents: PCell<u64, Stock>,
        pub(super) box_: PBox<Crate, Stock>,
        pub(super) next: PBox<Item, Stock>,
    }

    #[derive(Persist)]
    #[persist(brand = Stock, name = "Item", was = ItemV1)]
    #[repr(C)]
    pub(super) struct ItemV2 {
        name: PString<Stock>,
        cents: PCell<u64, Stock>,
        number: u64,
        box_: PBox<Crate, Stock>,
        next: PBox<Item, Stock>,
    }

    #[derive(Persist)]
    #[persist(brand = Stock, name = "Item")]
    #[repr(C)]
    pub(super) struct ItemV1 {
        number: u64,
        euros: PCell<u32, Stock>,
        name: PString<Stock>,
        note: PBox<PCell<u64, Stock>, Stock>,
        box_: PBox<Crate, Stock>,
        next: PBox<Item, Stock>,
    }

    #[derive(Persist)]
    #[persist(brand = Stock)]
    #[repr(C)]
    pub(super) struct Crate {
        pub(super) places: PVec<u16, Stock>,
        pub(super) spare: PBox<Item, Stock>,
    }

    impl Migrate<ItemV1> for ItemV2 {
        fn migrate(old: ItemV1) -> Result<ItemV2, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(ItemV2 { name: old.name, cents, number: old.number, box_: old.box_, next: old.next })
        }
    }

    impl Migrate<ItemV2> for Item {
        fn migrate(old: ItemV2) -> Result<Item, HeapError> {
            let ItemV2 { name, cents, number, box_, next } = old;
            Ok(Item { odd: (number % 2) as u32, number: number as u32, name, cents, box_, next })
        }
    }
}

/// The content of an item.
#[derive(Debug, PartialEq)]
struct Known {
    euros: u32,
    name: String,
    places: Vec<u16>,
    has_spare: bool,
}

/// Returns what the seed says of the item `number`.
fn known(seed: u64, number: u64) -> Known {
    let mut rng = super::transaction_rng(seed, 0, number);
    let name = "x".repeat(rng.usize(..60)) + &number.to_string();
    let places = (0..rng.usize(..9)).map(|_| rng.u16(..)).collect();
    Known { euros: rng.u32(..1_000_000), name, places, has_spare: rng.bool() }
}

fn create(kills: &Kills, path: &Path) -> Result<()> {
    let layout = LayoutName::new("stock")?;
    let options = CreateOptions { durability: Some(kills.durability), ..CreateOptions::new(SIZE, layout) };
    let pool = TypedPool::<Stock>::create(path, &options)?;
    let item = |number| first::Item {
        number,
        euros: PCell::new(known(kills.seed, number).euros),
        name: PString::new(),
        note: PBox::null(),
        box_: PBox::null(),
        next: PBox::null(),
    };
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(item(0)))?;
    for number in (1..ITEMS).rev() {
        let Known { name, places, has_spare, .. } = known(kills.seed, number);
        pool.run(|tx| {
            let new = tx.alloc(item(number))?;
            new.name.set(tx, &name)?;
            new.note.set(tx, tx.alloc(PCell::new(number))?)?;
            let holder = tx.alloc(first::Crate { places: PVec::new(), spare: PBox::null() })?;
            holder.places.extend_from_slice(tx, &places)?;
            if has_spare {
                holder.spare.set(tx, tx.alloc(item(ITEMS + number))?)?;
            }
            new.box_.set(tx, holder)?;
            if let Some(next) = root.next.take(tx)? {
                new.next.set(tx, next)?;
            }
            root.next.set(tx, new)
        })?;
    }
    Ok(pool.close()?)
}

fn options(durability: Durability, access: Access) -> OpenOptions {
    OpenOptions { durability: Some(durability), ..OpenOptions::new(access) }
}

/// The choices that concern a whole pool.
struct Pace {
    /// Number of pointers that a step follows.
    pointers: u64,
    /// Number of steps, those of all children, after which the third program goes on.
    switch: u64,
    /// Greatest number of steps of a child until its kill. One in five children is done before.
    steps_max: u64,
}

impl Pace {
    fn of(kills: &Kills) -> Pace {
        let mut rng = Rng::with_seed(kills.seed ^ 0x4D69_6772_6174_6564);
        let pointers = rng.u64(1..6);
        let steps = POINTERS / pointers;
        Pace { pointers, switch: rng.u64(..2 * steps), steps_max: steps * 5 / 4 }
    }
}

/// Migrates the pool in steps, until it is killed or done.
pub(super) fn child(kills: &Kills, path: &Path, journal: &Journal) -> Result<()> {
    let Pace { pointers, switch, .. } = Pace::of(kills);
    let mut pool = TypedPool::<Stock>::open(path, &options(kills.durability, Access::ReadWrite))?;
    let mut steps = journal.acknowledged(STEPS)?;
    let is_third = steps >= switch || journal.acknowledged(THIRD)? >= BEGUN;
    let mut acknowledge = |_| {
        steps += 1;
        // The journal of a test can be written.
        let _ = journal.acknowledge(STEPS, steps);
        while journal.acknowledged(LIMIT).is_ok_and(|limit| steps >= limit) {
            thread::sleep(Duration::from_millis(1));
        }
    };
    if !is_third {
        pool.migrate_in_steps::<second::Item>(pointers, &mut acknowledge)?;
        pool.close()?;
        return journal.acknowledge(THIRD, BEGUN);
    }
    journal.acknowledge(THIRD, BEGUN)?;
    pool.migrate_in_steps::<third::Item>(pointers, &mut acknowledge)?;
    pool.close()?;
    journal.acknowledge(THIRD, DONE)
}

/// Kills children of `program` again and again, and compares the pools that they leave. Returns the number of acknowledged steps.
pub(super) fn attack(kills: &Kills, program: &Path, found: &mut dyn FnMut(Finding)) -> Result<u64> {
    let mut rng = Rng::with_seed(kills.seed);
    let (mut killed, mut acknowledged, mut seed) = (0, 0, kills.seed);
    while killed < kills.count {
        let kills = Kills { seed, ..*kills };
        let pace = Pace::of(&kills);
        let folder = match kills.durability {
            Durability::Commit => tempfile::tempdir()?,
            _ => scratch_folder()?,
        };
        let (pool, journal) = (folder.path().join("killed.pool"), folder.path().join("journal"));
        create(&kills, &pool)?;
        let journal_file = Journal::open(&journal)?;
        let done = loop {
            // The third program begins with what it converts in place: a superblock a step.
            let is_begun = journal_file.acknowledged(THIRD)? == BEGUN;
            let steps_max = if is_begun && rng.bool() { IN_PLACE_MAX } else { pace.steps_max };
            let steps = journal_file.acknowledged(STEPS)? + rng.u64(1..=steps_max);
            journal_file.acknowledge(LIMIT, steps + rng.u64(..MORE_MAX))?;
            let mut child = start(&kills, program, &pool, &journal)?;
            while journal_file.acknowledged(STEPS)? < steps && child.try_wait()?.is_none() {
                thread::yield_now();
            }
            child.kill()?;
            match child.wait()?.code() {
                None => killed += 1,
                Some(0) if journal_file.acknowledged(THIRD)? == DONE => {
                    break check_migrated(&pool, kills.seed);
                }
                // The second program is done.
                Some(0) => {}
                Some(code) => {
                    // Children that all die end the attack, too.
                    killed += 1;
                    break Err(Finding::new("death", format_args!("the child ended with the code {code}")));
                }
            }
            if let Err(finding) = check(&pool) {
                break Err(finding);
            }
        };
        if let Err(finding) = done {
            found(Finding { what: format!("kill {killed}: {}", finding.what), ..finding });
        }
        acknowledged += journal_file.acknowledged(STEPS)?;
        seed = rng.u64(..);
    }
    Ok(acknowledged)
}

/// Checks the pool, of which all objects are reached, and none is of a type that it does not have.
fn check(path: &Path) -> Outcome {
    api::check(path)?;
    let view = expect_ok("map", map_unchecked(path, &OpenOptions::new(Access::ReadOnly)))?;
    let report = check_pool(Arc::new(view), &[]);
    let is_whole = report.traced && report.counts.reached == report.counts.objects;
    ensure(is_whole, "untraced", format_args!("a check finds {report}"))
}

/// Compares the migrated pool with what the first program stored.
fn check_migrated(path: &Path, seed: u64) -> Outcome {
    check(path)?;
    let pool = expect_ok("open", TypedPool::<Stock>::open(path, &OpenOptions::new(Access::ReadOnly)))?;
    ensure(
        matches!(pool.root::<first::Item>(), Err(HeapError::OtherTypes(_))),
        "older",
        "the first program reads the pool",
    )?;
    let mut next = expect_ok("root", pool.root::<third::Item>())?;
    let guard = pool.guard();
    let mut number = 0;
    while let Some(item) = next {
        expect_ok("item", compare(seed, number, item, &guard))??;
        next = expect_ok("next", item.next.load(&guard))?;
        number += 1;
    }
    ensure(number == ITEMS, "torn", format_args!("{number} of {ITEMS} items are there"))
}

fn compare(
    seed: u64,
    number: u64,
    item: &third::Item,
    guard: &lode_heap::Guard<'_, Stock>,
) -> Result<Outcome, HeapError> {
    let want = known(seed, number);
    let mut found = Known {
        euros: (item.cents.load(guard)? / 100) as u32,
        name: item.name.load(guard)?,
        places: Vec::new(),
        has_spare: false,
    };
    let mut is_right = u64::from(item.number) == number && u64::from(item.odd) == number % 2;
    if let Some(holder) = item.box_.load(guard)? {
        found.places = holder.places.load_all(guard)?;
        if let Some(spare) = holder.spare.load(guard)? {
            found.has_spare = true;
            let euros = known(seed, ITEMS + number).euros;
            is_right &= u64::from(spare.number) == ITEMS + number
                && spare.cents.load(guard)? == u64::from(euros) * 100;
        }
    }
    // The root has neither a name nor a crate.
    let want = if number == 0 {
        Known { euros: want.euros, name: String::new(), places: Vec::new(), has_spare: false }
    } else {
        want
    };
    Ok(ensure(
        is_right && found == want,
        "torn",
        format_args!("item {number} is {found:?}, and was {want:?}"),
    ))
}
