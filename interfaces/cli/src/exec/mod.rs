//! `lode exec`: runs a program that was written for PMDK on Lodestone's libraries.
//!
//! The loader searches the folders of LD_LIBRARY_PATH before the system's, and the sonames of our libraries are PMDK's. So the
//! program runs as it is. [`Elf`] tells why a program would not get our libraries; [`Libraries`] finds the folder.

mod elf;
mod libraries;
mod object_mode;
mod process;

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use elf::Elf;
use libraries::Libraries;
use object_mode::ObjectMode;
use serde_json::json;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The description of the command.
pub(crate) const ABOUT: &str = "\
Run a program that was written for PMDK on Lodestone's libraries.

The program is not changed and not compiled anew: the loader takes libpmem.so.1, libpmem2.so.1, libpmemlog.so.1, libpmemblk.so.1, libpmemobj.so.1 and libpmempool.so.1 \
of Lodestone in place of the system's, also for plugins that the program loads later. LD_LIBRARY_PATH=FOLDER PROGRAM does the same, with the folder that --show prints. The libraries \
are searched in capi/lib beside lode, in ../lib/lodestone, and in target/capi/lib of the sources, where `make capi` puts them.

Programs that can't take them are refused: a static program has its own copy, the loader ignores the environment of one with more \
rights than its user, and DT_RPATH comes before the environment.

--durability line makes a program take any medium for persistent memory that a flush makes durable, byte the same without flushes, \
commit makes it sync, and none makes it take any medium without flushes. A wrong choice may lose data; auto leaves it to the library \
and to the variables of libpmem(7) and libpmem2(7).

libpmemobj opens pools in careful mode if the program, or a library that it has loaded, has a CLWB, CLFLUSHOPT, CLFLUSH, MOVNT, MASKMOV or MOVDIR instruction of its own, or \
imports msync: then stores count that the program flushes by itself, and a transaction takes more drains. --show names the first \
such file. LODE_OBJ=fast and LODE_OBJ=careful decide in place of that.";

const EXIT_STATUS: &str = "\
Exit status:
  that of the program, or 128 + the signal that ended it
  2    the program could not be run, or its libraries can't be changed";

const FIELDS: &[(&str, &str)] = &[
    ("program", "with --show: path of the program"),
    ("folder", "folder of Lodestone's libraries"),
    (
        "changed",
        "libraries that the program is linked with and that change: {name, from, to}; `from` is null if it is absent",
    ),
    (
        "libpmemobj",
        "mode of the pools of objects: {mode, reason}; null if the program is not linked with libpmemobj. `mode` is \"fast\", \"careful\", or null if \
         LODE_OBJ is wrong; `reason` is null if no file flushes by itself",
    ),
];

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// Print the libraries of the program that change and the mode of its pools of objects, and do not run it
    #[arg(long)]
    show: bool,
    /// The program, by its path or by a name in PATH, and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_names = ["PROGRAM", "ARGUMENT"])]
    words: Vec<OsString>,
}

/// Returns the last sections of the help.
pub(crate) fn help() -> String {
    format!("{}\n{EXIT_STATUS}", fields::items("JSON fields", FIELDS))
}

/// Runs the program, or prints the libraries that change.
pub(crate) fn run(exec: &Exec, durability: DurabilityOption) -> Result<Output, Failure> {
    let Some((name, arguments)) = exec.words.split_first() else {
        return Err(Failure::usage_error("exec: name a program"));
    };
    let program = find(name)?;
    let libraries = Libraries::find()?;
    let elf = Elf::of_program(&program)?;
    if let Some(reason) = elf.refusal(Libraries::sonames()) {
        return Err(Failure::usage_error(format!("running {}: {reason}", elf.path().display())));
    }
    if let Some(path) = libraries.in_place_of_ours(&elf) {
        return Err(Failure::usage_error(format!(
            "running {}: the loader finds {} before those of LD_LIBRARY_PATH, by a DT_RPATH or a path in the program or in a library that it \
             needs; remove the entry, as by `chrpath -c`",
            elf.path().display(),
            path.display()
        )));
    }
    if exec.show {
        return Ok(shown(&program, &elf, &libraries));
    }
    let mut command = Command::new(&program);
    command.args(arguments).env("LD_LIBRARY_PATH", libraries.search_path());
    command.envs(variables(durability).iter().copied());
    let code = process::run(&mut command, &program)?;
    Ok(Output::empty().with_exit_code(code))
}

/// Returns the variables that make PMDK's libraries, of any maker, take a medium for one of this durability.
fn variables(durability: DurabilityOption) -> &'static [(&'static str, &'static str)] {
    match durability {
        DurabilityOption::Auto => &[],
        DurabilityOption::Line => {
            &[("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_FLUSH", "0"), ("PMEM2_FORCE_GRANULARITY", "CACHE_LINE")]
        }
        DurabilityOption::Byte | DurabilityOption::None => {
            &[("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_FLUSH", "1"), ("PMEM2_FORCE_GRANULARITY", "BYTE")]
        }
        DurabilityOption::Commit => &[("PMEM_IS_PMEM_FORCE", "0"), ("PMEM2_FORCE_GRANULARITY", "PAGE")],
    }
}

/// Returns the libraries that change, for people and for programs.
fn shown(program: &Path, elf: &Elf, libraries: &Libraries) -> Output {
    let linked = libraries.of_program(elf);
    let mode = ObjectMode::of(elf.path(), &linked);
    let mut text = String::new();
    for change in &linked.changed {
        let from =
            change.from.as_ref().map_or_else(|| "not found".to_owned(), |path| path.display().to_string());
        text += &format!("{}: {from} -> {}\n", change.name, change.to.display());
    }
    if linked.changed.is_empty() {
        text += "the program is linked with none of the libraries; those that it loads later change\n";
    }
    if let Some(mode) = &mode {
        text += &mode.line();
    }
    text += &format!("LD_LIBRARY_PATH={}\n", libraries.search_path().display());
    let mode = mode.map(|mode| json!({ "mode": mode.name(), "reason": mode.reason() }));
    let changed: Vec<_> = linked
        .changed
        .iter()
        .map(|change| json!({ "name": change.name, "from": change.from, "to": change.to }))
        .collect();
    Output::text(text)
        .with("program", program.display().to_string())
        .with("folder", libraries.folder().display().to_string())
        .with("changed", changed)
        .with("libpmemobj", mode)
}

/// Returns the path of the program: a name without a slash is searched in PATH.
fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if path.components().count() > 1 {
        let why = if path.exists() {
            "it is no program; make it executable"
        } else {
            "no such file; check the path"
        };
        return if is_program(path) {
            Ok(path.to_owned())
        } else {
            Err(Failure::usage_error(format!("running {}: {why}", path.display())))
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| is_program(path));
    found.ok_or_else(|| {
        Failure::usage_error(format!("running {}: PATH has no such program; give its path", path.display()))
    })
}
