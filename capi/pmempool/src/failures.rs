//! Errors of the engine as failures of a call: PMDK's errno and words.

use lode_capi_entry::{Failure, errno_of_pool};
use lode_pmdk::{PmdkError, SetFault, SetFileError};
use lode_pmem::PmemError;
use std::io;

/// Returns the failure of a pool that can't be opened, read or written.
pub(crate) fn failure(error: &PmdkError) -> Failure {
    let errno = match error {
        // The other libraries say ENOTSUP, and so do those of PMDK.
        PmdkError::SetFile { error: SetFileError { fault: SetFault::Remote { .. }, .. }, .. } => libc::EINVAL,
        other => errno_of_pool(other),
    };
    match error {
        PmdkError::Io { op, path, errno }
        | PmdkError::Medium(PmemError::Io { op, path, errno: errno @ 1.. }) => {
            let words = format!("{op} \"{}\"", path.display());
            Failure::of_call(&words, &io::Error::from_raw_os_error(*errno))
        }
        other => Failure::new(errno, other.to_string()),
    }
}

#[cfg(test)]
mod test {
    use lode_pmdk::PmdkAccess;
    use std::fs;

    #[test]
    fn set_files_have_pmdks_errno() {
        let folder = tempfile::tempdir().unwrap();
        let (path, part) = (folder.path().join("set"), folder.path().join("part"));
        fs::write(&part, vec![0; 2 << 20]).unwrap();
        let line = format!("2M {}\n", part.display());
        for (lines, errno) in [
            (format!("{line}{line}"), libc::EAGAIN),
            (format!("{line}REPLICA host pool.set\n"), libc::EINVAL),
        ] {
            fs::write(&path, format!("PMEMPOOLSET\n{lines}")).unwrap();
            let failure = crate::pool::open(&path, PmdkAccess::CopyOnWrite).unwrap_err();
            assert_eq!(failure.errno, errno, "{failure:?}");
        }
    }
}
