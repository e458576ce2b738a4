//! Full disks: what a create or a growth answers that finds no room, and what it leaves.

use lode_capi_compare::{Library, Program, in_memory, on_library};
use lode_testing::SmallDisk;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Bytes of the disk: room for the smallest pool, and for not much more.
const DISK_LEN: u64 = 14 << 20;
const FORCE: (&str, &str) = ("PMEM_IS_PMEM_FORCE", "1");
/// Signal of a store that the file system has no room for.
const SIGBUS: i32 = 7;

fn run(program: &Program, folder: &Path, is_ours: bool, words: &[&str]) -> String {
    let output = program.run_in(folder, is_ours, words, &[FORCE]);
    format!("{} {}", output.status, String::from_utf8_lossy(&output.stdout))
}

/// Returns the names of the files in a folder and in its folder `d`, with their bytes.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let list = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap());
        let entries = entries.filter(|entry| entry.file_type().unwrap().is_file());
        entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()))
            .collect::<Vec<_>>()
    };
    let mut files = [list(folder), list(&folder.join("d"))].concat();
    files.sort();
    files
}

fn write_set(folder: &Path, lines: &str) {
    fs::create_dir(folder.join("d")).unwrap();
    let lines = lines.replace('@', folder.to_str().unwrap());
    fs::write(folder.join("set"), format!("PMEMPOOLSET\n{lines}")).unwrap();
}

fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// A create without room leaves what was there before, and says so with Debian's errno and words.
#[test]
fn create_on_full_disk_leaves_no_file() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let Some(disk) = SmallDisk::mount("create_on_full_disk_leaves_no_file", DISK_LEN) else { return };
    let sets = [
        None,
        Some("9M @/a\n9M @/b\n"),
        Some("9M @/a\nREPLICA\n9M @/b\n"),
        Some("OPTION SINGLEHDR\n9M @/a\n9M @/b\n9M @/c\n"),
        Some("32M @/a\n"),
    ];
    for set in sets {
        let [theirs, ours] = [false, true].map(|is_ours| {
            clear(disk.folder());
            set.iter().for_each(|lines| write_set(disk.folder(), lines));
            let before = files(disk.folder());
            let words = [if set.is_none() { "create:33554432" } else { "create" }];
            let answer = run(&program, disk.folder(), is_ours, &words);
            assert_eq!(files(disk.folder()), before, "{set:?}, ours: {is_ours}");
            answer
        });
        assert!(theirs.contains(": errno 28 posix_fallocate "), "{set:?}: {theirs}");
        assert!(ours.starts_with(theirs.trim_end()), "{set:?}: {theirs}\n{ours}");
    }
    // A file without its space gets that, or no pool.
    for is_ours in [false, true] {
        clear(disk.folder());
        File::create(disk.folder().join("set")).unwrap().set_len(32 << 20).unwrap();
        let answer = run(&program, disk.folder(), is_ours, &["create"]);
        assert!(answer.contains("create: errno 28 posix_fallocate \"set\", 33554432: No space"), "{answer}");
        let bytes = fs::read(disk.folder().join("set")).unwrap();
        assert!(bytes.len() == 32 << 20 && bytes.iter().all(|byte| *byte == 0), "ours: {is_ours}");
    }
}

/// A directory on a full disk lets a pool grow no further, and the pool goes on. PMDK says EBADF for a growth by hand.
#[test]
fn growth_on_full_disk_is_refused() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let Some(disk) = SmallDisk::mount("growth_on_full_disk_is_refused", DISK_LEN) else { return };
    for is_ours in [false, true] {
        clear(disk.folder());
        write_set(disk.folder(), "OPTION SINGLEHDR\n64M @/d\n");
        let words = ["create", "step:4194304", "alloc:60:200000", "tx:3:9000000", "extend:4194304", "show"];
        let answer = run(&program, disk.folder(), is_ours, &words);
        let extend = if is_ours { "extend:4194304: errno 28 " } else { "extend:4194304: errno 9 " };
        for refused in ["alloc:60:200000: errno 12 ", "tx:3:9000000: errno 12 ", extend] {
            assert!(answer.contains(refused), "{answer}");
        }
        let parts = [("000000.pmem", 8 << 20), ("000001.pmem", 4 << 20)];
        let found = files(disk.folder());
        let found = found.iter().map(|(name, len)| (name.as_str(), *len)).filter(|(name, _)| *name != "set");
        assert_eq!(found.collect::<Vec<_>>(), parts, "ours: {is_ours}");
        let mut shown = answer.lines().last().unwrap().to_owned();
        let count: u32 = shown.split(' ').next().unwrap().parse().unwrap();
        assert!(count >= 40, "{shown}");
        for opened in [is_ours, !is_ours, true] {
            let answer =
                run(&program, disk.folder(), opened, &["open", "show", "free:2", "alloc:3:3000", "show"]);
            let lines: Vec<&str> = answer.lines().collect();
            assert_eq!((lines.len(), lines[0]), (2, format!("exit status: 0 {shown}").as_str()), "{answer}");
            shown = lines[1].to_owned();
        }
    }
}

/// Stores to a pool that has lost the space of its free chunks raise SIGBUS, as with PMDK. The pool has what was committed until then.
#[test]
fn sparse_pool_survives_full_disk() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let Some(disk) = SmallDisk::mount("sparse_pool_survives_full_disk", DISK_LEN) else { return };
    for is_ours in [false, true] {
        clear(disk.folder());
        let roomy = in_memory();
        run(&program, roomy.path(), is_ours, &["create:33554432", "alloc:5:1000"]);
        let copied = Command::new("cp")
            .args(["--sparse=always"])
            .args([roomy.path().join("set"), disk.folder().join("set")])
            .status();
        assert!(copied.unwrap().success());
        let output = program.run_in(disk.folder(), is_ours, &["open", "fill:300000"], &[FORCE]);
        assert_eq!(output.status.signal(), Some(SIGBUS), "ours: {is_ours}, {output:?}");
        fs::copy(disk.folder().join("set"), roomy.path().join("set")).unwrap();
        for (opened, more) in [(is_ours, 0), (!is_ours, 2), (true, 4), (false, 6)] {
            let answer = run(&program, roomy.path(), opened, &["open", "show", "alloc:2:1000"]);
            let count = answer.strip_prefix("exit status: 0 ").and_then(|text| text.split(' ').next());
            let count: u32 = count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
            // The disk has room for some objects of 300,000 bytes, and no others were there.
            assert!((10..48).contains(&(count - more)), "ours: {is_ours}, {answer}");
        }
        assert_eq!(run(&program, roomy.path(), false, &["check"]), "exit status: 0 check: 1\n");
    }
}

/// A limit of the process on the size of files refuses a create as a full disk does.
#[test]
fn create_past_the_limit_of_file_size_leaves_no_file() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for is_ours in [false, true] {
        let folder = in_memory();
        let mut shell = Command::new("sh");
        on_library(&mut shell, is_ours.then(|| program.library().ours()).as_deref());
        let script = "trap '' XFSZ; ulimit -f 10240; exec \"$0\" create:33554432";
        shell.args(["-c", script]).arg(program.path()).current_dir(folder.path()).env(FORCE.0, FORCE.1);
        let output = shell.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let wanted = "create:33554432: errno 27 posix_fallocate \"set\", 33554432: File too large";
        assert!(text.starts_with(wanted), "{output:?}");
        assert_eq!(files(folder.path()), []);
    }
}
