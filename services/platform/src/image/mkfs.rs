//! Making a file system on a namespace.

use super::error::ImageError;
use super::file_system::{FileSystem, HEAD};
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::namespace::{Mode, Namespace, NamespaceError};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File system block size in bytes: the page size, as DAX mappings require.
const BLOCK: &str = "4096";

/// Type of a file system that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemKind {
    /// By mke2fs.
    Ext4,
    /// By mkfs.xfs.
    Xfs,
}

impl FileSystemKind {
    /// Returns the program that makes it.
    pub fn program(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "mke2fs",
            FileSystemKind::Xfs => "mkfs.xfs",
        }
    }

    /// Returns the Debian package with the program.
    pub fn package(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "e2fsprogs",
            FileSystemKind::Xfs => "xfsprogs",
        }
    }

    /// Returns the program's path in the first folder that has it.
    fn find(self, mut folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf, ImageError> {
        let program = self.program();
        let found = folders.find(|folder| folder.join(program).is_file());
        let found = found.map(|folder| folder.join(program));
        found.ok_or(ImageError::NoProgram { program, package: self.package() })
    }

    fn options(self, sector_size: u64) -> Vec<String> {
        match self {
            FileSystemKind::Ext4 => ["-q", "-F", "-t", "ext4", "-b", BLOCK].map(str::to_owned).to_vec(),
            FileSystemKind::Xfs => {
                let [block, sector] = [format!("size={BLOCK}"), format!("size={sector_size}")];
                ["-q", "-f", "-b", &block, "-s", &sector].map(str::to_owned).to_vec()
            }
        }
    }
}

impl Directory {
    /// Makes a file system on an fsdax namespace with the host's program, which also gets `options`. The namespace's
    /// previous data is lost.
    ///
    /// # Errors
    /// Fails if the namespace does not exist, is disabled or not in fsdax mode, if the program is missing or fails, or
    /// if a system call fails. Nothing is changed then.
    ///
    /// # Durability
    /// The change is atomic. After a crash, the namespace is as before or as after.
    pub fn make_file_system(
        &mut self,
        name: &str,
        kind: FileSystemKind,
        options: &[OsString],
        progress: &mut CopyProgress<'_>,
    ) -> Result<FileSystem, PlatformError> {
        let (region, namespace) = self.platform().namespace(name)?;
        if !region.enabled {
            return Err(NamespaceError::RegionDisabled { region: region.number }.into());
        }
        if !namespace.enabled {
            return Err(NamespaceError::NamespaceDisabled { name: name.to_owned() }.into());
        }
        if namespace.mode() != Mode::Fsdax || namespace.page_map().is_none() {
            return Err(ImageError::NotFsdax { name: name.to_owned() }.into());
        }
        let staged = self.stage()?;
        let path = staged.folder().join("file-system");
        let making = |error| FileError { what: "making", path: path.clone(), error };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(making)?;
        file.set_len(namespace.usable()).map_err(making)?;
        run(kind, &namespace, options, &path)?;
        let failed = |message: &str| ImageError::ProgramFailed {
            program: kind.program(),
            message: message.to_owned(),
        };
        // An option may have extended the file. Its end would be cut off.
        if file.metadata().map_err(making)?.len() > namespace.usable() {
            return Err(failed("the file system is larger than the namespace").into());
        }
        let mut head = vec![0; HEAD as usize];
        file.read_exact_at(&mut head, 0).map_err(making)?;
        // With some options the program makes no file system. The previous data stays then.
        let found = FileSystem::at(&head, 0);
        let found = found.ok_or_else(|| failed("it made no file system of this kind"))?;
        self.replace_data(&region, &namespace, staged, (&file, &path), progress)?;
        Ok(found)
    }
}

fn run(
    kind: FileSystemKind,
    namespace: &Namespace,
    options: &[OsString],
    path: &Path,
) -> Result<(), PlatformError> {
    let program = kind.program();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs the programs in folders that a user's PATH may lack.
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin", "/sbin"].map(Into::into));
    let mut command = Command::new(kind.find(folders)?);
    command.args(kind.options(namespace.sector_size)).args(options).arg(path).stdin(Stdio::null());
    let output = command.output();
    let output = output.map_err(|error| FileError { what: "running", path: program.into(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    Err(ImageError::ProgramFailed { program, message: lines.join("; ") }.into())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn missing_program_names_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let folders = || [folder.path().join("none"), folder.path().to_owned()].into_iter();
        let missing = FileSystemKind::Xfs.find(folders()).unwrap_err().to_string();
        assert!(missing.contains("mkfs.xfs is not on") && missing.contains("xfsprogs"), "{missing}");
        std::fs::write(folder.path().join("mkfs.xfs"), "").unwrap();
        assert_eq!(FileSystemKind::Xfs.find(folders()).unwrap(), folder.path().join("mkfs.xfs"));
    }
}
