//! Layout of an image file.

use lode_layout::align_up;

/// Layout of an image file: the data, then the label area, as in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLayout {
    /// Bytes of data.
    pub data_len: u64,
    /// Bytes of the label area; 0 in an image without one.
    pub label_len: u64,
}

impl ImageLayout {
    /// The kernel's alignment of regions in bytes. The data of an image with labels is a multiple of it.
    pub const DATA_UNIT: u64 = 16 << 20;
    /// The kernel's alignment of page-mapped ranges in bytes. An image without labels is a multiple of it.
    pub const UNLABELLED_UNIT: u64 = 2 << 20;
    /// Size of QEMU's smallest label area, in bytes.
    pub const LABELS_MIN: u64 = 128 << 10;
    /// Size of the largest label area that is read, in bytes.
    pub const LABELS_MAX: u64 = 256 << 20;

    /// Returns the layout of an image with labels that has room for `data_len` bytes.
    pub fn with_labels(data_len: u64, label_len: u64) -> ImageLayout {
        let label_len = label_len.max(ImageLayout::LABELS_MIN);
        ImageLayout { data_len: align_up(data_len, ImageLayout::DATA_UNIT), label_len }
    }

    /// Returns the layout of an image without labels that has room for `data_len` bytes.
    pub fn without_labels(data_len: u64) -> ImageLayout {
        ImageLayout { data_len: align_up(data_len, ImageLayout::UNLABELLED_UNIT), label_len: 0 }
    }

    /// Returns the layout of a file of `len` bytes; `None` if no image has this length. Without `label_len`, the label
    /// area is the remainder above a multiple of [`DATA_UNIT`](ImageLayout::DATA_UNIT).
    pub fn of_file(len: u64, label_len: Option<u64>) -> Option<ImageLayout> {
        // A file that is too short for data and labels has no labels.
        let label_len =
            label_len.unwrap_or(if len < ImageLayout::DATA_UNIT { 0 } else { len % ImageLayout::DATA_UNIT });
        let data_len = len.checked_sub(label_len).filter(|data_len| *data_len > 0)?;
        let is_unlabelled = len.is_multiple_of(ImageLayout::UNLABELLED_UNIT);
        let is_labelled =
            label_len >= ImageLayout::LABELS_MIN && data_len.is_multiple_of(ImageLayout::DATA_UNIT);
        let is_layout = label_len <= ImageLayout::LABELS_MAX && (is_unlabelled || is_labelled);
        is_layout.then_some(ImageLayout { data_len, label_len })
    }

    /// Returns the bytes of the file.
    pub const fn file_len(&self) -> u64 {
        self.data_len + self.label_len
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn label_offset_follows_from_length() {
        let layout = |len, label_len| ImageLayout::of_file(len, label_len);
        let divided = |data_len, label_len| Some(ImageLayout { data_len, label_len });
        assert_eq!(layout(512 * MIB + (128 << 10), None), divided(512 * MIB, 128 << 10));
        assert_eq!(layout(514 * MIB, None), divided(512 * MIB, 2 * MIB));
        assert_eq!(layout(512 * MIB, None), divided(512 * MIB, 0));
        assert_eq!(layout(512 * MIB, Some(16 * MIB)), divided(496 * MIB, 16 * MIB));
        assert_eq!(layout(14 * MIB, None), divided(14 * MIB, 0), "of a small namespace");
        for cut in [0, 1, 4096, 512 * MIB - 4096, 512 * MIB + 4096, 511 * MIB] {
            let found = layout(cut, None);
            let is_long = cut % (16 * MIB) >= ImageLayout::LABELS_MIN && cut > 16 * MIB;
            assert_eq!(found.is_some(), is_long, "{cut}: {found:?}");
        }
        assert_eq!(layout(MIB, Some(2 * MIB)), None);
        assert_eq!(layout(1 << 40, Some(1 << 39)), None);
    }

    #[test]
    fn layout_round_trips() {
        for data_len in [1, 16 * MIB, 30 * MIB, 1 << 40] {
            for layout in
                [ImageLayout::with_labels(data_len, 0), ImageLayout::with_labels(data_len, 256 << 10)]
            {
                assert_eq!(ImageLayout::of_file(layout.file_len(), None), Some(layout));
                assert!(layout.data_len >= data_len && layout.data_len < data_len + 16 * MIB);
            }
        }
    }
}
