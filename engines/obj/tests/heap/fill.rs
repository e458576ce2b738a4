//! What PMDK fits into a pool fits.

use crate::fixture::new_pool;
use crate::judge::Judge;
use lode_obj::{Action, ObjError, Request, Reservation};
use lode_testing::{scaled, seed};

const REFUSALS: usize = 6;

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn size(&mut self) -> u64 {
        match self.below(16) {
            0 => 1 + self.below(600_000),
            1 => 1 + self.below(40_000),
            2..=4 => 1 + self.below(4000),
            _ => 1 + self.below(300),
        }
    }
}

/// As `fill` of the C program: objects and their bytes at each refusal.
fn fill(len: u64, seed: u64, keep: usize) -> Vec<(u64, u64)> {
    let pool = new_pool(len);
    let mut draw = Draw(seed);
    let (mut objects, mut held): (Vec<Reservation>, _) = (Vec::new(), Vec::new());
    while held.len() < REFUSALS {
        match pool.reserve(&Request { size: draw.size(), ..Request::default() }) {
            Ok(reservation) => {
                pool.publish(&[Action::Allocate(reservation)]).unwrap();
                objects.push(reservation);
                continue;
            }
            Err(ObjError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        held.push((objects.len() as u64, objects.iter().map(|object| object.usable_size).sum()));
        for (index, object) in objects.iter().enumerate() {
            if index % keep != 0 {
                pool.publish(&[Action::Free(object.at)]).unwrap();
            }
        }
        objects = objects.into_iter().step_by(keep).collect();
    }
    held
}

#[test]
fn pools_hold_what_they_hold_with_pmdk() {
    let Some(judge) = Judge::find() else { return };
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let (mut sum, mut first) = ([0; 2], [0; 2]);
    for round in 0..scaled(6) {
        let (len, seed, keep) = ([8 << 20, 32 << 20][round as usize % 2], rng.u64(1..1 << 40), rng.u64(2..6));
        let path = folder.path().join("pool");
        let words = ["fill".to_owned(), u64::to_string(&len), seed.to_string(), keep.to_string()];
        let lines = judge.run(&path, &words.each_ref().map(String::as_str));
        std::fs::remove_file(&path).unwrap();
        let pair = |line: &String| {
            let (count, usable) = line.split_once(' ').unwrap();
            (count.parse().unwrap(), usable.parse().unwrap())
        };
        let held = [fill(len, seed, keep as usize), lines.iter().map(pair).collect()];
        println!(
            "{len} bytes, seed {seed}, a {keep}th stays\n  ours   {:?}\n  PMDK's {:?}",
            held[0], held[1]
        );
        for side in 0..2 {
            first[side] += held[side][0].1;
            sum[side] += held[side].iter().map(|(_, usable)| usable).sum::<u64>();
        }
    }
    println!("at first refusals {first:?}, in all {sum:?}");
    assert!(first[0] >= first[1] && sum[0] >= sum[1], "{first:?}, {sum:?}");
}
