//! The identifiers of objects (OIDs): the number of the pool, and the offset of the data.

/// Returns the number that the identifiers of objects have in a pool with this UUID: its halves, one over the other.
pub fn pool_number(poolset_uuid: &[u8; 16]) -> u64 {
    let (halves, _) = poolset_uuid.as_chunks::<8>();
    halves.iter().fold(0, |number, half| number ^ u64::from_be_bytes(*half))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn number_is_one_half_over_the_other() {
        let uuid = [1, 2, 3, 4, 5, 6, 7, 8, 0xf0, 0, 0, 0, 0, 0, 0, 0xf];
        assert_eq!(pool_number(&uuid), 0xf102_0304_0506_0707);
    }
}
