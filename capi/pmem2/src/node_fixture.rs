//! A device-DAX node for tests.

use crate::source::Source;
use lode_pmem::Sysfs;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

/// Returns a node of 4 MiB on /dev/zero, and the sysfs of one, whose device has these files, too.
pub(crate) fn node(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs, Source) {
    let root = tempfile::tempdir().unwrap();
    let device = root.path().join("devices/ndbus0/region3/dax3.0");
    fs::create_dir_all(&device).unwrap();
    fs::create_dir_all(root.path().join("dev/char")).unwrap();
    fs::write(root.path().join("devices/ndbus0/region3/mappings"), "0\n").unwrap();
    for (name, value) in [("size", "4194304\n"), ("align", "2097152\n")].iter().chain(files) {
        fs::write(device.join(name), value).unwrap();
    }
    symlink("../../bus/dax", device.join("subsystem")).unwrap();
    symlink(&device, root.path().join("dev/char/1:5")).unwrap();
    let sysfs = Sysfs::at(root.path());
    let zero: &'static File =
        Box::leak(Box::new(File::options().read(true).write(true).open("/dev/zero").unwrap()));
    let source = Source::of_descriptor(zero.as_fd(), &sysfs).unwrap();
    (root, sysfs, source)
}
