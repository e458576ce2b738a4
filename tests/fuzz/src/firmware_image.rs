//! Firmware images of modules: any bytes are refused with a reason, or have a header that firmware takes.

use lode_platform::firmware::{FirmwareImage, FirmwareVersion};
use lode_testing::firmware_image;

/// Bytes of the header.
const HEADER: usize = 128;

/// Parses the bytes as they are, and again with a header that passes the first checks.
pub fn run(data: &[u8]) {
    check(data);
    if let Some(mut image) = data.first_chunk::<HEADER>().map(|_| data.to_vec()) {
        image[..4].copy_from_slice(&6_u32.to_le_bytes());
        image[0x10..0x14].copy_from_slice(&0x8086_u32.to_le_bytes());
        check(&image);
    }
}

fn check(data: &[u8]) {
    match FirmwareImage::parse(data) {
        Ok(image) => {
            assert!(data.len() >= HEADER && data.len() as u64 <= FirmwareImage::len_max());
            assert!(image.version.number() != 0);
            assert_eq!(image.version.to_string().parse::<FirmwareVersion>(), Ok(image.version));
            assert!(FirmwareImage::parse(&data[..HEADER - 1]).is_err(), "a part of a header is no image");
            let mut other = data.to_vec();
            other[0] ^= 1;
            assert!(FirmwareImage::parse(&other).is_err(), "another type of module");
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// Returns an image, and one that is cut off.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let image = firmware_image([0x02, 0x02, 0x00, 0x15, 0x53]);
    vec![("cut-off", image[..HEADER].to_vec()), ("image", image)]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seed_is_an_image() {
        let [(_, cut_off), (_, image)] = seeds().try_into().unwrap();
        assert!(FirmwareImage::parse(&image).is_ok() && FirmwareImage::parse(&cut_off).is_err());
    }

    #[test]
    fn mixed_seeds_never_panic() {
        crate::run_mixed_seeds(&seeds(), 300, run);
    }
}
