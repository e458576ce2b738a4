//! Appends until their process is killed, and what may be in the log then.

use crate::bytes_of;
use lode_log::pmdk::PmemLogPool;
use lode_pmem::Durability;
use lode_pool::Access;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The variable that names the pool to the process of our storm.
const POOL: &str = "LODE_STORM_POOL";

/// Returns the bytes of an append: its number, repeated.
fn append(number: u64) -> Vec<u8> {
    bytes_of(number, 8 * (1 + number as usize * 7 % 40))
}

/// Starts this test program again, which appends until it is killed.
pub(crate) fn ours(path: &Path, durability: Durability) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "storm::appends_until_killed", "--ignored", "--nocapture"]);
    command
        .env(POOL, path)
        .env("LODE_STORM_PERSISTS", if durability == Durability::Commit { "1" } else { "" });
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "the test of killed writers starts it in a process of its own"]
fn appends_until_killed() {
    let path = std::env::var_os(POOL).unwrap();
    let persists = std::env::var_os("LODE_STORM_PERSISTS").is_some_and(|value| !value.is_empty());
    let durability = if persists { Durability::Commit } else { Durability::Line };
    let pool = PmemLogPool::open(Path::new(&path), Access::ReadWrite, Some(durability)).unwrap();
    for number in 1.. {
        pool.log().append(&append(number)).unwrap();
        pool.log().persist().unwrap();
        std::io::stdout().write_all(format!("{number}\n").as_bytes()).unwrap();
    }
}

/// Kills the writer after so many appends. Returns the last one that returned.
pub(crate) fn kill(mut child: Child, appends: u64) -> u64 {
    let mut last = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The harness of our storm prints lines of its own.
        let Ok(number) = line.unwrap().parse() else { continue };
        last = number;
        if last == appends {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success() && last >= appends, "{last} appends");
    last
}

/// Fails unless the log has all appends up to the last one that returned, and perhaps the one in flight. Returns its content.
pub(crate) fn assert_legal(last: u64, content: &[u8]) {
    let acknowledged: Vec<u8> = (1..=last).flat_map(append).collect();
    let rest = content.strip_prefix(&acknowledged[..]).expect("no append that returned is lost");
    assert!(rest.is_empty() || rest == append(last + 1), "{} bytes of append {}", rest.len(), last + 1);
}
