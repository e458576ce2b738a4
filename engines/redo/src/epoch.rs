//! Numbers of log epochs.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns a number that no other epoch of any log has.
///
/// # Errors
/// The error of getrandom(2).
pub fn random_log_epoch() -> Result<[u64; 2], Errno> {
    let mut bytes = [[0; 8]; 2];
    for half in &mut bytes {
        // The kernel delivers so few bytes whole, or not at all.
        getrandom(half, GetRandomFlags::empty())?;
    }
    Ok(bytes.map(u64::from_le_bytes))
}
