//! The process of the program: its signals and its exit status.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Runs the program to its end. Returns its exit status, or 128 + the signal that ended it.
///
/// SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on. SIGINT and SIGQUIT, which a terminal sends to the program as well, do
/// not end this process, so that it can tell how the program took them.
pub(super) fn run(command: &mut Command, program: &Path) -> Result<u8, Failure> {
    let refused = |error| Failure::usage_error(format!("running {}: {error}", program.display()));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(refused)?;
    let handle = signals.handle();
    let mut child = command.spawn().map_err(refused)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let status = thread::scope(|scope| {
        scope.spawn(move || {
            for signal in signals.forever() {
                let passed = match signal {
                    SIGHUP => Signal::HUP,
                    SIGTERM => Signal::TERM,
                    SIGUSR1 => Signal::USR1,
                    SIGUSR2 => Signal::USR2,
                    _ => continue,
                };
                if let Some(pid) = pid {
                    // A program that has ended gets none.
                    let _ = kill_process(pid, passed);
                }
            }
        });
        let status = child.wait();
        handle.close();
        status
    });
    let status = status.map_err(refused)?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}
