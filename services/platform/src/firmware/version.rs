//! Version of firmware.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Digits of the parts of a version.
const DIGITS: [usize; 4] = [2, 2, 2, 4];
/// Bytes of a version: two digits each.
const LEN: usize = 5;

/// Version of firmware, like `02.02.00.1553`: product, revision, security revision and build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareVersion {
    /// Two decimal digits in each byte.
    digits: [u8; LEN],
}

impl FirmwareVersion {
    /// Returns the version with two decimal digits in each of these bytes, product first; `None` if one is no digit.
    pub fn from_digits(digits: [u8; LEN]) -> Option<FirmwareVersion> {
        let is_decimal = |byte: &u8| byte >> 4 <= 9 && byte & 15 <= 9;
        digits.iter().all(is_decimal).then_some(FirmwareVersion { digits })
    }

    /// Returns the number in which modules report the version: two decimal digits in each byte.
    pub fn number(self) -> u64 {
        self.digits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the number of the product, which the generation of a module decides.
    pub fn product(self) -> u8 {
        self.digits[0]
    }
}

impl FromStr for FirmwareVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<FirmwareVersion, String> {
        let wrong = || format!("{text} is no version of firmware, as 02.02.00.1553");
        let parts: Vec<&str> = text.split('.').collect();
        let has_digits = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if !has_digits || !parts.iter().map(|part| part.len()).eq(DIGITS) {
            return Err(wrong());
        }
        let digits = u64::from_str_radix(&parts.concat(), 16).map_err(|_| wrong())?.to_be_bytes();
        let mut version = [0; LEN];
        version.copy_from_slice(&digits[digits.len() - LEN..]);
        FirmwareVersion::from_digits(version).ok_or_else(wrong)
    }
}

impl fmt::Display for FirmwareVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [product, revision, security, high, low] = self.digits;
        write!(f, "{product:02x}.{revision:02x}.{security:02x}.{high:02x}{low:02x}")
    }
}

impl Serialize for FirmwareVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FirmwareVersion {
    fn deserialize<D: Deserializer<'de>>(found: D) -> Result<FirmwareVersion, D::Error> {
        String::deserialize(found)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod test {
    use super::FirmwareVersion;

    #[test]
    fn versions_round_trip() {
        for (text, number) in
            [("02.02.00.1553", 0x2_0200_1553), ("00.00.00.0000", 0), ("99.99.99.9999", 0x99_9999_9999)]
        {
            let version: FirmwareVersion = text.parse().unwrap();
            assert_eq!((version.number(), version.to_string().as_str()), (number, text));
        }
        for text in [
            "",
            "2.2.0.1553",
            "02.02.00.155",
            "02.02.00.155a",
            "02.02.00",
            "02.02.00.1553.00",
            "0x.02.00.1553",
        ] {
            assert!(text.parse::<FirmwareVersion>().is_err(), "{text}");
        }
        assert_eq!(FirmwareVersion::from_digits([0, 0, 0, 0, 0x1a]), None);
        assert_eq!(FirmwareVersion::from_digits([0xa0, 0, 0, 0, 0]), None);
    }
}
