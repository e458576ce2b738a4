//! Order of devices in ndctl's listings: the kernel's order of names in a sysfs directory, reversed.

/// Sorts objects in ndctl's order, by their names in the kernel.
///
/// sysfs orders names by their hashes, and ndctl puts each new device before the others.
pub(crate) fn sort_as_listed<T>(things: &mut [T], name: impl Fn(&T) -> String) {
    things.sort_by_cached_key(|thing| std::cmp::Reverse(name_hash(&name(thing))));
}

/// Returns the hash of a name in sysfs (`kernfs_name_hash` of Linux on 64-bit machines).
fn name_hash(name: &str) -> u32 {
    const GOLDEN_RATIO_64: u64 = 0x61c8_8646_80b5_83eb;
    let hash = name.bytes().fold(0_u64, |hash, byte| {
        let byte = u64::from(byte);
        hash.wrapping_add(byte << 4).wrapping_add(byte >> 4).wrapping_mul(11)
    });
    ((hash.wrapping_mul(GOLDEN_RATIO_64) >> 32) as u32) & 0x7fff_ffff
}

#[cfg(test)]
mod test {
    use super::*;

    fn listed(prefix: &str, numbers: std::ops::Range<u32>) -> Vec<u32> {
        let mut numbers: Vec<u32> = numbers.collect();
        sort_as_listed(&mut numbers, |number| format!("{prefix}{number}"));
        numbers
    }

    /// The modules of a PRIMERGY and the second of two regions come in the order of real machines. The order of twelve
    /// modules is computed from the hash.
    #[test]
    fn order_matches_real_machines() {
        assert_eq!(listed("nmem", 0..3), [1, 0, 2]);
        assert_eq!(listed("nmem", 0..12), [1, 3, 5, 10, 7, 9, 0, 2, 4, 6, 11, 8]);
        assert_eq!(listed("region", 0..2), [1, 0]);
    }
}
