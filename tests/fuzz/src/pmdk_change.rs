//! Descriptions of changes of PMDK's sets, and the lost ranges that its repairs leave: any text is refused, or survives a round trip.

use lode_pmdk::{SetChange, parse_recovery_file};

/// Reads the bytes as both.
pub fn run(data: &[u8]) {
    if let Some(change) = SetChange::parse(data) {
        assert_eq!(SetChange::parse(&change.to_text()), Some(change));
    }
    if let Ok(Some(ranges)) = parse_recovery_file(data) {
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let lines: String =
            ranges.iter().map(|lost| format!("{} {}\n", lost.start, lost.end - lost.start)).collect();
        assert_eq!(parse_recovery_file(format!("{lines}0 0\n").as_bytes()), Ok(Some(ranges)));
    }
}

/// Returns an empty description, and files of lost ranges.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("change", SetChange::default().to_text()),
        ("none", b"0 0\n".to_vec()),
        ("ranges", b"0 512\n4096 8192\n0 0\n".to_vec()),
        ("incomplete", b"512 4096\n".to_vec()),
        ("unsorted", b"8192 512\n512 512\n0 0\n".to_vec()),
    ]
}
