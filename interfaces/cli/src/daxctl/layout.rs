//! The file of `lode daxctl create-device --input`: a device as `lode daxctl list -M` prints it.

use crate::failure::Failure;
use lode_platform::dax::DeviceId;
use serde_json::Value;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A device to create again. Its number in the region is not kept.
#[derive(Debug)]
pub(super) struct Layout {
    /// Number of the region.
    pub(super) region: u32,
    /// Alignment of mappings, in bytes.
    pub(super) align: u64,
    /// The addresses, in the order of the pages.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Layout {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if the file can't be read, is not the JSON of one device with its mappings, or if these don't have its size.
    pub(super) fn read(path: &Path) -> Result<Layout, Failure> {
        let what = "reading a device";
        let text = fs::read_to_string(path).map_err(|error| Failure::io(what, path, &error))?;
        let device: Result<Value, String> = serde_json::from_str(&text).map_err(|error| error.to_string());
        device.and_then(|device| Layout::of(&device)).map_err(|why| {
            let form = "the file has one device, without the brackets of a list, as `lode daxctl list -M -d` prints it";
            Failure::new(what, format_args!("{}: {why}; {form}", path.display()))
        })
    }

    fn of(device: &Value) -> Result<Layout, String> {
        let name = device["chardev"].as_str().unwrap_or_default();
        let id = DeviceId::parse(name)
            .ok_or_else(|| "its chardev is not the name of a device, as dax0.1".to_owned())?;
        let number = |object: &Value, key: &str| {
            object[key].as_u64().ok_or_else(|| format!("it has no number {key} where one is needed"))
        };
        let mut mappings = Vec::new();
        for mapping in device["mappings"].as_array().map_or(&[][..], Vec::as_slice) {
            let range = number(mapping, "start")?..number(mapping, "end")?.saturating_add(1);
            mappings.push((number(mapping, "page_offset")?, range));
        }
        mappings.sort_by_key(|(page_off, _)| *page_off);
        let lens = mappings.iter().map(|(_, range)| range.end.checked_sub(range.start));
        let size = lens.into_iter().try_fold(0_u64, |sum, len| sum.checked_add(len?));
        if size != Some(number(device, "size")?) {
            return Err("its mappings don't have its size".to_owned());
        }
        let ranges = mappings.into_iter().map(|(_, range)| range).collect();
        Ok(Layout { region: id.region, align: number(device, "align")?, ranges })
    }
}
