//! Tests that a medium opens at the durability that it can offer, and reports the evidence. A medium that can't keep
//! data opens only if the caller names its durability.

use lode_layout::PoolOffset;
use lode_pmem::{Durability, DurabilityEvidence, DurabilityWarning, Mapping, Medium, PmemError, Sysfs};
use rustix::fs::{MemfdFlags, major, memfd_create, minor};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};

const PAGE: u64 = 4096;

fn memfd(len: u64) -> File {
    let file =
        File::from(memfd_create("lode", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd"));
    file.set_len(len).expect("a memfd");
    file
}

#[test]
fn ordinary_file_has_commit_durability() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(PAGE + 100).unwrap();
    let mapping = match Mapping::options().open(file.path()) {
        Err(PmemError::Volatile { report, .. }) => {
            let reason = format!("temporary files are volatile: {report}");
            return lode_testing::skip("ordinary_file_has_commit_durability", reason);
        }
        other => other.unwrap(),
    };
    assert_eq!(mapping.report().to_string(), "commit: MAP_SYNC refused, the file is in the page cache");
    assert_eq!(
        (mapping.durability(), mapping.log_block(), mapping.memory().len()),
        (Durability::Commit, PAGE, PAGE + 100)
    );
    mapping.log_write(PoolOffset::NULL, &[7; PAGE as usize]).unwrap();
    assert_eq!(
        mapping.memory().reading(|memory| memory.load8(PoolOffset::new(8))).unwrap(),
        0x0707_0707_0707_0707
    );
    mapping.store8(PoolOffset::new(PAGE), 9);
    mapping.drain().unwrap();
    drop(mapping);
    let bytes = fs::read(file.path()).unwrap();
    assert_eq!(
        (&bytes[..PAGE as usize], bytes[PAGE as usize], bytes.len()),
        (&[7; PAGE as usize][..], 9, 4196)
    );
}

#[test]
fn volatile_memory_needs_explicit_option() {
    let refused = Mapping::options().map_file(memfd(PAGE), "pool").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "pool: not durable (none: tmpfs); ask for durability none by name to use it"
    );
    let mapping = Mapping::options().durability(Durability::None).map_file(memfd(PAGE), "pool").unwrap();
    assert_eq!((mapping.report().to_string().as_str(), mapping.log_block()), ("none: tmpfs", 64));
    mapping.drain().unwrap();

    let refused = Mapping::options().map_anonymous(PAGE).unwrap_err();
    assert!(refused.to_string().contains("none: anonymous memory"), "{refused}");
    let mapping = Mapping::options().durability(Durability::None).map_anonymous(PAGE).unwrap();
    assert_eq!(mapping.report().how, DurabilityEvidence::Anonymous);
}

#[test]
fn forced_durability_is_used_and_reported() {
    for durability in [Durability::Commit, Durability::Line, Durability::Byte] {
        let mapping = Mapping::options().durability(durability).map_file(memfd(2 * PAGE), "pool").unwrap();
        assert_eq!(
            (mapping.durability(), mapping.report().warning),
            (durability, Some(DurabilityWarning::ForcedAbove))
        );
        mapping.log_write(PoolOffset::new(PAGE), &[durability.code(); PAGE as usize]).unwrap();
        mapping.copy(PoolOffset::new(8), &[durability.code(); 72]);
        mapping.flush(PoolOffset::new(8), 72);
        mapping.drain().unwrap();
        assert!(
            mapping
                .memory()
                .reading(|memory| memory.equals(PoolOffset::new(8), &[durability.code(); 72]))
                .unwrap()
        );
        assert!(
            mapping
                .memory()
                .reading(|memory| memory.equals(PoolOffset::new(PAGE), &[durability.code(); PAGE as usize]))
                .unwrap()
        );
    }
}

#[test]
fn unmappable_files_are_refused() {
    let refused = |path: &str| Mapping::options().open(path).unwrap_err();
    assert_eq!(refused("/dev/null"), PmemError::NotMappable { path: "/dev/null".into() });
    assert_eq!(refused("/").to_string(), "/: open: Is a directory (os error 21)");
    assert_eq!(refused("/nowhere").to_string(), "/nowhere: open: No such file or directory (os error 2)");
    let empty = Mapping::options().map_file(memfd(0), "pool").unwrap_err();
    assert_eq!(empty, PmemError::Empty { path: "pool".into() });
}

#[test]
fn private_view_never_reaches_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [1; 100]).unwrap();
    let read_only = File::open(file.path()).unwrap();
    let view = Mapping::options().private_view().map_file(read_only, file.path()).unwrap();
    view.store8(PoolOffset::new(8), 5);
    view.log_write(PoolOffset::NULL, &[6; 64]).unwrap();
    assert_eq!(
        (view.memory().reading(|memory| memory.load8(PoolOffset::new(8))).unwrap(), view.durability()),
        (0x0606_0606_0606_0606, Durability::None)
    );
    assert_eq!(fs::read(file.path()).unwrap(), [1; 100]);
    assert_eq!(view.grow(200), Err(PmemError::FixedSize { path: file.path().into() }));
}

/// Opens /dev/zero under a sysfs tree in which it is a device-DAX node of two pages.
fn as_device_dax(
    below: &str,
    attributes: &[(&str, &str)],
) -> (tempfile::TempDir, Result<Mapping, PmemError>) {
    let root = tempfile::tempdir().expect("a tree");
    let number = fs::metadata("/dev/zero").expect("a device").rdev();
    let dir = root.path().join(below).join("dax0.0");
    fs::create_dir_all(&dir).expect("a tree");
    fs::create_dir_all(root.path().join("dev/char")).expect("a tree");
    symlink(&dir, root.path().join(format!("dev/char/{}:{}", major(number), minor(number)))).expect("a tree");
    for (path, content) in [("size", "8192"), ("align", "4096")] {
        fs::write(dir.join(path), content).expect("a tree");
    }
    for (path, content) in attributes {
        fs::write(dir.with_file_name(path), content).expect("a tree");
    }
    let mapping = Mapping::options().sysfs(Sysfs::at(root.path())).open("/dev/zero");
    (root, mapping)
}

#[test]
fn device_has_durability_of_its_region() {
    for (domain, told) in [
        ("cpu_cache", "byte: device-DAX, persistence_domain of region3 is cpu_cache"),
        ("memory_controller", "line: device-DAX, persistence_domain of region3 is memory_controller"),
    ] {
        let region = "devices/ndbus0/region3";
        let (_root, mapping) = as_device_dax(region, &[("mappings", "1"), ("persistence_domain", domain)]);
        let mapping = mapping.unwrap();
        assert_eq!((mapping.report().to_string().as_str(), mapping.memory().len()), (told, 2 * PAGE));
        mapping.log_write(PoolOffset::new(64), &[5; 128]).unwrap();
        assert!(mapping.memory().reading(|memory| memory.equals(PoolOffset::new(64), &[5; 128])).unwrap());
        assert_eq!(mapping.grow(3 * PAGE), Err(PmemError::FixedSize { path: "/dev/zero".into() }));
    }
}

#[test]
fn device_without_region_is_volatile() {
    let (_root, mapping) = as_device_dax("devices/platform/hmem.0", &[]);
    let refused = mapping.unwrap_err();
    assert!(refused.to_string().contains("none: dax0.0 is on no nd region"), "{refused}");
}

#[test]
fn read_only_region_is_not_durable() {
    let attributes = [("mappings", "1"), ("persistence_domain", "memory_controller"), ("read_only", "1")];
    let (_root, mapping) = as_device_dax("devices/ndbus0/region3", &attributes);
    let refused = mapping.unwrap_err();
    assert!(
        refused.to_string().contains("region3 is read-only and may not keep what is stored"),
        "{refused}"
    );
    let attributes = [("mappings", "1"), ("read_only", "0")];
    let (_root, mapping) = as_device_dax("devices/ndbus0/region3", &attributes);
    assert_eq!(mapping.unwrap().durability(), Durability::Line);
}
