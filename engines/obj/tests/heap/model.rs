//! Threads that reserve, cancel, publish and free at random, against what they know of their objects.

use crate::fixture;
use crate::judge::Judge;
use lode_layout::PoolOffset;
use lode_obj::{Action, ObjError, ObjView, Pool, Request, Reservation, check};
use lode_pmem::{Mapping, Medium};
use lode_testing::{memory, scaled, seed};
use std::sync::{Arc, Mutex};

const LEN: u64 = 24 << 20;
/// Bytes that are stamped at both ends of an object.
const STAMP: u64 = 64;

type Shared = Pool<Arc<Mapping>>;

/// An object, and the byte that is stored at both its ends.
#[derive(Clone, Copy)]
struct Stamped {
    reservation: Reservation,
    byte: u8,
}

impl Stamped {
    fn ends(&self) -> [(PoolOffset, u64); 2] {
        let Reservation { at, usable_size, .. } = self.reservation;
        let len = STAMP.min(usable_size);
        [(at, len), (at.plus(usable_size - len), len)]
    }

    fn stamp(&self, medium: &impl Medium) {
        self.ends().iter().for_each(|(at, len)| medium.store(*at, &vec![self.byte; *len as usize]));
    }

    fn check(&self, medium: &impl Medium) {
        for (at, len) in self.ends() {
            let mut bytes = vec![0; len as usize];
            medium.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
            assert!(bytes.iter().all(|byte| *byte == self.byte), "{self:?} has the bytes of another object");
        }
    }
}

impl std::fmt::Debug for Stamped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.reservation)
    }
}

fn size(rng: &mut fastrand::Rng) -> u64 {
    match rng.u8(..24) {
        0 => rng.u64(1..900_000),
        1 => rng.u64(1..40_000),
        2..=8 => rng.u64(1..4000),
        _ => rng.u64(1..300),
    }
}

fn reserve(pool: &Shared, rng: &mut fastrand::Rng) -> Option<Stamped> {
    let request = Request { size: size(rng), type_number: 1, ..Request::default() };
    match pool.reserve(&request) {
        Ok(reservation) => {
            let stamped = Stamped { reservation, byte: rng.u8(1..) };
            stamped.stamp(pool.medium());
            Some(stamped)
        }
        Err(ObjError::Full { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Takes steps. `mailbox` hands objects from thread to thread.
fn work(pool: &Shared, mailbox: &Mutex<Vec<Stamped>>, seed: u64, steps: u64) -> Vec<Stamped> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut objects: Vec<Stamped> = Vec::new();
    for _ in 0..steps {
        let (mut actions, mut new, mut old) = (Vec::new(), Vec::new(), Vec::new());
        let is_shrinking = rng.u8(..8) == 0;
        for _ in 0..rng.u8(1..4) {
            if let Some(stamped) = reserve(pool, &mut rng) {
                new.push(stamped);
            }
        }
        for _ in 0..if is_shrinking { objects.len() / 2 } else { usize::from(rng.u8(..3)) } {
            if !objects.is_empty() {
                let object = objects.swap_remove(rng.usize(..objects.len()));
                object.check(pool.medium());
                old.push(object);
            }
        }
        if rng.u8(..6) == 0 {
            new.iter().for_each(|stamped| pool.cancel(&stamped.reservation));
            new.clear();
        }
        actions.extend(new.iter().map(|stamped| Action::Allocate(stamped.reservation)));
        actions.extend(old.iter().map(|stamped| Action::Free(stamped.reservation.at)));
        rng.shuffle(&mut actions);
        pool.publish(&actions).unwrap();
        objects.extend(new);
        let mut mailbox = mailbox.lock().unwrap();
        if rng.bool() {
            objects.extend(mailbox.pop());
        } else if !objects.is_empty() {
            mailbox.push(objects.swap_remove(rng.usize(..objects.len())));
        }
    }
    objects
}

/// Runs threads on a pool that is open, closes it, and compares what it holds.
fn round(medium: &Arc<Mapping>, seed: u64, steps: u64, objects: Vec<Stamped>) -> Vec<Stamped> {
    let pool = Pool::open(Arc::clone(medium)).unwrap();
    let mailbox = Mutex::new(objects);
    let mut objects: Vec<Stamped> = std::thread::scope(|scope| {
        let (pool, mailbox) = (&pool, &mailbox);
        let threads: Vec<_> =
            (0..3).map(|thread| scope.spawn(move || work(pool, mailbox, seed + thread, steps))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    objects.extend(mailbox.into_inner().unwrap());
    pool.close().unwrap();
    compare(medium, &mut objects);
    objects
}

fn compare(medium: &Arc<Mapping>, objects: &mut [Stamped]) {
    objects.sort_by_key(|object| object.reservation.at);
    objects.iter().for_each(|object| object.check(&**medium));
    assert_eq!(check(&**medium), []);
    let view = ObjView::open(Arc::clone(medium)).unwrap();
    let found: Vec<_> =
        view.objects().map(|object| object.map(|object| (object.at, object.usable_size)).unwrap()).collect();
    let want: Vec<_> =
        objects.iter().map(|object| (object.reservation.at, object.reservation.usable_size)).collect();
    assert_eq!(found, want);
}

#[test]
fn random_threads_keep_their_objects() {
    let medium = Arc::new(memory::persistent(LEN));
    fixture::format(&*medium);
    let first = seed(1);
    let mut objects = Vec::new();
    for index in 0..scaled(4) {
        println!("seed {}, {} objects", first + 10 * index, objects.len());
        objects = round(&medium, first + 10 * index, 500, objects);
    }
}

/// PMDK lists what is there after a close, and finds the pool consistent.
#[test]
fn closed_pools_are_listed_by_pmdk() {
    let Some(judge) = Judge::find() else { return };
    let medium = Arc::new(memory::persistent(LEN));
    fixture::format(&*medium);
    let objects = round(&medium, seed(1), 400, Vec::new());
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    std::fs::write(&path, memory::bytes(&*medium)).unwrap();
    let want =
        |object: &Stamped| format!("{} 1 {}", object.reservation.at.get(), object.reservation.usable_size);
    let mut lines = vec!["root 0".to_owned()];
    lines.extend(objects.iter().map(want));
    assert_eq!(judge.run(&path, &["list"]), lines);
    let checked = std::process::Command::new("pmempool").arg("check").arg(&path).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
