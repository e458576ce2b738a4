//! Passphrase of a module.

use super::error::SecurityError;
use super::limits::PASSPHRASE_LEN;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::io;

/// Passphrase of a module: 32 bytes, of which a shorter passphrase fills the first ones. Never printed.
#[derive(Clone)]
pub struct Passphrase([u8; PASSPHRASE_LEN]);

impl Passphrase {
    /// The passphrase of a module without one: all zeros.
    pub const ZERO: Passphrase = Passphrase([0; PASSPHRASE_LEN]);

    /// Makes a passphrase from its bytes.
    ///
    /// # Errors
    /// [`PassphraseLength`](SecurityError::PassphraseLength) if there are no bytes, or more than 32.
    pub fn new(bytes: &[u8]) -> Result<Passphrase, SecurityError> {
        let len = bytes.len();
        if len == 0 || len > PASSPHRASE_LEN {
            return Err(SecurityError::PassphraseLength { len });
        }
        let mut passphrase = [0; PASSPHRASE_LEN];
        passphrase[..len].copy_from_slice(bytes);
        Ok(Passphrase(passphrase))
    }

    /// Makes a passphrase of random bytes of the kernel.
    ///
    /// # Errors
    /// Fails if the system call fails.
    pub fn random() -> Result<Passphrase, SecurityError> {
        Ok(Passphrase(random_bytes()?))
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8; PASSPHRASE_LEN] {
        &self.0
    }

    /// Returns true if this is the passphrase of a module without one.
    pub(super) fn is_zero(&self) -> bool {
        self.0 == [0; PASSPHRASE_LEN]
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(hidden)")
    }
}

/// Returns random bytes of the kernel.
pub(super) fn random_bytes<const LEN: usize>() -> Result<[u8; LEN], SecurityError> {
    let mut bytes = [0; LEN];
    // The kernel gives up to 256 bytes in one piece.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(len) if len == LEN => Ok(bytes),
        Ok(_) => Err(SecurityError::Random { error: io::ErrorKind::UnexpectedEof.into() }),
        Err(errno) => Err(SecurityError::Random { error: errno.into() }),
    }
}

#[cfg(test)]
mod test {
    use super::Passphrase;
    use crate::security::PASSPHRASE_LEN;

    #[test]
    fn length_is_checked() {
        for (len, ok) in [(0, false), (1, true), (31, true), (32, true), (33, false), (4096, false)] {
            let made = Passphrase::new(&vec![7; len]);
            assert_eq!(made.is_ok(), ok, "{len}: {made:?}");
            if let Ok(made) = made {
                assert_eq!(made.bytes()[..len], vec![7; len]);
                assert_eq!(made.bytes()[len..], vec![0; PASSPHRASE_LEN - len]);
            }
        }
    }

    #[test]
    fn debug_hides_bytes() {
        assert_eq!(format!("{:?}", Passphrase::new(b"secret").unwrap()), "Passphrase(hidden)");
    }

    #[test]
    fn random_passphrases_differ() {
        let [one, other] = [(), ()].map(|()| Passphrase::random().unwrap());
        assert_ne!(one.bytes(), other.bytes());
        assert!(!one.is_zero() && Passphrase::ZERO.is_zero());
    }
}
