//! Sealed passphrases of modules, which ndctl and the kernel write to files: any text parses to an error, or to a sealed
//! passphrase that survives a round trip. Only the key that sealed it opens it, and only as it was sealed.

use lode_platform::security::SealedPassphrase;

/// A key that Linux 6.18 made, sealed by [`KEK`].
const OF_KERNEL: &str = "enc32 user:lode-kek 32 a0e263a0347b629a7cf8b8cf75db48b50031401d9393fb3c738b0a89316620d78bc8c49daad721566432bd7eb1cee376b3190f4fc9d387bc30e118e50bcf7624acabe12e618530be6ff84d3b64a70e0345";
const KEK: &[u8] = b"0123456789abcdef0123456789abcdef";
/// Hexadecimal digits of a blob: IV, a zero, data and checksum.
const DIGITS: usize = 2 * (16 + 1 + 32 + 32);
/// The digits of the zero, which is not stored.
const ZERO: std::ops::Range<usize> = 32..34;

/// Parses the bytes as a blob, and opens it with several keys.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let sealed: SealedPassphrase = match text.parse() {
        Ok(sealed) => sealed,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = sealed.to_string();
    assert_eq!(written.parse::<SealedPassphrase>().as_ref(), Ok(&sealed), "{written}");
    for kek in [b"", KEK, data] {
        match sealed.unseal(kek) {
            Ok(_) => check_damage(&written, kek, data.len() % DIGITS),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Panics if a blob that a key opens is opened with another digit, too.
fn check_damage(written: &str, kek: &[u8], digit: usize) {
    let (head, digits) = written.split_at(written.len() - DIGITS);
    let mut digits = digits.to_owned();
    let other = if digits[digit..].starts_with('0') { "1" } else { "0" };
    digits.replace_range(digit..=digit, other);
    let damaged = (head.to_owned() + &digits).parse::<SealedPassphrase>();
    let is_opened = damaged.is_ok_and(|sealed| sealed.unseal(kek).is_ok());
    assert_eq!(is_opened, ZERO.contains(&digit), "digit {digit} of {written}");
}

/// Returns a blob of a kernel, one in ndctl's form with a line feed, and one of a TPM.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let trusted = OF_KERNEL.replacen("user:", "trusted:", 1);
    vec![
        ("of-kernel", OF_KERNEL.into()),
        ("of-kernel-line", format!("{OF_KERNEL}\n").into_bytes()),
        ("of-tpm", trusted.into_bytes()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_platform::security::SealError;

    #[test]
    fn seed_is_opened_and_damage_is_not() {
        let sealed: SealedPassphrase = OF_KERNEL.parse().unwrap();
        assert!(sealed.unseal(KEK).is_ok() && sealed.unseal(b"").is_err());
        (0..DIGITS).for_each(|digit| check_damage(OF_KERNEL, KEK, digit));
        let tpm = String::from_utf8(seeds()[2].1.clone()).unwrap().parse::<SealedPassphrase>();
        assert!(matches!(tpm, Err(SealError::Kek { .. })));
    }

    #[test]
    fn mixed_seeds_never_panic() {
        crate::run_mixed_seeds(&seeds(), 300, run);
    }
}
