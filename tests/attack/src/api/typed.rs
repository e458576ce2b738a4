//! Typed data: a list of boxes, a vector, a string, a cell, and cells under a lock.

use super::heap::check;
use super::{DELIBERATE_ERROR, Ending, Outcome, Sequence, ensure, expect_ok, log_uniform};
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use crate::progress::{Progress, StepRecorder};
use crate::{Finding, scratch_folder};
use fastrand::Rng;
use lode_heap::{
    Access, CreateOptions, Durability, HeapError, LayoutName, OpenOptions, PBox, PCell, PMutex, PString,
    PVec, Persist, TypedPool, TypedTx,
};

lode_heap::brand!(
    /// The typed pool under attack.
    Attacked
);

const SIZE: u64 = 2 << 20;

#[derive(Persist)]
#[persist(brand = Attacked)]
#[repr(C)]
struct Link {
    number: u64,
    text: PString<Attacked>,
    next: PBox<Link, Attacked>,
}

#[derive(Persist)]
#[persist(brand = Attacked)]
#[repr(C)]
struct Root {
    wide: PCell<[u64; 6], Attacked>,
    list: PBox<Link, Attacked>,
    numbers: PVec<u64, Attacked>,
    text: PString<Attacked>,
    pair: PMutex<[PCell<u64, Attacked>; 2], Attacked>,
}

/// Model of the content that the root must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    wide: [u64; 6],
    list: Vec<(u64, String)>,
    numbers: Vec<u64>,
    text: String,
    pair: [u64; 2],
}

type Typed = TypedPool<Attacked>;
type Tx<'a> = TypedTx<'a, Attacked>;

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Outcome {
    let folder = expect_ok("a folder", scratch_folder())?;
    let path = folder.path().join("typed.pool");
    let layout = expect_ok("a layout", LayoutName::new("attack"))?;
    let options = CreateOptions {
        size_max: None,
        durability: Some(Durability::Line),
        ..CreateOptions::new(SIZE, layout)
    };
    let mut pool = expect_ok("create", Typed::create(&path, &options))?;
    let made = pool.root_or_init(|_| {
        Ok(Root {
            wide: PCell::new([0; 6]),
            list: PBox::null(),
            numbers: PVec::new(),
            text: PString::new(),
            pair: PMutex::new([PCell::new(0), PCell::new(0)]),
        })
    });
    expect_ok("root", made.map(drop))?;
    let mut model = Model::default();
    let mut steps = sequence.steps.iter();
    let mut recorder = progress.thread(0);
    loop {
        let (has_more_steps, closes) = run_session(sequence, &mut steps, &pool, &mut model, &mut recorder)?;
        if closes {
            expect_ok("close", pool.close())?;
        } else {
            drop(pool);
        }
        check(&path)?;
        let opening =
            OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
        pool = expect_ok("open", Typed::open(&path, &opening))?;
        compare(&pool, &model)?;
        if !has_more_steps {
            return Ok(());
        }
    }
}

/// Takes steps up to one that ends the session, by a close or a drop. The first flag is true if there may be more
/// steps, the second if the pool must be closed.
fn run_session<'a>(
    sequence: &Sequence,
    steps: &mut impl Iterator<Item = &'a u64>,
    pool: &Typed,
    model: &mut Model,
    recorder: &mut StepRecorder<'_>,
) -> Result<(bool, bool), Finding> {
    let root = root(pool)?;
    for number in steps {
        let mut rng = sequence.rng(*number);
        let kind = rng.u8(..24);
        recorder.begin(format_args!("typed step {number} of kind {kind}"));
        match kind {
            0..18 => transaction(pool, root, &mut rng, model)?,
            18..20 => check_guarded_value(pool, root, &mut rng, model)?,
            20 => return Ok((true, rng.bool())),
            21 => clear_all(pool, root, model)?,
            _ => {}
        }
        compare(pool, model)?;
    }
    Ok((false, true))
}

fn root(pool: &Typed) -> Result<&Root, Finding> {
    expect_ok("root", pool.root::<Root>())?.ok_or_else(|| Finding::new("lost", "the root is gone"))
}

fn transaction(pool: &Typed, root: &Root, rng: &mut Rng, model: &mut Model) -> Outcome {
    let (ending, count) = (Ending::draw(rng), 1 + rng.usize(..6));
    let choices = rng.fork();
    let mut next = model.clone();
    let before = model.clone();
    let result = catch_deliberate(|| {
        pool.run(|tx| {
            let mut rng = choices.clone();
            next = before.clone();
            for step in 0..count {
                if step == count / 2 && matches!(ending, Ending::Nested | Ending::NestedError) {
                    let inner = pool.run(|tx| {
                        change(tx, root, &mut rng, &mut next)?;
                        if ending == Ending::Nested { Ok(()) } else { Err(DELIBERATE_ERROR) }
                    });
                    if ending == Ending::Nested {
                        inner?;
                    }
                }
                change(tx, root, &mut rng, &mut next)?;
            }
            match ending {
                Ending::Error => Err(DELIBERATE_ERROR),
                Ending::Panic => std::panic::resume_unwind(Box::new(DeliberatePanic)),
                _ => Ok(()),
            }
        })
    });
    match result {
        Some(Ok(())) => {
            ensure(ending.commits(), "committed", format_args!("a transaction that ended by {ending:?}"))?;
            *model = next;
        }
        Some(Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })) | None => {}
        Some(Err(error)) => {
            ensure(!ending.commits(), "refused", format_args!("a transaction ({ending:?}): {error}"))?;
        }
    }
    Ok(())
}

/// Makes one change inside of a transaction, and the same change in the model `next`.
fn change(tx: &Tx<'_>, root: &Root, rng: &mut Rng, next: &mut Model) -> Result<(), HeapError> {
    match rng.u8(..12) {
        0 => {
            next.wide = [rng.u64(..); 6];
            root.wide.set(tx, next.wide)?;
        }
        1 | 2 if next.list.len() < 60 => push(tx, root, rng, next)?,
        3 => {
            let Some(link) = root.list.take(tx)? else { return Ok(()) };
            if let Some(rest) = link.next.take(tx)? {
                root.list.set(tx, rest)?;
            }
            link.free()?;
            next.list.remove(0);
        }
        4 if next.numbers.len() < 5000 => {
            let values: Vec<u64> = (0..log_uniform(rng, 2000)).map(|_| rng.u64(..)).collect();
            root.numbers.extend_from_slice(tx, &values)?;
            next.numbers.extend(values);
        }
        5 => {
            let value = rng.u64(..);
            root.numbers.push(tx, value)?;
            next.numbers.push(value);
        }
        6 => {
            root.numbers.pop(tx)?;
            next.numbers.pop();
        }
        7 => {
            let len = rng.usize(..=next.numbers.len());
            root.numbers.truncate(tx, len as u64)?;
            next.numbers.truncate(len);
        }
        8 if !next.numbers.is_empty() => {
            let (at, value) = (rng.usize(..next.numbers.len()), rng.u64(..));
            root.numbers.set(tx, at as u64, value)?;
            next.numbers[at] = value;
        }
        9 => {
            next.text = text(rng, 3000);
            root.text.set(tx, &next.text)?;
        }
        10 if next.text.len() < 10_000 => {
            let more = text(rng, 300);
            root.text.push_str(tx, &more)?;
            next.text += &more;
        }
        _ => {
            let pair = root.pair.lock(tx)?;
            for (cell, value) in pair.iter().zip(&mut next.pair) {
                *value = cell.get(tx)? + 1;
                cell.set(tx, *value)?;
            }
        }
    }
    Ok(())
}

fn push(tx: &Tx<'_>, root: &Root, rng: &mut Rng, next: &mut Model) -> Result<(), HeapError> {
    let (number, words) = (rng.u64(..), text(rng, 600));
    let link = tx.alloc(Link { number, text: PString::new(), next: PBox::null() })?;
    link.text.set(tx, &words)?;
    if rng.u8(..6) == 0 {
        // A box that is given to no pointer is freed, and its text with it.
        return Ok(());
    }
    if let Some(rest) = root.list.take(tx)? {
        link.next.set(tx, rest)?;
    }
    root.list.set(tx, link)?;
    next.list.insert(0, (number, words));
    Ok(())
}

fn text(rng: &mut Rng, max: usize) -> String {
    (0..log_uniform(rng, max)).map(|_| rng.char('a'..'\u{fff}')).collect()
}

/// Checks that a value lent by a guard stays the same, whatever is freed meanwhile.
fn check_guarded_value(pool: &Typed, root: &Root, rng: &mut Rng, model: &mut Model) -> Outcome {
    let count = [1, 2, 150][rng.usize(..3)];
    let guards: Vec<_> = (0..count).map(|_| pool.guard()).collect();
    let Some(guard) = guards.last() else { return Ok(()) };
    let lent = expect_ok("load", root.list.load(guard))?;
    let before = model.list.first().cloned();
    for _ in 0..10 {
        transaction(pool, root, rng, model)?;
        compare(pool, model)?;
    }
    let still = lent.map(|link| link.number);
    ensure(still == before.map(|(number, _)| number), "changed", format_args!("a lent link is {still:?}"))
}

/// Frees everything that can be freed, and checks that nothing else is left.
fn clear_all(pool: &Typed, root: &Root, model: &mut Model) -> Outcome {
    let cleared = pool.run(|tx| {
        if let Some(list) = root.list.take(tx)? {
            list.free()?;
        }
        root.numbers.clear(tx)?;
        root.text.set(tx, "")
    });
    expect_ok("clear", cleared)?;
    *model = Model { wide: model.wide, pair: model.pair, ..Model::default() };
    let count = pool.objects().count();
    // The text keeps its buffer.
    let left =
        format_args!("{count} objects are left: the root, the text, the root object and its types are four");
    ensure(count <= 4, "besides", left)
}

/// Returns a finding if the pool does not hold the content of the model.
fn compare(pool: &Typed, model: &Model) -> Outcome {
    let root = root(pool)?;
    let guard = pool.guard();
    let pair = root.pair.read(&guard, |pair| Ok([pair[0].load(&guard)?, pair[1].load(&guard)?]));
    let mut found = Model {
        wide: expect_ok("load", root.wide.load(&guard))?,
        list: Vec::new(),
        numbers: expect_ok("load", root.numbers.load_all(&guard))?,
        text: expect_ok("load", root.text.load(&guard))?,
        pair: expect_ok("load", pair)?,
    };
    let mut next = expect_ok("load", root.list.load(&guard))?;
    while let Some(link) = next {
        found.list.push((link.number, expect_ok("load", link.text.load(&guard))?));
        ensure(found.list.len() <= model.list.len(), "besides", "the list is longer than it was made")?;
        next = expect_ok("load", link.next.load(&guard))?;
    }
    let differs = |same: bool, what: &str| ensure(same, "changed", format_args!("{what} of the root"));
    differs(found.wide == model.wide, "the cell")?;
    differs(found.list == model.list, "the list")?;
    differs(found.numbers == model.numbers, "the vector")?;
    differs(found.text == model.text, "the string")?;
    differs(found.pair == model.pair, "the pair")
}
