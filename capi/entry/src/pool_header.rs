//! The check of a pool's header, in PMDK's order and words. The engines check the header again: this one finds the message.

use crate::failure::Failure;
use lode_layout::{PmdkHeader, PmdkHeaderError, PmdkKind};

/// Bits of the features that no one may ignore and that PMDK knows: a single header, a short checksum, the shutdown state.
const KNOWN_INCOMPAT: u32 = 0b111;
const SINGLE_HEADER: u32 = 0b001;
/// Offset of the features that no one may ignore.
const INCOMPAT: usize = 16;
/// Offset of the features that no writer may ignore.
const READ_ONLY: usize = 20;

/// A header that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsableHeader {
    /// Bits of the features that no writer may ignore and that are not known: the pool is read-only.
    pub(crate) read_only: u32,
}

/// Checks the header of a pool of this kind, which is a single file.
///
/// # Errors
/// EINVAL with the first rule that it breaks.
pub(crate) fn check(bytes: &[u8; PmdkHeader::LEN], kind: PmdkKind) -> Result<UsableHeader, Failure> {
    let [major, incompat, read_only] = [8, INCOMPAT, READ_ONLY].map(|at| number(bytes, at));
    let (signature, wanted) = (&bytes[..8], kind.signature());
    if major == 0 {
        return Err(Failure::invalid(
            "invalid major version (0); the file is no pool of PMDK, or its header is lost",
        ));
    }
    if signature != wanted {
        // PMDK prints the bytes up to a zero.
        let end = signature.iter().position(|byte| *byte == 0).unwrap_or(signature.len());
        let name = String::from_utf8_lossy(&signature[..end]).into_owned();
        let wanted = String::from_utf8_lossy(&wanted[..7]).into_owned();
        return Err(Failure::invalid(format!(
            "wrong pool type: \"{name}\"; this library opens pools of type {wanted}, others open with the library that made them"
        )));
    }
    if major != kind.major() {
        return Err(Failure::invalid(format!(
            "pool version {major} (library expects {}); convert the pool with the tools of the version that made it",
            kind.major()
        )));
    }
    if incompat & !KNOWN_INCOMPAT != 0 {
        return Err(Failure::invalid(format!(
            "unsafe to continue due to unknown incompat features: {:#x}; open the pool with a newer library",
            incompat & !KNOWN_INCOMPAT
        )));
    }
    let decoded = match PmdkHeader::decode(bytes) {
        // All else of the header, its checksum too, was judged before.
        Err(PmdkHeaderError::Features { incompat: 0, .. }) => PmdkHeader::decode(&without_read_only(bytes)),
        decoded => decoded,
    };
    let decoded = decoded.map_err(|error| refused(&error, bytes))?;
    if decoded.shutdown.unwrap_or_default().was_open_on_modules() {
        return Err(Failure::invalid(
            "an ADR failure was detected, the pool might be corrupted; only PMDK knows the counts of the modules: open it there, or \
             run `pmempool check --repair`",
        ));
    }
    Ok(UsableHeader { read_only })
}

/// Returns the number at an offset.
fn number(bytes: &[u8; PmdkHeader::LEN], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the header without the features that no writer may ignore: for engines, which refuse those that they do not know.
pub(crate) fn without_read_only(bytes: &[u8; PmdkHeader::LEN]) -> [u8; PmdkHeader::LEN] {
    let mut known = *bytes;
    known[READ_ONLY..READ_ONLY + 4].fill(0);
    lode_layout::store_pmdk_checksum(&mut known);
    known
}

/// Returns the failure of a header that can't be used, with PMDK's words.
fn refused(error: &PmdkHeaderError, bytes: &[u8; PmdkHeader::LEN]) -> Failure {
    let incompat = number(bytes, INCOMPAT);
    // The UUIDs of the part, of the parts before and after it, and of the replicas before and after it.
    let uuid = |index: usize| &bytes[0x28 + 16 * index..0x38 + 16 * index];
    let words = match error {
        PmdkHeaderError::Checksum { .. } => "invalid checksum of pool header".to_owned(),
        PmdkHeaderError::Field(_) => "wrong architecture flags".to_owned(),
        PmdkHeaderError::PoolSet if incompat & SINGLE_HEADER != 0 => {
            format!("poolset file options (0) do not match incompat feature flags ({incompat:#x})")
        }
        PmdkHeaderError::PoolSet if [1, 2].map(uuid) != [uuid(0); 2] => "wrong part UUID".to_owned(),
        PmdkHeaderError::PoolSet => "wrong replica UUID".to_owned(),
        other => return Failure::invalid(other.to_string()),
    };
    Failure::invalid(format!("{words}; {error}"))
}

#[cfg(test)]
mod test {
    use super::*;
    use uuid::Uuid;

    fn header() -> [u8; PmdkHeader::LEN] {
        PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3).encode()
    }

    fn with(at: usize, byte: u8, is_sealed: bool) -> Result<UsableHeader, Failure> {
        let mut bytes = header();
        bytes[at] = byte;
        if is_sealed {
            lode_layout::store_pmdk_checksum(&mut bytes);
        }
        check(&bytes, PmdkKind::Log)
    }

    #[test]
    fn damaged_headers_never_panic() {
        let mut seed = 7_u64;
        let mut draw = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        for _ in 0..2_000 {
            let mut bytes = header();
            for _ in 0..=draw(4) {
                bytes[draw(160) as usize] = draw(256) as u8;
            }
            if draw(2) == 0 {
                lode_layout::store_pmdk_checksum(&mut bytes);
            }
            if let Ok(UsableHeader { read_only }) = check(&bytes, PmdkKind::Log) {
                let known = without_read_only(&bytes);
                assert_eq!((PmdkHeader::decode(&known).is_ok(), known[20..24] == [0; 4]), (true, true));
                assert_eq!(PmdkHeader::decode(&bytes).is_ok(), read_only == 0);
            }
        }
    }

    #[test]
    fn first_broken_rule_is_told_in_pmdks_words() {
        assert_eq!(check(&header(), PmdkKind::Log), Ok(UsableHeader { read_only: 0 }));
        assert_eq!(with(20, 8, true), Ok(UsableHeader { read_only: 8 }));
        for (at, byte, is_sealed, words) in [
            (8, 0, false, "invalid major version (0)"),
            (4, b'X', false, "wrong pool type: \"PMEMXOG\""),
            (8, 2, false, "pool version 2 (library expects 1)"),
            (19, 0x80, false, "unsafe to continue due to unknown incompat features: 0x80000000"),
            (24, 9, false, "invalid checksum of pool header"),
            (20, 8, false, "invalid checksum of pool header"),
            (0x88, 1, true, "wrong architecture flags"),
            (0x38, 9, true, "wrong part UUID"),
            (0x68, 9, true, "wrong replica UUID"),
            (16, 7, true, "poolset file options (0) do not match incompat feature flags (0x7)"),
        ] {
            let failure = with(at, byte, is_sealed).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL);
            assert!(failure.text.starts_with(words), "{at}: {}", failure.text);
        }
        let blocks = check(&header(), PmdkKind::Blocks).unwrap_err();
        assert!(blocks.text.starts_with("wrong pool type: \"PMEMLOG\""), "{}", blocks.text);
    }
}
