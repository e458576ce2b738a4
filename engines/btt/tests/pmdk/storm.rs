//! Threads that write until their process is killed, and what may be in the pool then.

use crate::judge::Seen;
use crate::ours::OurPool;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Threads of a storm.
pub(crate) const THREADS: u64 = 2;
/// The variable that names the pool to the process of our storm.
const POOL: &str = "LODE_STORM_POOL";
/// Blocks that a thread writes in turn.
const BLOCKS: u64 = 16;

/// Returns the block that a thread writes in this round, full of the number of the round.
fn block(thread: u64, round: u64) -> u64 {
    thread + THREADS * (round * 5 % BLOCKS)
}

/// Starts this test program again, which writes until it is killed.
pub(crate) fn ours(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "storm::writes_until_killed", "--ignored", "--nocapture"]);
    command.env(POOL, path).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "the tests of killed writers start it in a process of its own"]
fn writes_until_killed() {
    let pool = OurPool::open(Path::new(&std::env::var_os(POOL).unwrap()));
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let pool = &pool;
            threads.spawn(move || {
                for round in 1.. {
                    pool.write(block(thread, round), round);
                    // One call, so lines of two threads do not mix.
                    std::io::stdout().write_all(format!("{thread} {round}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Kills the writers after so many writes. Returns the last round of each thread that returned.
pub(crate) fn kill(mut child: Child, writes: u64) -> Vec<u64> {
    let mut last = vec![0; THREADS as usize];
    let mut told = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The harness of our storm prints lines of its own.
        let words: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        if let [thread, round] = words[..] {
            last[thread as usize] = round;
            told += 1;
        }
        if told == writes {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success() && told >= writes, "{told} writes");
    last
}

/// Fails unless each block holds the last write that returned, or the one that was in flight.
pub(crate) fn assert_legal(last: &[u64], mut read: impl FnMut(u64) -> Seen) {
    for (thread, last) in (0..).zip(last) {
        for place in 0..BLOCKS {
            let lba = thread + THREADS * place;
            let written =
                |limit: u64| (1..=limit).rev().find(|round| block(thread, *round) == lba).unwrap_or(0);
            let (old, new) = (Seen::Tag(written(*last)), Seen::Tag(written(last + 1)));
            let seen = read(lba);
            assert!(seen == old || seen == new, "block {lba} is {seen:?}, not {old:?} or {new:?}");
        }
    }
}
