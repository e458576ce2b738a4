//! `lode exec` runs programs that were written for PMDK on our libraries, and refuses those that can't take them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, documented_fields, json_fields, text};
use lode_capi_compare::{Library, Program, on_library};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A copy of the program in a folder, with our libraries beside it.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let installed = Installed::without_libraries();
        fs::create_dir_all(installed.path("bin/capi/lib")).unwrap();
        for library in Library::ALL {
            let name = library.soname();
            symlink(library.ours().join(&name), installed.library(&name)).unwrap();
        }
        installed
    }

    fn without_libraries() -> Installed {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_lode"), folder.path().join("bin/lode")).unwrap();
        Installed { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of one of our shared objects, as the loader finds it.
    fn library(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("bin/capi/lib").join(name)
    }

    /// Returns the command `lode exec OPTIONS -- WORDS`.
    fn command<A: AsRef<OsStr>>(&self, options: &[&str], words: &[A]) -> Command {
        let mut lode = Command::new(self.path("bin/lode"));
        on_library(&mut lode, None);
        lode.arg("exec").args(options).arg("--").args(words).current_dir(self.folder.path());
        lode
    }

    fn run<A: AsRef<OsStr>>(&self, options: &[&str], words: &[A]) -> RunResult {
        RunResult::of(self.command(options, words).output().unwrap())
    }

    /// Makes a program of a shell script or of other bytes.
    fn program(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

#[test]
fn program_of_debian_runs_on_our_library() {
    let Some(program) = Program::compile("pmem_example", Library::PMEM) else { return };
    let installed = Installed::new();
    let out = installed.run(&[], &[program.path().as_os_str(), OsStr::new("told")]).success();
    let message =
        "told: open missing/f: No such file or directory; the file, or a folder of its path, is missing";
    assert!(out.contains(message), "our message goes on after PMDK's words: {out}");
    assert!(installed.path("file").exists(), "it ran in this folder");
}

#[test]
fn changed_libraries_are_shown() {
    let Some(program) = Program::compile("pmem_example", Library::PMEM) else { return };
    let installed = Installed::new();
    let (words, ours) = ([program.path()], installed.library("libpmem.so.1"));
    let out = installed.run(&["--show"], &words).success();
    let (line, rest) = out.split_once('\n').unwrap();
    assert!(
        line.starts_with("libpmem.so.1: /") && line.ends_with(&format!(" -> {}", ours.display())),
        "{out}"
    );
    assert!(rest.starts_with("LD_LIBRARY_PATH=/"), "{out}");
    assert!(!installed.path("file").exists(), "it did not run");
    let json = installed.run(&["--show", "--json"], &words).json();
    assert_eq!(json["changed"][0]["name"], "libpmem.so.1");
    assert_eq!(json["changed"][0]["to"], text(&ours));
    assert_eq!(json_fields(std::slice::from_ref(&json)), documented_fields(&["exec"]));
    let none = installed.run(&["--show"], &["sh"]).success();
    assert!(none.contains("linked with none of the libraries"), "{none}");
}

/// libpmem2 changes as libpmem does, and the program gets the granularity of the durability.
#[test]
fn libpmem2_changes_too() {
    let Some(program) = Program::compile("pmem2_example", Library::PMEM2) else { return };
    let installed = Installed::new();
    let out = installed.run(&["--show"], &[program.path()]).success();
    let wanted = format!(" -> {}\n", installed.library("libpmem2.so.1").display());
    assert!(out.starts_with("libpmem2.so.1: /") && out.contains(&wanted), "{out}");
    let out = installed.run(&["--durability", "line"], &[program.path()]).success();
    assert!(out.contains("hello, persistent memory 10000 ! 0 1"), "{out}");
}

/// The libraries of logs and of blocks change, too.
#[test]
fn libraries_of_pools_change_too() {
    let installed = Installed::new();
    for (name, library) in [("pmemlog_example", Library::PMEMLOG), ("pmemblk_example", Library::PMEMBLK)] {
        let Some(program) = Program::compile(name, library) else { return };
        let out = installed.run(&["--show"], &[program.path()]).success();
        let soname = library.soname();
        let wanted = format!(" -> {}\n", installed.library(&soname).display());
        assert!(out.contains(&format!("{soname}: /")) && out.contains(&wanted), "{out}");
        let out = installed.run(&["--durability", "line"], &[program.path()]).success();
        assert!(out.contains("check 1\n") && out.ends_with("message\n"), "{out}");
    }
}

/// The library of objects changes together with libpmem, which it takes two functions of.
#[test]
fn libpmemobj_changes_too() {
    let Some(program) = Program::compile("pmemobj_example", Library::PMEMOBJ) else { return };
    let installed = Installed::new();
    let out = installed.run(&["--show"], &[program.path()]).success();
    for soname in ["libpmem.so.1", "libpmemobj.so.1"] {
        let wanted = format!(" -> {}\n", installed.library(soname).display());
        assert!(out.contains(&format!("{soname}: /")) && out.contains(&wanted), "{out}");
    }
    installed.run(&["--durability", "line"], &[program.path()]).success();
}

/// The mode of libpmemobj's pools is told with its reason: the first file of the program and its libraries that flushes by itself.
#[test]
#[cfg(target_arch = "x86_64")]
fn mode_of_object_pools_is_shown() {
    let Some(plain) = Program::compile("pmemobj_example", Library::PMEMOBJ) else { return };
    let Some(flushing) = Program::compile("pmemobj_own_flush", Library::PMEMOBJ) else { return };
    let installed = Installed::new();
    let line = |program: &Program, mode: Option<&str>| {
        let mut command = installed.command(&["--show"], &[program.path()]);
        command.envs(mode.map(|mode| ("LODE_OBJ", mode)));
        let out = RunResult::of(command.output().unwrap()).success();
        out.lines().find(|line| line.starts_with("libpmemobj: ")).unwrap().to_owned()
    };
    assert_eq!(line(&plain, None), "libpmemobj: fast");
    let careful = line(&flushing, None);
    let start = format!("libpmemobj: careful, because {} has CLFLUSH at 0x", flushing.path().display());
    assert!(careful.starts_with(&start), "{careful}");
    assert!(careful.ends_with("; LODE_OBJ=fast if it never flushes a pool"), "{careful}");
    assert_eq!(line(&flushing, Some("fast")), "libpmemobj: fast, because LODE_OBJ is set");
    assert_eq!(line(&plain, Some("careful")), "libpmemobj: careful, because LODE_OBJ is set");
    assert!(line(&plain, Some("wrong")).contains("set it to fast or careful"));
    let json = installed.run(&["--show", "--json"], &[plain.path()]).json();
    assert_eq!((&json["libpmemobj"]["mode"], json["libpmemobj"]["reason"].is_null()), (&"fast".into(), true));
    let json = installed.run(&["--show", "--json"], &[flushing.path()]).json();
    assert_eq!(json["libpmemobj"]["mode"], "careful");
    let none = installed.run(&["--show", "--json"], &["sh"]).json();
    assert!(none["libpmemobj"].is_null(), "{none}");
}

/// The library that checks and repairs pools changes, too.
#[test]
fn libpmempool_changes_too() {
    let Some(program) = Program::compile("pmempool_example", Library::PMEMPOOL) else { return };
    let installed = Installed::new();
    let out = installed.run(&["--show"], &[program.path()]).success();
    let wanted = format!(" -> {}\n", installed.library("libpmempool.so.1").display());
    assert!(out.contains("libpmempool.so.1: /") && out.contains(&wanted), "{out}");
    let out = installed.run(&[], &[program.path()]).success();
    assert!(out.contains("setting pmemlog.write_offset to pmemlog.end_offset\n result 2\n"), "{out}");
}

#[test]
fn durability_becomes_variables() {
    let installed = Installed::new();
    let show = "echo $PMEM_IS_PMEM_FORCE,$PMEM_NO_FLUSH,$PMEM2_FORCE_GRANULARITY";
    for (durability, wanted) in [
        ("auto", ",,"),
        ("byte", "1,1,BYTE"),
        ("line", "1,0,CACHE_LINE"),
        ("commit", "0,,PAGE"),
        ("none", "1,1,BYTE"),
    ] {
        let out = installed.run(&["--durability", durability], &["sh", "-c", show]).success();
        assert_eq!(out.trim(), wanted, "{durability}");
    }
    let mut command = installed.command(&[], &["sh", "-c", "echo $LD_LIBRARY_PATH"]);
    let out = RunResult::of(command.env("LD_LIBRARY_PATH", "/users").output().unwrap()).success();
    let folder = installed.library("libpmem.so.1").parent().unwrap().to_owned();
    assert_eq!(out.trim(), format!("{}:/users", folder.display()));
}

#[test]
fn exit_status_is_passed_on() {
    let installed = Installed::new();
    let code = |script: &str| installed.run(&[], &["sh", "-c", script]).code;
    assert_eq!(
        [code("exit 0"), code("exit 7"), code("kill -9 $$"), code("kill -11 $$")],
        [Some(0), Some(7), Some(128 + 9), Some(128 + 11)]
    );
    let script = installed.program("script", "#!/bin/sh\nexit 5\n", 0o755);
    assert_eq!(installed.run(&[], &[&script]).code, Some(5));
}

#[test]
fn signals_are_passed_on() {
    let installed = Installed::new();
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let mut lode = installed.command(&[], &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(lode.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&lode);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(lode.wait().unwrap().code(), Some(9));
}

#[test]
fn programs_that_cannot_take_our_libraries_are_refused() {
    let installed = Installed::new();
    let refused = |path: &Path, parts: &[&str]| installed.run(&[], &[path]).failure(2, parts);
    let fixed = Program::link_statically("pmem_example", Library::PMEM);
    refused(fixed.path(), &["static program"]);
    let shell = fs::read("/bin/sh").unwrap();
    refused(&installed.program("setuid", &shell, 0o4755), &["setuid", "LD_LIBRARY_PATH"]);
    refused(&installed.program("setgid", &shell, 0o2755), &["setuid or setgid"]);
    refused(&installed.program("text", "no program", 0o755), &["no ELF program"]);
    refused(&installed.program("plain", "#!/bin/sh\n", 0o644), &["make it executable"]);
    refused(
        &installed.program("loop", format!("#!{}\n", installed.path("loop").display()), 0o755),
        &["scripts"],
    );
    refused(&installed.program("short", &shell[..100], 0o755), &["no ELF program"]);
    refused(Path::new("./missing"), &["check the path"]);
    refused(Path::new("missing-program"), &["PATH has no such program"]);
    installed.run(&[], &[""; 0]).failure(2, &["PROGRAM"]);
    let bare = Installed::without_libraries();
    bare.run(&[], &["sh", "-c", "exit 0"]).failure(2, &["libpmem.so.1", "make capi"]);
}

/// DT_RPATH comes before LD_LIBRARY_PATH, and DT_RUNPATH after it. It matters only if the libraries are there.
#[test]
fn rpath_is_refused_where_it_has_the_libraries() {
    let installed = Installed::new();
    fs::create_dir(installed.path("theirs")).unwrap();
    fs::create_dir(installed.path("empty")).unwrap();
    fs::write(installed.path("theirs/libpmem.so.1"), "").unwrap();
    fs::write(installed.path("main.c"), "int main(void) { return 3; }\n").unwrap();
    let compile = |name: &str, tags: &str, folder: &str| {
        let path = installed.path(name);
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&path).arg(installed.path("main.c"));
        compiler.arg(format!("-Wl,{tags},-rpath,{folder}"));
        assert!(compiler.status().unwrap().success());
        path
    };
    let there = installed.path("theirs").display().to_string();
    let before = "--disable-new-dtags";
    for folder in [there.as_str(), "$ORIGIN/theirs", "/nowhere:${ORIGIN}/theirs"] {
        let program = compile("before", before, folder);
        installed.run(&[], &[program]).failure(2, &["DT_RPATH", &there]);
    }
    assert_eq!(installed.run(&[], &[compile("empty-one", before, "$ORIGIN/empty")]).code, Some(3));
    assert_eq!(installed.run(&[], &[compile("after", "--enable-new-dtags", &there)]).code, Some(3));
}

/// A DT_RPATH of a library that the program needs comes before LD_LIBRARY_PATH, too, and so does one with words that the loader
/// replaces. A path in place of a name is the file itself.
#[test]
fn other_libraries_of_needed_files_are_refused() {
    let installed = Installed::new();
    let tokens = "theirs/lib/x86_64-linux-gnu";
    fs::create_dir_all(installed.path(tokens)).unwrap();
    let library = Library::PMEM.ours().join("libpmem.so.1");
    for folder in ["theirs", tokens] {
        fs::copy(&library, installed.path(folder).join("libpmem.so.1")).unwrap();
    }
    let source = "extern const char *pmem_errormsg(void);\nint use(void) { return pmem_errormsg() == 0; }\n";
    fs::write(installed.path("use.c"), source).unwrap();
    fs::write(installed.path("main.c"), "extern int use(void);\nint main(void) { return use() + 3; }\n")
        .unwrap();
    let compile = |name: &str, arguments: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.current_dir(installed.path("")).args(["-Wl,--no-as-needed", "-o", name]).args(arguments);
        assert!(compiler.status().unwrap().success(), "{name}");
        installed.path(name)
    };
    let (old, new) = ("-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags");
    for (name, rpath, is_refused) in [
        ("libbefore.so", [old, "-Wl,-rpath,$ORIGIN/theirs"], true),
        ("libtokens.so", [old, "-Wl,-rpath,$ORIGIN/theirs/$LIB"], cfg!(target_arch = "x86_64")),
        ("libafter.so", [new, "-Wl,-rpath,$ORIGIN/theirs"], false),
    ] {
        compile(name, &["-shared", "-fPIC", "use.c", "-Ltheirs", "-l:libpmem.so.1", rpath[0], rpath[1]]);
        let program =
            compile("program", &["main.c", new, "-L.", "-Wl,-rpath,$ORIGIN", &format!("-l:{name}")]);
        let result = installed.run(&[], &[&program]);
        if is_refused {
            result.failure(2, &["the loader finds", "theirs", "libpmem.so.1", "DT_RPATH"]);
        } else {
            assert_eq!(result.code, Some(3), "{name}");
        }
    }
    let direct = compile(
        "direct",
        &["main.c", "use.c", "-Ltheirs", "-l:libpmem.so.1", old, "-Wl,-rpath,$ORIGIN/theirs/$LIB"],
    );
    if cfg!(target_arch = "x86_64") {
        installed.run(&[], &[&direct]).failure(2, &["the loader finds", tokens]);
    }
}
