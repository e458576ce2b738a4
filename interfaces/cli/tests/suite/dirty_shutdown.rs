//! A pool whose modules had a dirty shutdown while it was open is refused until a repair.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, command, json_fields, lode, text};
use lode_testing::skip;
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder that the program sees in place of /sys: the disk of a pool lies on one memory module.
struct Modules {
    tree: tempfile::TempDir,
}

impl Modules {
    fn below(pool: &Path) -> Modules {
        let tree = tempfile::tempdir().unwrap();
        let (region, links) = (tree.path().join("devices/region0"), tree.path().join("dev/block"));
        let block = region.join("block/pmem0");
        for folder in [&block, &links, &tree.path().join("bus/nd/devices/nmem0")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(region.join("mappings"), "1\n").unwrap();
        fs::write(region.join("mapping0"), "nmem0,0,1073741824,0\n").unwrap();
        let dev = fs::metadata(pool).unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
        symlink("../../devices/region0/block/pmem0", links.join(number)).unwrap();
        Modules { tree }
    }

    /// Sets the count of dirty shutdowns.
    fn count(&self, count: u64) {
        fs::write(self.tree.path().join("bus/nd/devices/nmem0/dirty_shutdown"), format!("{count}\n"))
            .unwrap();
    }

    /// The program with these arguments, on the modules; a namespace of its own has the tree at /sys.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut unshare = Command::new("unshare");
        let own_user: &[&str] = if geteuid().is_root() { &[] } else { &["--map-root-user"] };
        let mount = "mount --rbind \"$0\" /sys || exit 77; exec \"$@\"";
        unshare.args(own_user).args(["--mount", "sh", "-c", mount]).arg(self.tree.path());
        let program = command(arguments);
        unshare.arg(program.get_program()).args(program.get_args()).stdin(Stdio::null());
        unshare
    }

    fn lode(&self, arguments: &[&str]) -> RunResult {
        RunResult::of(self.command(arguments).output().unwrap())
    }

    /// Returns true if this machine allows such a mount namespace.
    fn are_visible(&self) -> bool {
        self.command(&["--version"]).output().is_ok_and(|ended| ended.status.success())
    }
}

#[test]
fn repair_accepts_dirty_shutdown() {
    let fixture = PoolFixture::new();
    let modules = Modules::below(&fixture.pool);
    if !modules.are_visible() {
        return skip("repair_accepts_dirty_shutdown", "no mount namespace with another /sys");
    }
    let lines = fixture.file("in.tsv", "a\t1\nb\t2\n");
    modules.count(4);
    modules.lode(&["kv", "load", fixture.pool(), text(&lines)]).success();
    // A pool that was closed in between is not affected.
    modules.count(5);
    modules.lode(&["kv", "get", fixture.pool(), "a"]).success();
    leave_open(&modules, fixture.pool());
    modules.count(7);

    let sound = fs::read(&fixture.pool).unwrap();
    let why = ["modules lost data", "from 5 to 7", "lode pool repair"];
    for look in
        [&["pool", "info"][..], &["kv", "count"], &["kv", "export"], &["kv", "put"], &["pool", "grow"]]
    {
        let rest: &[&str] = match look[1] {
            "put" => &["c", "3"],
            "grow" => &["--size", "16MiB"],
            _ => &[],
        };
        let arguments: Vec<&str> =
            look.iter().copied().chain([fixture.pool()]).chain(rest.iter().copied()).collect();
        modules.lode(&arguments).failure(1, &why);
    }
    let checked = modules.lode(&["pool", "check", fixture.pool()]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(
        checked.out.contains("the count of dirty shutdowns") && checked.out.contains("3 keys"),
        "{checked:?}"
    );
    assert!(fs::read(&fixture.pool).unwrap() == sound, "nothing was written");

    let repaired = modules.lode(&["pool", "repair", fixture.pool(), "--json"]);
    assert_eq!(repaired.code, Some(3), "{repaired:?}");
    assert_eq!(repaired.json()["dirty_shutdown"], serde_json::json!({ "was": 5, "now": 7 }));
    assert_eq!(json_fields(&repaired.json_lines()), crate::program::documented_fields(&["pool", "repair"]));
    modules.lode(&["pool", "check", fixture.pool()]).success();
    assert_eq!(
        modules.lode(&["kv", "export", fixture.pool()]).success(),
        "a\t1\nb\t2\nkey\tvalue value\n",
        "what is whole stays"
    );
    let again = modules.lode(&["kv", "load", fixture.pool(), text(&lines)]).success();
    assert!(!again.contains("were loaded before"), "a load begins anew: {again}");

    // The next dirty shutdown is detected from the new count, and reported as text.
    leave_open(&modules, fixture.pool());
    modules.count(8);
    let repaired = modules.lode(&["pool", "repair", fixture.pool()]);
    assert_eq!(repaired.code, Some(3), "{repaired:?}");
    for part in ["lost, perhaps", "from 7 to 8", "what is listed is lost"] {
        assert!(repaired.out.contains(part), "no {part:?} in {repaired:?}");
    }
    assert!(modules.lode(&["pool", "repair", fixture.pool()]).success().contains("nothing to repair"));
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "3\n");
}

/// Starts a writer on the pool, and kills it.
fn leave_open(modules: &Modules, pool: &str) {
    let mut writer = modules
        .command(&["kv", "load", pool, "--ack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    // Longer than what was loaded before, since as much is read before it is known whether this is the same.
    std::io::Write::write_all(&mut input, b"key\tvalue value\n").unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "key\n");
    writer.kill().unwrap();
    writer.wait().unwrap();
}
