//! Handle of a key-encryption-key.

use super::error::SecurityError;
use std::fmt;
use std::str::FromStr;

/// Handle of a key-encryption-key: a key of type `user` in the kernel's keyring that seals passphrases. Its text is
/// `user:DESCRIPTION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KekHandle {
    description: String,
}

impl KekHandle {
    /// Returns the description of the key.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl FromStr for KekHandle {
    type Err = SecurityError;

    /// Parses a handle, as ndctl's `--key-handle` has it.
    ///
    /// # Errors
    /// [`KekHandle`](SecurityError::KekHandle) for another form, [`TrustedKek`](SecurityError::TrustedKek) for a key of
    /// a TPM.
    fn from_str(text: &str) -> Result<KekHandle, SecurityError> {
        let wrong = || SecurityError::KekHandle { text: text.to_owned() };
        let (kind, description) = text.split_once(':').ok_or_else(wrong)?;
        match kind {
            "trusted" => Err(SecurityError::TrustedKek { text: text.to_owned() }),
            "user" if is_description(description) => Ok(KekHandle { description: description.to_owned() }),
            _ => Err(wrong()),
        }
    }
}

/// Returns true for the description of a key that a blob can name: in one word.
fn is_description(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| !one.is_whitespace() && !one.is_control() && one != ':')
}

impl fmt::Display for KekHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user:{}", self.description)
    }
}

#[cfg(test)]
mod test {
    use super::KekHandle;
    use crate::security::SecurityError;

    #[test]
    fn handles_are_parsed() {
        let handle: KekHandle = "user:nvdimm-master".parse().unwrap();
        assert_eq!(
            (handle.description(), handle.to_string()),
            ("nvdimm-master", "user:nvdimm-master".into())
        );
        let trusted = "trusted:nvdimm-master".parse::<KekHandle>();
        assert!(matches!(trusted, Err(SecurityError::TrustedKek { .. })), "{trusted:?}");
        for text in ["", "user", "user:", "nvdimm-master", "logon:a", "user:a b", "user:a:b", "user:a\n"] {
            let refused = text.parse::<KekHandle>();
            assert!(matches!(refused, Err(SecurityError::KekHandle { .. })), "{text}: {refused:?}");
        }
    }
}
