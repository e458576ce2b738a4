//! The info block of a page map, for fsdax and for devdax, and the size of the map.
#![doc = include_str!("page_map.md")]

use crate::InfoBlockError;
use crate::btt_info::INFO_LEN;
use lode_layout::fletcher64_with_hole;
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use lode_layout::{BLOCK, InvalidField, Want, align_down, align_up};
use std::mem::offset_of;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Offset of the info block in the namespace, in bytes.
pub const PAGE_MAP_OFF: u64 = BLOCK;

const MAJOR: u16 = 1;
/// First revision with `start_pad` and `end_trunc`.
const MINOR_PADS: u16 = 1;
/// First revision with `align`.
const MINOR_ALIGN: u16 = 2;
/// First revision with `page_size` and `page_struct_size`.
const MINOR_PAGE: u16 = 4;

/// Bytes before the map or the data: 4096 unused bytes and the info block.
const RESERVED: u64 = 2 * BLOCK;
/// Bytes of a page.
const PAGE: u64 = PAGE_FIELD as u64;
const PAGE_FIELD: u32 = 4096;
/// Bytes of the map for each page.
const PAGE_STRUCT: u64 = PAGE_STRUCT_FIELD as u64;
const PAGE_STRUCT_FIELD: u16 = 64;
/// The largest page of the CPU, in bytes: no mapping is aligned to more.
const ALIGN_MAX: u64 = 1 << 30;
/// Bytes that the kernel maps at once; no mapping is aligned to less.
const SUBSECTION: u64 = 2 << 20;
/// Upper limit of sizes and offsets: beyond any namespace, and no sum here wraps.
const DATA_OFF_MAX: u64 = 1 << 56;
/// Pages of a section, the unit of memory hotplug: 128 MiB.
const SECTION_PAGES: u64 = (128 << 20) / PAGE;

pub(crate) const TABLE: FormatTable = format_table!(
    "page_map",
    PageMapBytes,
    [
        sig,
        uuid,
        parent_uuid,
        flags,
        major,
        minor,
        data_off,
        page_count,
        mode,
        start_pad,
        end_trunc,
        align,
        page_size,
        page_struct_size,
        reserved,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PageMapBytes {
    sig: [u8; 16],
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    flags: U32,
    major: U16,
    minor: U16,
    data_off: U64,
    page_count: U64,
    mode: U32,
    start_pad: U32,
    end_trunc: U32,
    align: U32,
    page_size: U32,
    page_struct_size: U16,
    reserved: [u8; 3994],
    checksum: U64,
}

const _: () = assert!(size_of::<PageMapBytes>() == INFO_LEN);

/// The user for which the pages are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageMapUser {
    /// A block device on which file systems map files: fsdax.
    FileSystem,
    /// A character device: devdax.
    Device,
}

impl PageMapUser {
    const fn sig(self) -> [u8; 16] {
        match self {
            PageMapUser::FileSystem => *b"NVDIMM_PFN_INFO\0",
            PageMapUser::Device => *b"NVDIMM_DAX_INFO\0",
        }
    }
}

/// The location of the page map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PageMapLocation {
    /// In DRAM, `--map=mem`.
    Dram = 1,
    /// In the namespace, `--map=dev`.
    Namespace = 2,
}

/// The kernel's rule for the size of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageMapRule {
    /// Room for whole sections of 128 MiB, as in kernels up to 5.2.
    Sections,
    /// Room for the pages that exist, as in kernels since 5.3.
    Pages,
}

/// The info block of a page map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapInfo {
    /// The user for which the pages are mapped.
    pub user: PageMapUser,
    /// UUID of the page map.
    pub uuid: Uuid,
    /// UUID of the namespace that contains it.
    pub parent_uuid: Uuid,
    /// The revision of the block.
    pub minor: u16,
    /// Offset of the data, in bytes from `start_pad`.
    pub data_off: u64,
    /// Pages of the data.
    pub page_count: u64,
    /// The location of the map.
    pub location: PageMapLocation,
    /// Bytes that are not used at the start of the namespace.
    pub start_pad: u32,
    /// Bytes that are not used at its end.
    pub end_trunc: u32,
    /// Alignment of mappings in bytes; 0 if the block does not state it.
    pub align: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of the map for each page.
    pub page_struct_size: u16,
}

impl PageMapInfo {
    /// Plans the info block that a kernel writes to a new namespace of `size` bytes at physical address `start`.
    ///
    /// # Errors
    /// Fails if `align` is not a power of two from 4096 to 1 GiB. Fails if `start` is not a multiple of 2 MiB, or if
    /// `size` is not a whole number of pages. Fails if the namespace has no room for the map and a page of data.
    pub fn plan(
        user: PageMapUser,
        location: PageMapLocation,
        rule: PageMapRule,
        start: u64,
        size: u64,
        align: u64,
    ) -> Result<PageMapInfo, InfoBlockError> {
        Want::PowerOfTwo.check("align", 0, align)?;
        Want::AtLeast(PAGE).check("align", 0, align)?;
        Want::AtMost(ALIGN_MAX).check("align", 0, align)?;
        Want::MultipleOf(SUBSECTION).check("start", 0, start)?;
        Want::AtMost(DATA_OFF_MAX).check("start", 0, start)?;
        Want::AtMost(DATA_OFF_MAX).check("size", 0, size)?;
        Want::MultipleOf(PAGE).check("size", 0, size)?;
        let unit = align.max(SUBSECTION);
        let pages = size.saturating_sub(RESERVED) / PAGE;
        let (map_pages, minor) = match rule {
            PageMapRule::Sections => (pages.next_multiple_of(SECTION_PAGES), MINOR_ALIGN),
            PageMapRule::Pages => (pages, MINOR_PAGE),
        };
        let map_len = match location {
            PageMapLocation::Dram => 0,
            PageMapLocation::Namespace => map_pages * PAGE_STRUCT,
        };
        let data_off = align_up(start + RESERVED + map_len, unit) - start;
        let end_trunc = match rule {
            PageMapRule::Sections => 0,
            PageMapRule::Pages => start + size - align_down(start + size, unit),
        };
        let Some(data_len) = size.checked_sub(data_off + end_trunc).filter(|len| *len >= PAGE) else {
            return Err(InfoBlockError::TooSmall { size, size_min: data_off + unit });
        };
        Ok(PageMapInfo {
            user,
            uuid: Uuid::nil(),
            parent_uuid: Uuid::nil(),
            minor,
            data_off,
            page_count: data_len / PAGE,
            location,
            start_pad: 0,
            end_trunc: InvalidField::narrow("end_trunc", end_trunc)?,
            align: InvalidField::narrow("align", align)?,
            page_size: PAGE_FIELD,
            page_struct_size: PAGE_STRUCT_FIELD,
        })
    }

    /// Plans the info block that `ndctl write-infoblock` makes for an image of `size` bytes whose first byte has the
    /// address `start`. The block need not be one that a kernel takes.
    ///
    /// # Errors
    /// Fails if `align` is not a power of two, or is below 4096 or too large for its field. Fails if the image has no
    /// room for the map and a page of data.
    pub fn plan_image(
        user: PageMapUser,
        location: PageMapLocation,
        start: u64,
        size: u64,
        align: u64,
    ) -> Result<PageMapInfo, InfoBlockError> {
        Want::PowerOfTwo.check("align", 0, align)?;
        Want::AtLeast(PAGE).check("align", 0, align)?;
        Want::AtMost(DATA_OFF_MAX).check("start", 0, start)?;
        Want::AtMost(DATA_OFF_MAX).check("size", 0, size)?;
        let field_align = InvalidField::narrow("align", align)?;
        let unit = align.max(SUBSECTION);
        let map_len = match location {
            PageMapLocation::Dram => 0,
            PageMapLocation::Namespace => size.saturating_sub(RESERVED) / PAGE * PAGE_STRUCT,
        };
        let start_pad = align_up(start, unit) - start;
        let end_trunc = start + size - align_down(start + size, unit);
        let data_off = align_up(start + RESERVED + map_len, unit) - start;
        let size_min = data_off + end_trunc + start_pad + PAGE;
        if size < size_min {
            return Err(InfoBlockError::TooSmall { size, size_min });
        }
        Ok(PageMapInfo {
            user,
            uuid: Uuid::nil(),
            parent_uuid: Uuid::nil(),
            minor: MINOR_PAGE,
            data_off,
            page_count: (size - data_off - end_trunc - start_pad) / PAGE,
            location,
            start_pad: InvalidField::narrow("start_pad", start_pad)?,
            end_trunc: InvalidField::narrow("end_trunc", end_trunc)?,
            align: field_align,
            page_size: PAGE_FIELD,
            page_struct_size: PAGE_STRUCT_FIELD,
        })
    }

    /// Returns the number of bytes that a namespace of `size` bytes offers to its user: the size that ndctl shows.
    pub fn data_len(&self, size: u64) -> u64 {
        size.saturating_sub(self.data_start()).saturating_sub(self.end_trunc.into())
    }

    /// Returns the offset of the data in the namespace, in bytes.
    pub fn data_start(&self) -> u64 {
        u64::from(self.start_pad) + self.data_off
    }

    /// Decodes the info block in the first 4096 of `bytes`. Never panics, for any content.
    ///
    /// # Errors
    /// Names the first broken rule of the table. Signature, checksum and version are checked first.
    pub fn decode(bytes: &[u8]) -> Result<PageMapInfo, InfoBlockError> {
        let (raw, _) = PageMapBytes::ref_from_prefix(bytes)
            .map_err(|_| InfoBlockError::TooShort { len: bytes.len() as u64 })?;
        let user = [PageMapUser::FileSystem, PageMapUser::Device]
            .into_iter()
            .find(|user| user.sig() == raw.sig)
            .ok_or(InfoBlockError::Absent)?;
        let (want, found) = (raw.checksum(), raw.checksum.get());
        if want != found {
            return Err(InfoBlockError::Checksum { want, found });
        }
        let (major, minor) = (raw.major.get(), raw.minor.get());
        if major != MAJOR {
            return Err(InfoBlockError::Version { major, minor });
        }
        let info = raw.info(user)?;
        info.check()?;
        Ok(info)
    }

    /// Returns the bytes of the info block.
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let mut raw = PageMapBytes::new_zeroed();
        raw.sig = self.user.sig();
        raw.uuid = self.uuid.into_bytes();
        raw.parent_uuid = self.parent_uuid.into_bytes();
        raw.major = MAJOR.into();
        raw.minor = self.minor.into();
        raw.data_off = self.data_off.into();
        raw.page_count = self.page_count.into();
        raw.mode = (self.location as u32).into();
        if self.minor >= MINOR_PADS {
            raw.start_pad = self.start_pad.into();
            raw.end_trunc = self.end_trunc.into();
        }
        if self.minor >= MINOR_ALIGN {
            raw.align = self.align.into();
        }
        if self.minor >= MINOR_PAGE {
            raw.page_size = self.page_size.into();
            raw.page_struct_size = self.page_struct_size.into();
        }
        raw.checksum = raw.checksum().into();
        zerocopy::transmute!(raw)
    }

    /// Checks every rule of the table that concerns these fields.
    fn check(&self) -> Result<(), InfoBlockError> {
        use Want::{AtLeast, AtMost, MultipleOf, PowerOfTwo};
        let rule = |field, found: u64, want: Want| want.check(field, 0, found);
        let page_size = self.page_size.into();
        rule("page_size", page_size, PowerOfTwo)?;
        rule("page_size", page_size, AtLeast(PAGE))?;
        rule("page_struct_size", self.page_struct_size.into(), AtLeast(1))?;
        rule("data_off", self.data_off, AtLeast(RESERVED))?;
        rule("data_off", self.data_off, AtMost(DATA_OFF_MAX))?;
        rule("data_off", self.data_off, MultipleOf(page_size))?;
        rule("start_pad", self.start_pad.into(), MultipleOf(page_size))?;
        rule("end_trunc", self.end_trunc.into(), MultipleOf(page_size))?;
        if self.align != 0 {
            rule("align", self.align.into(), PowerOfTwo)?;
            rule("align", self.align.into(), AtLeast(PAGE))?;
        }
        Ok(())
    }
}

/// The fields of the info block of a page map as they are stored, valid or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPageMap {
    /// The signature, which names the user of the pages.
    pub sig: [u8; 16],
    /// UUID of the page map.
    pub uuid: [u8; 16],
    /// UUID of the namespace.
    pub parent_uuid: [u8; 16],
    /// Flags.
    pub flags: u32,
    /// The major number of the format.
    pub major: u16,
    /// The minor number of the format.
    pub minor: u16,
    /// Offset of the data in bytes.
    pub data_off: u64,
    /// Pages of the data.
    pub page_count: u64,
    /// Code of the location of the map.
    pub mode: u32,
    /// Bytes that are not used at the start.
    pub start_pad: u32,
    /// Bytes that are not used at the end.
    pub end_trunc: u32,
    /// Alignment of mappings in bytes.
    pub align: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of the map for each page.
    pub page_struct_size: u16,
    /// True if the checksum is that of the other bytes.
    pub is_intact: bool,
}

impl StoredPageMap {
    /// Reads the fields at the start of `bytes`; `None` if the bytes are too few or begin with neither signature.
    pub fn read(bytes: &[u8]) -> Option<StoredPageMap> {
        let (raw, _) = PageMapBytes::ref_from_prefix(bytes).ok()?;
        [PageMapUser::FileSystem, PageMapUser::Device].into_iter().find(|user| user.sig() == raw.sig)?;
        Some(StoredPageMap {
            sig: raw.sig,
            uuid: raw.uuid,
            parent_uuid: raw.parent_uuid,
            flags: raw.flags.get(),
            major: raw.major.get(),
            minor: raw.minor.get(),
            data_off: raw.data_off.get(),
            page_count: raw.page_count.get(),
            mode: raw.mode.get(),
            start_pad: raw.start_pad.get(),
            end_trunc: raw.end_trunc.get(),
            align: raw.align.get(),
            page_size: raw.page_size.get(),
            page_struct_size: raw.page_struct_size.get(),
            is_intact: raw.checksum() == raw.checksum.get(),
        })
    }
}

impl PageMapBytes {
    fn checksum(&self) -> u64 {
        fletcher64_with_hole(self.as_bytes(), offset_of!(PageMapBytes, checksum))
    }

    /// Returns the fields. A field that the revision lacks gets the value that earlier kernels implied.
    fn info(&self, user: PageMapUser) -> Result<PageMapInfo, InfoBlockError> {
        let minor = self.minor.get();
        let since = |first, value: u32, before| if minor >= first { value } else { before };
        let mode = self.mode.get();
        Want::AtLeast(PageMapLocation::Dram as u64).check("mode", 0, mode.into())?;
        Want::AtMost(PageMapLocation::Namespace as u64).check("mode", 0, mode.into())?;
        let is_in_dram = mode == PageMapLocation::Dram as u32;
        let page_struct_size =
            if minor >= MINOR_PAGE { self.page_struct_size.get() } else { PAGE_STRUCT_FIELD };
        Ok(PageMapInfo {
            user,
            uuid: Uuid::from_bytes(self.uuid),
            parent_uuid: Uuid::from_bytes(self.parent_uuid),
            minor,
            data_off: self.data_off.get(),
            page_count: self.page_count.get(),
            location: if is_in_dram { PageMapLocation::Dram } else { PageMapLocation::Namespace },
            start_pad: since(MINOR_PADS, self.start_pad.get(), 0),
            end_trunc: since(MINOR_PADS, self.end_trunc.get(), 0),
            align: since(MINOR_ALIGN, self.align.get(), 0),
            page_size: since(MINOR_PAGE, self.page_size.get(), PAGE_FIELD),
            page_struct_size,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::store_fletcher64;
    use proptest::prelude::*;

    fn plan(rule: PageMapRule, size: u64, align: u64) -> Result<PageMapInfo, InfoBlockError> {
        PageMapInfo::plan(PageMapUser::FileSystem, PageMapLocation::Namespace, rule, 4 << 30, size, align)
    }

    /// The namespace of the PRIMERGY machine. `ndctl create-namespace -s 479857737728` on kernel 4.20 printed the first
    /// size; current kernels give 2 MiB more.
    #[test]
    fn plan_matches_real_namespace() {
        let size = 479_857_737_728;
        let len = |rule| plan(rule, size, 2 << 20).unwrap().data_len(size);
        assert_eq!(len(PageMapRule::Sections), 472_356_225_024);
        assert_eq!(len(PageMapRule::Pages), 472_356_225_024 + (2 << 20));
    }

    #[test]
    fn impossible_maps_are_refused() {
        let refused = |size, align| plan(PageMapRule::Pages, size, align).unwrap_err().to_string();
        assert_eq!(refused(2 << 20, 2 << 20), "a namespace of 2097152 bytes is too small, it needs 4194304");
        assert_eq!(refused(64 << 20, 0), "align is 0x0, it must be a power of two");
        assert_eq!(refused(64 << 20, 2048), "align is 0x800, it must be at least 0x1000");
        assert_eq!(refused(64 << 20, 2 << 30), "align is 0x80000000, it must be at most 0x40000000");
        let crooked = PageMapInfo::plan(
            PageMapUser::Device,
            PageMapLocation::Dram,
            PageMapRule::Pages,
            4096,
            64 << 20,
            4096,
        );
        assert_eq!(crooked.unwrap_err().to_string(), "start is 0x1000, it must be a multiple of 0x200000");
    }

    #[test]
    #[cfg_attr(miri, ignore = "32,768 checksums of 4096 bytes: minutes")]
    fn info_blocks_round_trip_and_detect_bit_flips() {
        let info = plan(PageMapRule::Pages, 1 << 30, 1 << 21).unwrap();
        let bytes = info.encode();
        assert_eq!(PageMapInfo::decode(&bytes), Ok(info));
        for bit in 0..INFO_LEN * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(PageMapInfo::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn older_revisions_ignore_newer_fields() {
        let new = PageMapInfo {
            end_trunc: 4096,
            page_struct_size: 128,
            ..plan(PageMapRule::Pages, 1 << 30, 1 << 30 >> 9).unwrap()
        };
        let read = |minor: u16| {
            let mut bytes = new.encode();
            bytes[0x36..0x38].copy_from_slice(&minor.to_le_bytes());
            PageMapInfo::decode(&with_checksum(bytes)).unwrap()
        };
        assert_eq!(read(4), new);
        assert_eq!(read(3), PageMapInfo { minor: 3, page_struct_size: 64, ..new });
        assert_eq!(read(1), PageMapInfo { minor: 1, page_struct_size: 64, align: 0, ..new });
        assert_eq!(read(0), PageMapInfo { minor: 0, page_struct_size: 64, align: 0, end_trunc: 0, ..new });
        assert_eq!(read(0).encode()[0x4c..0x60], [0; 20]);
    }

    /// Returns `bytes` with a correct checksum.
    fn with_checksum(mut bytes: [u8; INFO_LEN]) -> [u8; INFO_LEN] {
        store_fletcher64(&mut bytes, offset_of!(PageMapBytes, checksum));
        bytes
    }

    #[test]
    fn each_field_is_checked() {
        let changes: [(&str, usize, u8); 9] = [
            ("data_off", 0x38, 1),
            ("data_off", 0x3f, 2),
            ("mode", 0x48, 0),
            ("mode", 0x48, 3),
            ("start_pad", 0x4c, 1),
            ("end_trunc", 0x50, 1),
            ("align", 0x54, 1),
            ("page_size", 0x58, 1),
            ("page_struct_size", 0x5c, 0),
        ];
        for (field, at, value) in changes {
            let mut bytes = plan(PageMapRule::Pages, 1 << 30, 1 << 21).unwrap().encode();
            bytes[at] = value;
            match PageMapInfo::decode(&with_checksum(bytes)) {
                Err(InfoBlockError::Field(contradiction)) => assert_eq!(contradiction.field, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    /// The manual page of ndctl 76 shows this block of an image of 1 TiB.
    #[test]
    fn image_plan_matches_ndctl() {
        let plan = |location, start, size, align| {
            PageMapInfo::plan_image(PageMapUser::FileSystem, location, start, size, align)
        };
        let info = plan(PageMapLocation::Namespace, 0, 1 << 40, 16 << 20).unwrap();
        assert_eq!((info.data_off, info.page_count, info.minor), (17_196_646_400, 264_237_056, 4));
        assert_eq!((info.start_pad, info.end_trunc, info.align), (0, 0, 16 << 20));
        let padded = plan(PageMapLocation::Dram, 4096, 64 << 20, 4096).unwrap();
        assert_eq!((padded.start_pad, padded.end_trunc, padded.align), ((2 << 20) - 4096, 4096, 4096));
        assert_eq!((padded.data_off, padded.page_count), ((2 << 20) - 4096, (60 << 20) / 4096 + 1));
        for (size, align) in [(0, 4096), (8192, 4096), (2 << 20, 4096), (64 << 20, 6144), (64 << 20, 2048)] {
            assert!(plan(PageMapLocation::Namespace, 0, size, align).is_err(), "{size} {align}");
        }
        assert!(plan(PageMapLocation::Dram, u64::MAX, 64 << 20, 4096).is_err());
        assert!(plan(PageMapLocation::Dram, 0, 1 << 50, 1 << 40).is_err());
    }

    #[test]
    fn stored_fields_are_read_without_validation() {
        let info = plan(PageMapRule::Pages, 1 << 30, 1 << 21).unwrap();
        let mut bytes = info.encode();
        let stored = StoredPageMap::read(&bytes).unwrap();
        assert!(stored.is_intact && &stored.sig == b"NVDIMM_PFN_INFO\0");
        assert_eq!((stored.data_off, stored.align, stored.mode), (info.data_off, info.align, 2));
        bytes[0x48] = 9;
        let stored = StoredPageMap::read(&bytes).unwrap();
        assert!(!stored.is_intact && stored.mode == 9);
        bytes[0] = 0;
        assert_eq!((StoredPageMap::read(&bytes), StoredPageMap::read(&bytes[1..])), (None, None));
    }

    proptest! {
        #[test]
        fn field_changes_never_panic(changes in prop::collection::vec((0x10usize..0x60, any::<u8>()), 1..24)) {
            let mut bytes = plan(PageMapRule::Pages, 1 << 30, 1 << 21).unwrap().encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(info) = PageMapInfo::decode(&with_checksum(bytes)) {
                prop_assert_eq!(PageMapInfo::decode(&info.encode()), Ok(info));
                prop_assert!(info.data_len(u64::MAX) <= u64::MAX - info.data_start());
            }
        }

        /// Checks that map and data have room, and that the data is aligned.
        #[test]
        fn plans_are_sound(start in 0u64..1 << 20, pages in 0u64..1 << 30, shift in 12u32..31, sections: bool) {
            let rule = if sections { PageMapRule::Sections } else { PageMapRule::Pages };
            let (start, size, align) = (start * SUBSECTION, pages * PAGE, 1 << shift);
            let planned =
                PageMapInfo::plan(PageMapUser::Device, PageMapLocation::Namespace, rule, start, size, align);
            let Ok(info) = planned else { return Ok(()) };
            prop_assert_eq!(PageMapInfo::decode(&info.encode()), Ok(info));
            prop_assert_eq!((start + info.data_start()) % align, 0);
            prop_assert!(info.data_off >= RESERVED + info.page_count * PAGE_STRUCT);
            prop_assert!(info.data_start() + info.data_len(size) + u64::from(info.end_trunc) == size);
            prop_assert_eq!(info.page_count, info.data_len(size) / PAGE);
        }
    }
}
