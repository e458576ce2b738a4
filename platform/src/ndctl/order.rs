//! The order in which ndctl lists devices: that in which the kernel gives out the names of a directory, backwards.

/// Sorts things as ndctl lists them, by their names in the kernel.
///
/// sysfs gives names in the order of their hashes, and ndctl puts each device that it finds before the others.
pub(crate) fn sort_as_listed<T>(things: &mut [T], name: impl Fn(&T) -> String) {
    things.sort_by_cached_key(|thing| std::cmp::Reverse(name_hash(&name(thing))));
}

/// The hash of a name in sysfs (`kernfs_name_hash` of Linux on 64-bit machines).
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

    /// As real machines list them: the modules of a PRIMERGY; and of two regions the second one came first to a
    /// namespace. The order of twelve modules is what the hash gives.
    #[test]
    fn devices_come_as_on_real_machines() {
        assert_eq!(listed("nmem", 0..3), [1, 0, 2]);
        assert_eq!(listed("nmem", 0..12), [1, 3, 5, 10, 7, 9, 0, 2, 4, 6, 11, 8]);
        assert_eq!(listed("region", 0..2), [1, 0]);
    }
}
