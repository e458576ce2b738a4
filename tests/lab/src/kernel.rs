//! A kernel of Debian, unpacked by `setup/install.sh lab`.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The series of kernels that scenarios run on. Each is a folder below `kernels`.
pub(crate) const SERIES: [&str; 2] = ["6.1", "6.12"];

/// A kernel and its modules.
pub(crate) struct Kernel {
    pub(crate) series: &'static str,
    /// Full name, such as `6.1.0-44-amd64`.
    pub(crate) release: String,
    /// The file that QEMU boots.
    pub(crate) image: PathBuf,
    /// The folder that holds `lib/modules`.
    pub(crate) root: PathBuf,
}

impl Kernel {
    /// Returns the kernel of a series; `None` if it has not been unpacked.
    pub(crate) fn find(folder: &Path, series: &'static str) -> Result<Option<Kernel>> {
        let root = folder.join("kernels").join(series);
        let modules = root.join("lib/modules");
        if !modules.exists() {
            return Ok(None);
        }
        let entry = fs::read_dir(&modules)?.next().context("no folder of modules")??;
        let release = entry.file_name().to_string_lossy().into_owned();
        let packed = root.join(format!("boot/vmlinuz-{release}"));
        let image = unpacked(&packed, &root.join(format!("boot/vmlinux-{release}")))
            .with_context(|| packed.display().to_string())?;
        Ok(Some(Kernel { series, release, image, root }))
    }

    /// Returns the files of these modules and of all modules that they depend on.
    pub(crate) fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        // Ignore /etc/modprobe.d, which may have commands in place of modules.
        let output = Command::new("/sbin/modprobe")
            .args(["--config", "/dev/null", "--show-depends", "--all", "--set-version", &self.release])
            .arg("--dirname")
            .arg(&self.root)
            .args(names)
            .stderr(Stdio::inherit())
            .output()
            .context("modprobe")?;
        if !output.status.success() {
            bail!("modprobe does not know all modules of kernel {}", self.release);
        }
        let text = String::from_utf8(output.stdout)?;
        // Lines of built-in modules have no `insmod`.
        Ok(text.lines().filter_map(|line| Some(line.strip_prefix("insmod ")?.trim().into())).collect())
    }
}

/// Unpacks the payload of a kernel that is compressed with xz, and returns its path. Unpacking it here spares the guest
/// seconds of doing so in emulation. Other kernels boot as they are.
fn unpacked(packed: &Path, into: &Path) -> Result<PathBuf> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    if into.exists() {
        return Ok(into.to_owned());
    }
    let image = fs::read(packed)?;
    let payload = payload(&image).context("this is no bzImage")?;
    if !payload.starts_with(XZ) {
        return Ok(packed.to_owned());
    }
    let (compressed, partial) = (into.with_extension("xz"), into.with_extension("new"));
    fs::write(&compressed, payload)?;
    // The length of the stream follows the stream.
    let status = Command::new("xz")
        .args(["--decompress", "--single-stream", "--stdout"])
        .stdin(File::open(&compressed)?)
        .stdout(File::create(&partial)?)
        .status()
        .context("xz")?;
    fs::remove_file(&compressed)?;
    if !status.success() {
        bail!("xz can't unpack it");
    }
    fs::rename(&partial, into)?;
    Ok(into.to_owned())
}

/// Returns the compressed kernel in a bzImage. Linux, Documentation/arch/x86/boot.rst: setup_sects, payload_offset and
/// payload_length.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        count => usize::from(count),
    };
    let start = (sectors + 1) * 512 + word(0x248)?;
    image.get(start..start.checked_add(word(0x24c)?)?)
}
