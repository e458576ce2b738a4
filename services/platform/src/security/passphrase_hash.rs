//! Salted hash of a passphrase.

use super::error::SecurityError;
use super::hex;
use super::limits::PASSPHRASE_LEN;
use super::passphrase::{Passphrase, random_bytes};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

const SALT_LEN: usize = 16;
const KIND: &str = "hmac-sha256";
const UNKNOWN: &str = "unknown";

/// Salted hash of a passphrase: HMAC-SHA256 with the salt as its key, the family that `digest` in the dependency tree
/// belongs to. In the state file: `hmac-sha256:SALT:DIGEST`, or `unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PassphraseHash(Option<Salted>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Salted {
    salt: [u8; SALT_LEN],
    digest: [u8; PASSPHRASE_LEN],
}

impl PassphraseHash {
    /// The hash of a passphrase that was set before the machine was emulated: no passphrase matches it.
    pub const UNKNOWN: PassphraseHash = PassphraseHash(None);

    /// Hashes a passphrase with a random salt.
    ///
    /// # Errors
    /// Fails if the system call for the salt fails.
    pub fn new(passphrase: &Passphrase) -> Result<PassphraseHash, SecurityError> {
        let salt = random_bytes()?;
        let digest = keyed(&salt, passphrase).finalize().into_bytes().into();
        Ok(PassphraseHash(Some(Salted { salt, digest })))
    }

    /// Returns true if this is the hash of the passphrase. Takes the same time for each.
    pub fn matches(&self, passphrase: &Passphrase) -> bool {
        self.0.is_some_and(|salted| keyed(&salted.salt, passphrase).verify_slice(&salted.digest).is_ok())
    }
}

fn keyed(salt: &[u8], passphrase: &Passphrase) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(salt).expect("HMAC has keys of any length");
    mac.update(passphrase.bytes());
    mac
}

impl From<PassphraseHash> for String {
    fn from(hash: PassphraseHash) -> String {
        match hash.0 {
            Some(Salted { salt, digest }) => {
                format!("{KIND}:{}:{}", hex::encode(&salt), hex::encode(&digest))
            }
            None => UNKNOWN.to_owned(),
        }
    }
}

impl TryFrom<String> for PassphraseHash {
    type Error = String;

    fn try_from(text: String) -> Result<PassphraseHash, String> {
        let salted = || {
            let (salt, digest) = text.strip_prefix(KIND)?.strip_prefix(':')?.split_once(':')?;
            let (salt, digest) = (hex::decode(salt)?, hex::decode(digest)?);
            Some(Salted { salt: salt.try_into().ok()?, digest: digest.try_into().ok()? })
        };
        match text.as_str() {
            UNKNOWN => Ok(PassphraseHash::UNKNOWN),
            _ => salted().map(|salted| PassphraseHash(Some(salted))).ok_or_else(|| {
                format!("the hash of a passphrase is {KIND}:SALT:DIGEST in hexadecimal digits, or {UNKNOWN}")
            }),
        }
    }
}

#[cfg(test)]
mod test {
    use super::PassphraseHash;
    use crate::security::Passphrase;

    #[test]
    fn hash_matches_its_passphrase_only() {
        let [one, other] = [b"one".as_slice(), b"other"].map(|text| Passphrase::new(text).unwrap());
        let hash = PassphraseHash::new(&one).unwrap();
        assert!(hash.matches(&one) && !hash.matches(&other) && !hash.matches(&Passphrase::ZERO));
        assert!(!PassphraseHash::UNKNOWN.matches(&Passphrase::ZERO));
        assert_ne!(PassphraseHash::new(&one).unwrap(), hash, "each hash has a salt of its own");
        for hash in [hash, PassphraseHash::UNKNOWN] {
            let text = String::from(hash);
            assert!(!text.contains("one") && !text.contains("6f6e65"), "{text}");
            assert_eq!(PassphraseHash::try_from(text), Ok(hash));
        }
        for text in ["", "hmac-sha256", "hmac-sha256:00:00", "hmac-sha256:xy:"] {
            assert!(PassphraseHash::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
