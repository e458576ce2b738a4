//! Firmware images of modules.

/// Bytes of an image: the smallest that has something after its header.
const LEN: usize = 192;

/// Returns an image of this version, with two decimal digits in each byte: product, revision, security revision, and
/// two of the build. It has the header that ipmctl checks (`DcpmPkg/common/FwUtility.h`), and no signature.
pub fn firmware_image(version: [u8; 5]) -> Vec<u8> {
    let mut image = vec![0xa5; LEN];
    image[..128].fill(0);
    let words = [(0x00, 6), (0x04, 32), (0x08, 0x0001_0000), (0x10, 0x8086), (0x14, 0x2026_1127), (0x18, 48)];
    for (off, word) in words {
        image[off..off + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    image[0x28] = 0x1d;
    for (off, digits) in (0x29..).zip(version.iter().rev()) {
        image[off] = *digits;
    }
    image
}
