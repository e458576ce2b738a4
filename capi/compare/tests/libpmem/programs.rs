//! Programs of Debian that run on our library, not compiled anew.

use lode_capi_compare::{Library, assert_fio_verifies, in_memory, on_library, run_on_ours};
use std::fs;
use std::process::{Command, Output};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Random writes of fio's engine `libpmem` are read back with their checksums.
#[test]
fn fio_on_ours() {
    assert_fio_verifies("libpmem", Library::PMEM, "file");
}

/// `pmempool` makes a pool on our library, and on Debian's finds it sound.
#[test]
fn pmempool_on_ours() {
    let folder = in_memory();
    let arguments = ["create", "obj", "--layout=x", "--size=16M", "pool"];
    let Some(output) = run_on_ours("pmempool", Library::PMEM, &arguments, &[], folder.path()) else { return };
    assert!(output.status.success(), "{}", text(&output));
    let info = run_on_ours("pmempool", Library::PMEM, &["info", "pool"], &[], folder.path()).unwrap();
    assert!(info.status.success() && text(&info).contains("PMEMOBJ"), "{}", text(&info));
    let mut judge = Command::new("pmempool");
    on_library(&mut judge, None);
    let check = judge.args(["check", "pool"]).current_dir(folder.path()).output().unwrap();
    assert!(check.status.success(), "{}", text(&check));
}

/// `daxio` starts, and finds that the file is no device.
#[test]
fn daxio_on_ours() {
    let folder = in_memory();
    fs::write(folder.path().join("file"), [1; 4096]).unwrap();
    let arguments = ["--zero", "--output", "file", "--len", "4096"];
    let Some(output) = run_on_ours("daxio", Library::PMEM, &arguments, &[], folder.path()) else { return };
    assert!(text(&output).contains("neither input nor output is device dax"), "{}", text(&output));
}
