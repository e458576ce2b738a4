//! Files that commands write for the user.

use crate::failure::Failure;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Writes a file that gets its name only when it is complete. A device or a pipe is written in place. A link to a file
/// stays, and its target is replaced.
pub(crate) fn write_atomically(what: &str, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::io(what, path, &error);
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        let there = File::options().write(true).open(path);
        return there.and_then(|mut there| there.write_all(bytes)).map_err(failed);
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The permissions of any new file: the user's umask reduces them.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = builder.prefix(".lode-").permissions(permissions).tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error)).map(drop)
}
