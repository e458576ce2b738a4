//! The errno and the words of each error of `lode-obj`.

use lode_capi_entry::Failure;
use lode_obj::{Damage, GrowthRefusal, ObjError, Structure};
use lode_redo::cover::CoverError;

/// Returns the failure of `call` by an error of the pool.
#[cold]
pub(crate) fn failure(error: &ObjError, call: &str) -> Failure {
    let errno = match error {
        ObjError::Damaged(Damage { structure: Structure::Heap, .. }) => {
            return Failure::invalid("heap: invalid header's checksum").and(&error.to_string());
        }
        ObjError::Damaged(_) => libc::EINVAL,
        ObjError::Memory(_) | ObjError::InDoubt(_) => libc::EIO,
        ObjError::Full { .. } | ObjError::TooLarge { .. } | ObjError::TooManyArenas { .. } => libc::ENOMEM,
        ObjError::NotGrown(GrowthRefusal::Reserved { .. }) => libc::ENOMEM,
        ObjError::NotGrown(GrowthRefusal::Io { errno, .. }) => *errno,
        ObjError::Cover(CoverError::TooLarge { .. }) => libc::ENOMEM,
        ObjError::UnfitClass { size, .. } => {
            let words = format!("allocation class not suitable for size {size} bytes; {error}");
            return Failure::invalid(words);
        }
        _ => libc::EINVAL,
    };
    let text = if call.is_empty() { error.to_string() } else { format!("{call}: {error}") };
    Failure::new(errno, text)
}

/// Returns true if a commit that failed with this error has aborted the transaction; after another error the next open decides.
pub(crate) fn is_undone(error: &ObjError) -> bool {
    match error {
        ObjError::Cover(error) => {
            matches!(error, CoverError::TooLarge { .. } | CoverError::OutOfRange { .. })
        }
        ObjError::InDoubt(_) | ObjError::Memory(_) => false,
        _ => true,
    }
}
