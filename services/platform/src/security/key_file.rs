//! Names of the keys and blobs of a module.

use super::role::Role;
use crate::file::error::FileError;
use lode_nvdimm::ModuleId;
use rustix::system::uname;
use std::fs;
use std::io;
use std::path::Path;

/// Description of the key-encryption-key that `load-keys` loads.
pub(super) const KEK_NAME: &str = "nvdimm-master";
/// Its file.
pub(super) const KEK_FILE: &str = "nvdimm-master.blob";
/// The file with the handle of a TPM.
pub(super) const TPM_FILE: &str = "tpm.handle";
/// Bytes that a blob can have, as ndctl reads them.
const BLOB_MAX: u64 = 4096;

/// Returns the name of the key with a passphrase.
pub(super) fn key_name(id: &ModuleId, role: Role) -> String {
    format!("{}:{id}", prefix(role))
}

/// Returns the name of the file with a sealed passphrase.
pub(super) fn blob_name(id: &ModuleId, role: Role) -> String {
    format!("{}_{id}_{}.blob", prefix(role), uname().nodename().to_string_lossy())
}

/// Returns the name of the key for a file of the folder; `None` if the file is no blob with a user passphrase. Blobs of
/// other hosts are taken, too.
pub(super) fn key_of_blob(file: &str) -> Option<String> {
    let mut words = file.split('_');
    let id = words.next().filter(|word| *word == prefix(Role::User)).and(words.next())?;
    (!id.is_empty()).then(|| format!("{}:{id}", prefix(Role::User)))
}

fn prefix(role: Role) -> &'static str {
    match role {
        Role::User => "nvdimm",
        Role::Master => "nvdimm-master",
    }
}

/// Reads a blob; `None` if there is no such file.
///
/// # Errors
/// Fails if it is empty or longer than a blob can be, or if a system call fails.
pub(super) fn read_blob(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let read = fs::metadata(path).and_then(|meta| {
        if !meta.is_file() || meta.len() == 0 || meta.len() > BLOB_MAX {
            let message = format!("a blob is a file of 1 to {BLOB_MAX} B; put back the right one");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        fs::read(path)
    });
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError { what: "reading", path: path.to_owned(), error }),
    }
}

#[cfg(test)]
mod test {
    use super::{blob_name, key_name, key_of_blob};
    use crate::security::Role;

    #[test]
    fn names_are_those_of_ndctl() {
        let id = "8089-a2-1942-000011c4".parse().unwrap();
        assert_eq!(key_name(&id, Role::User), "nvdimm:8089-a2-1942-000011c4");
        assert_eq!(key_name(&id, Role::Master), "nvdimm-master:8089-a2-1942-000011c4");
        let blob = blob_name(&id, Role::User);
        assert!(blob.starts_with("nvdimm_8089-a2-1942-000011c4_") && blob.ends_with(".blob"), "{blob}");
        assert_eq!(key_of_blob(&blob), Some(key_name(&id, Role::User)));
        assert_eq!(key_of_blob("nvdimm_a-b_my_host.blob").as_deref(), Some("nvdimm:a-b"));
        for other in
            [&blob_name(&id, Role::Master), "nvdimm-master.blob", "keys.readme", "nvdimm", "nvdimm__x"]
        {
            assert_eq!(key_of_blob(other), None, "{other}");
        }
    }
}
