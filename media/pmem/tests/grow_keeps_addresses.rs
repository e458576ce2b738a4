//! Tests that a medium grows while it is open: offsets and addresses stay, and a full disk leaves it unchanged.

use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium, PmemError};
use lode_testing::skip;
use std::fs::File;
use std::process::Command;

const PAGE: u64 = 4096;

#[test]
fn file_grows_with_mapping() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(100).unwrap();
    let options = Mapping::options().durability(Durability::Commit).reserve(1 << 20);
    let mapping = options.map_file(file.try_clone().unwrap(), "pool").unwrap();
    mapping.store8(PoolOffset::new(88), 5);
    for len in [100, 104, PAGE, PAGE + 1, 3 * PAGE, 1 << 20] {
        mapping.grow(len).unwrap();
        assert_eq!((mapping.memory().len(), file.metadata().unwrap().len()), (len, len));
        let last = PoolOffset::new((len - 8) & !7);
        assert_eq!(
            mapping.memory().reading(|memory| memory.load8(last)).unwrap(),
            if len < 104 { 5 } else { 0 }
        );
        mapping.store8(last, 0);
        let behind = PoolOffset::new(len.next_multiple_of(8));
        assert!(mapping.memory().reading(|memory| memory.load8(behind)).is_err());
        mapping.store8(PoolOffset::new(88), 5);
    }
    mapping.store8(PoolOffset::new((1 << 20) - 8), 6);
    mapping.drain().unwrap();
    assert_eq!(mapping.memory().reading(|memory| memory.load8(PoolOffset::new(88))), Ok(5));
    let (path, len) = (|| "pool".into(), 1 << 20);
    assert_eq!(mapping.grow(len - 1), Err(PmemError::Shrink { path: path(), len, asked: len - 1 }));
    let refused = PmemError::AddressSpace { path: path(), reserved: len, asked: len + 1 };
    assert_eq!(mapping.grow(len + 1), Err(refused));
    assert_eq!(file.metadata().unwrap().len(), len);
}

/// Runs once more in a mount namespace with a tmpfs of 1 MiB, since the test needs its own file system.
#[test]
fn grow_on_full_disk_changes_nothing() {
    const FOLDER: &str = "LODE_TEST_FULL_DISK";
    let Some(folder) = std::env::var_os(FOLDER) else {
        let folder = tempfile::tempdir().unwrap();
        let mount = "mount -t tmpfs -o size=1m none \"$LODE_TEST_FULL_DISK\" || exit 77; exec \"$0\" --exact \
                     grow_on_full_disk_changes_nothing --nocapture";
        let child = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", mount])
            .arg(std::env::current_exe().unwrap())
            .env(FOLDER, folder.path())
            .output();
        let reason = match child {
            Ok(ended) if ended.status.code() == Some(77) => "no mount in a namespace".into(),
            Ok(ended) if ended.stdout.is_empty() => format!("no namespace: {ended:?}"),
            Ok(ended) => return assert!(ended.status.success(), "{ended:?}"),
            Err(error) => format!("unshare: {error}"),
        };
        return skip("grow_on_full_disk_changes_nothing", reason);
    };
    let path = std::path::Path::new(&folder).join("pool");
    let file = File::create_new(&path).unwrap();
    file.set_len(64 << 10).unwrap();
    let mapping = Mapping::options().durability(Durability::Commit).open(&path).unwrap();
    mapping.store8(PoolOffset::new(8), 5);
    let full =
        PmemError::Io { op: "fallocate", path: path.clone(), errno: rustix::io::Errno::NOSPC.raw_os_error() };
    assert_eq!(mapping.grow(2 << 20), Err(full));
    assert_eq!((mapping.memory().len(), file.metadata().unwrap().len()), (64 << 10, 64 << 10));
    mapping.grow(512 << 10).unwrap();
    mapping.store8(PoolOffset::new((512 << 10) - 8), 6);
    mapping.drain().unwrap();
    assert_eq!(mapping.memory().reading(|memory| memory.load8(PoolOffset::new(8))), Ok(5));
}
