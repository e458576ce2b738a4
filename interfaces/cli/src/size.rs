//! Sizes on the command line, as in ndctl: K, M, G and T are powers of 1024. Units like MiB and GB are accepted, too.

use bytesize::ByteSize;

/// The error for a word that is not a size.
const INVALID_SIZE: &str = "a size is a number below 2^64, alone or with a unit as K, M, G, T, MiB or GB";

/// Parses a size; returns its bytes.
pub(crate) fn parse(word: &str) -> Result<u64, String> {
    let shift = match word.bytes().last().map(|byte| byte.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => {
            // `ByteSize` reads every larger number as `u64::MAX`.
            let size = word.parse::<ByteSize>().ok().filter(|size| size.as_u64() < u64::MAX);
            return size.map(|size| size.as_u64()).ok_or_else(|| INVALID_SIZE.to_owned());
        }
    };
    let number: u64 = word[..word.len() - 1].parse().map_err(|_| INVALID_SIZE.to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| INVALID_SIZE.to_owned())
}

#[cfg(test)]
mod test {
    use super::parse;

    #[test]
    fn size_suffixes_parse() {
        assert_eq!(parse("128M"), Ok(128 << 20));
        assert_eq!(parse("1g"), Ok(1 << 30));
        assert_eq!(parse("16MiB"), Ok(16 << 20));
        assert_eq!(parse("1GB"), Ok(1_000_000_000));
        assert_eq!(parse("479857737728"), Ok(479_857_737_728));
        for bad in ["", "M", "1.5G", "xM", "99999999999T", "16EiB", "18446744073709551616", "many"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
