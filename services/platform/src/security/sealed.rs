//! Passphrase, sealed by a key-encryption-key.
//!
//! The text is that of the kernel's encrypted keys of format `enc32`, which ndctl stores as blobs, so a blob moves
//! between both (`Documentation/security/keys/trusted-encrypted.rst`, `security/keys/encrypted-keys/encrypted.c`):
//!
//! ```text
//! enc32 user:DESCRIPTION 32 IV(16) 00 DATA(32) MAC(32)      the bytes as hexadecimal digits, without spaces
//! DATA  AES-256-CBC of the passphrase; key: SHA-256 of "ENC_KEY\0", the kek, and a zero
//! MAC   HMAC-SHA256 of "enc32\0user:DESCRIPTION\032\0" IV 00 DATA; key: SHA-256 of "AUTH_KEY\0" and the kek
//! ```

use super::error::SecurityError;
use super::hex;
use super::kek::KekHandle;
use super::limits::PASSPHRASE_LEN;
use super::passphrase::{Passphrase, random_bytes};
use super::seal_error::SealError;
use aes::Aes256;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const FORMAT: &str = "enc32";
const DATA_LEN: &str = "32";
const IV_LEN: usize = 16;
const MAC_LEN: usize = 32;
/// Bytes before the data: the IV, and a zero.
const HEAD_LEN: usize = IV_LEN + 1;

/// Passphrase, sealed by a key-encryption-key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPassphrase {
    kek: KekHandle,
    iv: [u8; IV_LEN],
    data: [u8; PASSPHRASE_LEN],
    mac: [u8; MAC_LEN],
}

impl SealedPassphrase {
    /// Seals a passphrase with the bytes of a key-encryption-key.
    ///
    /// # Errors
    /// Fails if the system call for the initialization vector fails.
    pub fn seal(
        passphrase: &Passphrase,
        kek: &KekHandle,
        kek_bytes: &[u8],
    ) -> Result<SealedPassphrase, SecurityError> {
        let iv = random_bytes()?;
        let mut data = *passphrase.bytes();
        let cipher = cbc::Encryptor::<Aes256>::new(&derived(b"ENC_KEY", kek_bytes).into(), &iv.into());
        let sealed = cipher.encrypt_padded_mut::<NoPadding>(&mut data, PASSPHRASE_LEN);
        sealed.expect("a passphrase has two whole blocks");
        let unsigned = SealedPassphrase { kek: kek.clone(), iv, data, mac: [0; MAC_LEN] };
        let mac = unsigned.keyed(kek_bytes).finalize().into_bytes().into();
        Ok(SealedPassphrase { mac, ..unsigned })
    }

    /// Returns the passphrase.
    ///
    /// # Errors
    /// [`Mac`](SealError::Mac) if these are not the bytes of the key that sealed it, or if it is damaged.
    pub fn unseal(&self, kek_bytes: &[u8]) -> Result<Passphrase, SealError> {
        let verified = self.keyed(kek_bytes).verify_slice(&self.mac);
        verified.map_err(|_| SealError::Mac { kek: self.kek.to_string() })?;
        let mut data = self.data;
        let cipher = cbc::Decryptor::<Aes256>::new(&derived(b"ENC_KEY", kek_bytes).into(), &self.iv.into());
        let opened = cipher.decrypt_padded_mut::<NoPadding>(&mut data);
        opened.expect("a sealed passphrase has two whole blocks");
        Passphrase::new(&data).map_err(|_| SealError::Form)
    }

    /// Returns the handle of its key-encryption-key.
    pub fn kek(&self) -> &KekHandle {
        &self.kek
    }

    fn keyed(&self, kek_bytes: &[u8]) -> Hmac<Sha256> {
        let key = derived(b"AUTH_KEY", kek_bytes);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC has keys of any length");
        for word in [FORMAT, &self.kek.to_string(), DATA_LEN] {
            mac.update(word.as_bytes());
            mac.update(&[0]);
        }
        mac.update(&self.iv);
        mac.update(&[0]);
        mac.update(&self.data);
        mac
    }
}

/// Derives a key from a key-encryption-key. The kernel's buffer has room for the longer name, and at least 32 bytes.
fn derived(name: &[u8], kek_bytes: &[u8]) -> [u8; 32] {
    let mut buffer = vec![0; (b"AUTH_KEY".len() + 1 + kek_bytes.len()).max(32)];
    buffer[..name.len()].copy_from_slice(name);
    let at = name.len() + 1;
    buffer[at..at + kek_bytes.len()].copy_from_slice(kek_bytes);
    Sha256::digest(&buffer).into()
}

impl FromStr for SealedPassphrase {
    type Err = SealError;

    fn from_str(text: &str) -> Result<SealedPassphrase, SealError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [FORMAT, kek, len, digits] = words.as_slice() else { return Err(SealError::Form) };
        if *len != DATA_LEN {
            return Err(SealError::Length { found: (*len).to_owned() });
        }
        let kek = kek.parse().map_err(|_| SealError::Kek { kek: (*kek).to_owned() })?;
        let bytes = hex::decode(digits).filter(|bytes| bytes.len() == HEAD_LEN + PASSPHRASE_LEN + MAC_LEN);
        let bytes = bytes.ok_or(SealError::Form)?;
        let (head, rest) = bytes.split_at(HEAD_LEN);
        let (data, mac) = rest.split_at(PASSPHRASE_LEN);
        let part = |_| SealError::Form;
        Ok(SealedPassphrase {
            kek,
            iv: head[..IV_LEN].try_into().map_err(part)?,
            data: data.try_into().map_err(part)?,
            mac: mac.try_into().map_err(part)?,
        })
    }
}

impl fmt::Display for SealedPassphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.iv.as_slice(), &[0], &self.data, &self.mac].concat();
        write!(f, "{FORMAT} {} {DATA_LEN} {}", self.kek, hex::encode(&bytes))
    }
}

#[cfg(test)]
mod test {
    use super::SealedPassphrase;
    use crate::security::{Passphrase, SealError};

    /// A key that Linux 6.18 made: `keyctl add encrypted nvdimm:x "new enc32 user:lode-kek 32" @u`.
    const OF_KERNEL: &str = "enc32 user:lode-kek 32 a0e263a0347b629a7cf8b8cf75db48b50031401d9393fb3c738b0a89316620d78b\
        c8c49daad721566432bd7eb1cee376b3190f4fc9d387bc30e118e50bcf7624acabe12e618530be6ff84d3b64a70e0345";
    const KEK: &[u8] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn key_of_kernel_is_unsealed() {
        let sealed: SealedPassphrase = OF_KERNEL.parse().unwrap();
        assert_eq!(sealed.to_string(), OF_KERNEL);
        let passphrase = sealed.unseal(KEK).unwrap();
        assert!(!passphrase.is_zero());
        let refused = sealed.unseal(b"another").unwrap_err();
        assert_eq!(refused, SealError::Mac { kek: "user:lode-kek".into() });
    }

    #[test]
    fn seal_round_trips() {
        let passphrase = Passphrase::new(b"a passphrase").unwrap();
        for kek in [KEK, b"short", &[7; 100]] {
            let sealed = SealedPassphrase::seal(&passphrase, &"user:k".parse().unwrap(), kek).unwrap();
            let read: SealedPassphrase = sealed.to_string().parse().unwrap();
            assert_eq!(read, sealed);
            assert_eq!(read.unseal(kek).unwrap().bytes(), passphrase.bytes());
        }
    }

    #[test]
    fn damaged_texts_are_refused() {
        for at in 0..OF_KERNEL.len() {
            let mut text = OF_KERNEL.as_bytes().to_vec();
            text[at] ^= 1;
            let text = String::from_utf8(text).unwrap();
            let opened = text.parse::<SealedPassphrase>().and_then(|sealed| sealed.unseal(KEK));
            // The zero after the IV is outside of the checksum's reach: it is not stored.
            let is_zero = (55..57).contains(&at);
            assert_eq!(opened.is_ok(), is_zero, "byte {at}: {opened:?}");
        }
        let longer = OF_KERNEL.replacen(" 32 ", " 33 ", 1);
        assert_eq!(longer.parse::<SealedPassphrase>(), Err(SealError::Length { found: "33".into() }));
        let trusted = OF_KERNEL.replacen("user:", "trusted:", 1);
        let refused = trusted.parse::<SealedPassphrase>();
        assert_eq!(refused, Err(SealError::Kek { kek: "trusted:lode-kek".into() }));
        assert_eq!("".parse::<SealedPassphrase>(), Err(SealError::Form));
    }
}
