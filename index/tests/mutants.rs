//! The explorations of `lode crash` without the rest of that program, which `cargo xtask mutants` runs again and again:
//! `crash ENGINE --workload N --machine NAME --threads N --seed N --images N`. Built with `--cfg lode_bugs`; otherwise, and
//! without arguments of its own, it does nothing.

use std::process::ExitCode;

#[cfg(not(lode_bugs))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(lode_bugs)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("crash") => match explored(&arguments[1..]) {
            Ok(true) => ExitCode::SUCCESS,
            // As `lode crash` exits.
            Ok(false) => ExitCode::from(3),
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        },
        _ => ExitCode::SUCCESS,
    }
}

/// Explores what the arguments say, and prints the report; whether nothing was lost.
#[cfg(lode_bugs)]
fn explored(arguments: &[String]) -> Result<bool, String> {
    use lode_index::explore::{Choice, ENGINES};
    use lode_sim::Machine;

    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag);
        at.and_then(|at| arguments.get(at + 1)).ok_or_else(|| format!("{flag} is missing"))
    };
    let number = |flag: &str| {
        value(flag)?.parse::<u64>().map_err(|error| format!("{flag}: {error}"))
    };
    let engine = ENGINES.iter().find(|engine| arguments.first().is_some_and(|name| *name == engine.name));
    let engine = engine.ok_or("the engine is none of log, heap, pool, tree")?;
    let workload = number("--workload")?;
    let workload = workload.checked_sub(1).and_then(|index| engine.workloads.get(index as usize));
    let workload = workload.ok_or_else(|| format!("--workload takes 1 to {}", engine.workloads.len()))?;
    let name = value("--machine")?;
    let machine = Machine::ALL.into_iter().find(|machine| machine.to_string() == *name);
    let choice = Choice {
        machine: machine.ok_or_else(|| format!("--machine: there is no {name}"))?,
        threads: u8::try_from(number("--threads")?.clamp(1, 3)).map_err(|error| error.to_string())?,
        seed: number("--seed")?,
        images: number("--images")?,
        shrink: false,
    };
    let report = workload.explore(&choice);
    println!("{}, {}: {report}", choice.machine, workload.name);
    Ok(report.violation.is_none())
}
