//! The memory that this process may use.

use std::fs;
use std::path::Path;

/// Returns the bytes of memory that this process may use, page cache included: those of the machine, or the least limit
/// of its control groups. See cgroups(7), and *memory.max* and *memory.limit_in_bytes* in the kernel's documentation of both versions.
pub(crate) fn memory_limit() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram as u64 * u64::from(machine.mem_unit.max(1));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_limit(&groups, Path::new("/sys/fs/cgroup")).map_or(machine, |limit| limit.min(machine))
}

/// Returns the least limit of the control groups that `groups` lists, as /proc/self/cgroup does, and of those above them.
/// Their files are below `mount`. `None` if there is no limit, or none can be read.
fn group_limit(groups: &str, mount: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (folder, name) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let above = Path::new(path).ancestors().filter_map(|group| group.strip_prefix("/").ok());
        // A group has no such file if nothing limits it, and none that a container sees if it lies outside of that.
        let limit =
            |group: &Path| fs::read_to_string(folder.join(group).join(name)).ok()?.trim().parse().ok();
        above.filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod test {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn mount(files: &[(&str, &str)]) -> tempfile::TempDir {
        let mount = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = mount.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        mount
    }

    #[test]
    fn least_limit_counts() {
        let mount = mount(&[
            ("a/memory.max", "max\n"),
            ("a/b/memory.max", "4096\n"),
            ("a/b/c/memory.max", "8192\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/x/memory.limit_in_bytes", "2048\n"),
        ]);
        let limit = |groups| group_limit(groups, mount.path());
        assert_eq!(limit("0::/a/b/c\n"), Some(4096));
        assert_eq!(limit("0::/a\n"), None);
        assert_eq!(limit("0::/b\n"), None);
        assert_eq!(limit("4:cpu,memory:/x\n3:cpu:/a\n"), Some(2048));
        assert_eq!(limit("4:memory:/y/z\n0::/a/b\n"), Some(4096));
        assert_eq!(limit("4:memory:/y/z\n"), Some(9_223_372_036_854_771_712));
        for damaged in ["", "0", "0:", "0:/a", "memory", "::\n"] {
            assert_eq!(limit(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn machine_has_memory() {
        assert!(memory_limit() > 1 << 20);
    }
}
