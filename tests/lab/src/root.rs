//! The file system of a guest: tools of this machine with their libraries, and modules of its kernel.

use crate::kernel::Kernel;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs of this machine. The shell must not be busybox, which prefers its own modprobe and mount to ours.
const TOOLS: [&str; 21] = [
    "/bin/dash",
    "/bin/busybox",
    "/bin/mount",
    "/bin/umount",
    "/bin/findmnt",
    "/bin/lsblk",
    "/bin/fuser",
    "/bin/kmod",
    "/usr/bin/ndctl",
    "/usr/bin/daxctl",
    "/usr/bin/daxio",
    "/usr/bin/cxl",
    "/sbin/dmsetup",
    "/sbin/mkfs.ext4",
    "/sbin/e2fsck",
    "/sbin/resize2fs",
    "/sbin/mkfs.xfs",
    "/sbin/xfs_repair",
    "/sbin/nbd-client",
    "/usr/sbin/xfs_io",
    "/usr/bin/setpriv",
];

/// Modules that scripts load, or that the kernel loads for a mount.
const MODULES: [&str; 20] = [
    "nfit",
    "nd_e820",
    "nd_pmem",
    "dax_pmem",
    "device_dax",
    "kmem",
    "virtio_pci",
    "virtio_pmem",
    "ext4",
    "xfs",
    "crc32c_generic",
    "brd",
    "loop",
    "nbd",
    "dm-log-writes",
    "cxl_acpi",
    "cxl_pci",
    "cxl_port",
    "cxl_mem",
    "cxl_pmem",
];

/// Builds the archive for guests of a kernel, with our `programs`, in `folder`; returns its path.
pub(crate) fn build(folder: &Path, kernel: &Kernel, programs: &[PathBuf]) -> Result<PathBuf> {
    let root = folder.join(format!("root-{}", kernel.series));
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for place in ["bin", "sbin", "usr/bin", "usr/sbin", "lab", "etc"] {
        fs::create_dir_all(root.join(place))?;
    }
    let mut libraries = BTreeSet::new();
    for tool in TOOLS {
        let tool = Path::new(tool);
        copy(tool, &root)?;
        libraries.extend(shared_libraries(tool)?);
    }
    for program in programs {
        libraries.extend(shared_libraries(program)?);
    }
    for library in libraries {
        copy(&library, &root)?;
    }
    for program in programs {
        let name = program.file_name().context("a program without a name")?;
        fs::copy(program, root.join("bin").join(name)).with_context(|| program.display().to_string())?;
    }
    add_applets(&root)?;
    add_modules(&root, kernel)?;
    add_script(&root.join("init"), include_str!("../guest/init"))?;
    add_script(&root.join("lab/functions"), include_str!("../guest/functions"))?;
    add_script(&root.join("lab/answers"), include_str!("../guest/answers"))?;
    let archive = folder.join(format!("root-{}.cpio", kernel.series));
    pack(&root, &archive)?;
    fs::remove_dir_all(&root)?;
    Ok(archive)
}

/// Packs a folder as the kernel unpacks it at boot.
pub(crate) fn pack(root: &Path, archive: &Path) -> Result<()> {
    let mut names = Vec::new();
    list(root, Path::new(""), &mut names)?;
    let mut cpio = Command::new("cpio")
        .args(["--create", "--format=newc", "--owner=0:0", "--quiet", "--null"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(File::create(archive)?)
        .spawn()
        .context("cpio")?;
    let mut input = cpio.stdin.take().context("no standard input")?;
    for name in names {
        input.write_all(name.as_os_str().as_encoded_bytes())?;
        input.write_all(b"\0")?;
    }
    drop(input);
    ensure!(cpio.wait()?.success(), "cpio can't pack {}", root.display());
    Ok(())
}

/// Lists everything below `root/folder`, a folder before its entries.
fn list(root: &Path, folder: &Path, names: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        names.push(name.clone());
        if entry.file_type()?.is_dir() {
            list(root, &name, names)?;
        }
    }
    Ok(())
}

/// Copies a file to its own path below `root`.
fn copy(file: &Path, root: &Path) -> Result<()> {
    let place = root.join(file.strip_prefix("/").unwrap_or(file));
    fs::create_dir_all(place.parent().context("a path without a folder")?)?;
    fs::copy(file, &place).with_context(|| format!("copying {}", file.display()))?;
    Ok(())
}

/// Returns the libraries that a program needs, with the loader.
fn shared_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8(output.stdout)?;
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{} lacks a library: {}", program.display(), line.trim());
    }
    // "name => /path (address)", or "/path (address)"; a static program has none.
    let path = |line: &str| {
        let place = line.split("=> ").last()?.split_whitespace().next()?;
        place.starts_with('/').then(|| PathBuf::from(place))
    };
    Ok(text.lines().filter_map(path).collect())
}

/// Adds `sh`, `modprobe`, and a link to busybox for each other command that no tool provides.
fn add_applets(root: &Path) -> Result<()> {
    let output = Command::new("/bin/busybox").arg("--list").output().context("busybox")?;
    symlink("/bin/dash", root.join("bin/sh"))?;
    symlink("/bin/kmod", root.join("sbin/modprobe"))?;
    let folders = ["bin", "sbin", "usr/bin", "usr/sbin"].map(|folder| root.join(folder));
    for applet in String::from_utf8(output.stdout)?.lines() {
        if folders.iter().all(|folder| fs::symlink_metadata(folder.join(applet)).is_err()) {
            symlink("/bin/busybox", root.join("bin").join(applet))?;
        }
    }
    Ok(())
}

/// Adds the modules, unpacked, and the list by which modprobe finds them.
fn add_modules(root: &Path, kernel: &Kernel) -> Result<()> {
    for module in kernel.modules(&MODULES)? {
        let place = root.join(module.strip_prefix(&kernel.root)?);
        fs::create_dir_all(place.parent().context("a path without a folder")?)?;
        if module.extension().is_some_and(|extension| extension == "xz") {
            let output = File::create(place.with_extension(""))?;
            let mut xz = Command::new("xz");
            xz.args(["--decompress", "--stdout"]).arg(&module).stdout(output);
            ensure!(xz.status().context("xz")?.success(), "xz can't unpack {}", module.display());
        } else {
            fs::copy(&module, &place)?;
        }
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        let name = Path::new("lib/modules").join(&kernel.release).join(list);
        fs::copy(kernel.root.join(&name), root.join(&name))?;
    }
    let depmod = Command::new("/sbin/depmod").arg("--basedir").arg(root).arg(&kernel.release).status();
    ensure!(depmod.context("depmod")?.success(), "depmod failed");
    Ok(())
}

fn add_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
