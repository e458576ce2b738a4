//! Contents of the modules: label areas, the first blocks of namespaces, and pending writes.

use crate::cxl::text_of_area;
use crate::machine::Handle;
use lode_nvdimm::{LabelArea, LabelError, LabelUpdate, LabelWrite};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of an info block.
pub(crate) const INFO_BLOCK: u64 = 4096;

/// The part of the modules' contents that was loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// The label areas. A module without an entry has a blank one.
    areas: BTreeMap<Handle, Result<LabelArea, LabelError>>,
    /// The bytes of the label areas of CXL devices. A device whose file is damaged has none.
    cxl_areas: BTreeMap<u32, Vec<u8>>,
    /// Blocks of media, or parts of them, by module and offset. A block without an entry is all zeros.
    blocks: BTreeMap<(Handle, u64), Vec<u8>>,
    /// Pending writes, in this order.
    writes: Vec<ModuleWrite>,
}

/// One write to a module, or to the keys of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModuleWrite {
    /// Writes to the label area.
    Labels(Handle, LabelWrite),
    /// Writes to the media at this offset.
    Media(Handle, u64, Vec<u8>),
    /// Writes zeros to the media: offset and bytes.
    Zeros(Handle, u64, u64),
    /// Writes a file of the folder of keys, or removes it if it has no text.
    Key(String, Option<String>),
    /// Replaces the label area of the CXL device with this number by these hexadecimal digits.
    CxlLabels(u32, String),
}

impl Contents {
    /// Loads the bytes of a label area.
    pub(crate) fn load_area(&mut self, module: Handle, bytes: &[u8]) {
        self.areas.insert(module, LabelArea::read(bytes));
    }

    /// Loads the bytes of the label area of a CXL device.
    pub(crate) fn load_cxl_area(&mut self, device: u32, bytes: Vec<u8>) {
        self.load_area(Handle::of_cxl(device), &bytes);
        self.cxl_areas.insert(device, bytes);
    }

    /// Returns true if the label area of a CXL device was loaded.
    pub(crate) fn has_cxl_area(&self, device: u32) -> bool {
        self.cxl_areas.contains_key(&device)
    }

    /// Loads a block of media.
    pub(crate) fn load_block(&mut self, module: Handle, off: u64, bytes: Vec<u8>) {
        self.blocks.insert((module, off), bytes);
    }

    /// Returns the label area of a module.
    pub(crate) fn area(&self, module: Handle) -> Result<&LabelArea, LabelError> {
        self.areas.get(&module).map_or(Err(LabelError::Blank), |area| area.as_ref().map_err(|error| *error))
    }

    /// Returns a block of media; `None` if it is all zeros.
    pub(crate) fn block(&self, module: Handle, off: u64) -> Option<&[u8]> {
        self.blocks.get(&(module, off)).map(Vec::as_slice)
    }

    /// Changes a label area.
    pub(crate) fn update(&mut self, module: Handle, update: LabelUpdate) {
        self.write_labels(module, update.writes);
        self.areas.insert(module, Ok(update.after));
    }

    /// Makes a label area blank.
    pub(crate) fn erase(&mut self, module: Handle, size: u64) {
        let writes = match self.areas.get(&module) {
            None => Vec::new(),
            Some(Ok(area)) => area.erase(),
            // The area is unreadable, so all its bytes are overwritten.
            Some(Err(_)) => vec![LabelWrite { off: 0, bytes: vec![0; size as usize] }],
        };
        self.write_labels(module, writes);
        self.areas.remove(&module);
    }

    /// Replaces all bytes of a label area.
    pub(crate) fn replace(&mut self, module: Handle, bytes: Vec<u8>) {
        self.load_area(module, &bytes);
        self.write_labels(module, vec![LabelWrite { off: 0, bytes }]);
    }

    /// Records writes to a label area. That of a CXL device is written as a whole, once.
    fn write_labels(&mut self, module: Handle, writes: Vec<LabelWrite>) {
        let Some(device) = module.cxl_device() else {
            self.writes.extend(writes.into_iter().map(|write| ModuleWrite::Labels(module, write)));
            return;
        };
        let area = self.cxl_areas.entry(device).or_default();
        for write in writes {
            let end = write.off as usize + write.bytes.len();
            area.resize(area.len().max(end), 0);
            write.apply(area);
        }
        let text = text_of_area(area);
        self.writes.retain(|write| !matches!(write, ModuleWrite::CxlLabels(of, _) if *of == device));
        self.writes.push(ModuleWrite::CxlLabels(device, text));
    }

    /// Writes a block of media.
    pub(crate) fn write_block(&mut self, module: Handle, off: u64, bytes: &[u8]) {
        self.blocks.insert((module, off), bytes.to_vec());
        self.writes.push(ModuleWrite::Media(module, off, bytes.to_vec()));
    }

    /// Zeroes a range of media. A range of any length takes no space.
    pub(crate) fn write_zeros(&mut self, module: Handle, off: u64, len: u64) {
        for ((_, at), bytes) in self.blocks.range_mut((module, 0)..=(module, u64::MAX)) {
            let within = |end: u64| end.saturating_sub(*at).min(bytes.len() as u64) as usize;
            let (start, end) = (within(off), within(off + len));
            bytes[start..end].fill(0);
        }
        self.writes.push(ModuleWrite::Zeros(module, off, len));
    }

    /// Writes a file of the folder of keys.
    pub(crate) fn write_key(&mut self, name: &str, text: String) {
        self.writes.push(ModuleWrite::Key(name.to_owned(), Some(text)));
    }

    /// Removes a file of the folder of keys.
    pub(crate) fn remove_key(&mut self, name: &str) {
        self.writes.push(ModuleWrite::Key(name.to_owned(), None));
    }

    /// Drops what was loaded of a module that is exchanged: the new one is blank.
    pub(crate) fn forget(&mut self, module: Handle) {
        self.areas.remove(&module);
        self.blocks.retain(|(of, _), _| *of != module);
    }

    /// Drops what was loaded of the blocks of media that overlap a range of a module.
    pub(crate) fn forget_blocks(&mut self, module: Handle, range: &Range<u64>) {
        let overlaps = |at: u64, len: usize| at < range.end && range.start < at + len as u64;
        self.blocks.retain(|(of, at), bytes| *of != module || !overlaps(*at, bytes.len()));
    }

    /// Takes the pending writes. The caller performs them.
    pub(crate) fn take_writes(&mut self) -> Vec<ModuleWrite> {
        std::mem::take(&mut self.writes)
    }
}
