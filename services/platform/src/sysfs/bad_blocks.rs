//! Lists of bad blocks.

use crate::ndctl::BadBlocks;
use lode_pmem::SysfsFolder;

/// Reads the list in this folder, as lines of first sector and count. All ranges get these modules.
pub(super) fn read(folder: &SysfsFolder, modules: &[u32]) -> Vec<BadBlocks> {
    parse(&folder.text("badblocks").unwrap_or_default(), modules)
}

fn parse(text: &str, modules: &[u32]) -> Vec<BadBlocks> {
    let range = |line: &str| {
        let (offset, count) = line.split_once(' ')?;
        let (offset, count) = (offset.parse().ok()?, count.parse().ok()?);
        Some(BadBlocks { offset, count, modules: modules.to_vec() })
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lines_are_ranges() {
        let blocks = parse("8 8\n4096 1\n", &[3]);
        assert_eq!(blocks.len(), 2);
        assert_eq!(
            (blocks[1].offset, blocks[1].count, blocks[1].modules.as_slice()),
            (4096, 1, [3].as_slice())
        );
        assert!(parse("", &[]).is_empty());
        assert!(parse("x 8\n8\n-1 4\n", &[]).is_empty());
    }
}
