//! The image of a virtual machine: any bytes give an error or a listing.

use lode_nvdimm::{
    Abstraction, Label, LabelArea, LabelFlags, LabelFormat, LabelName, NamespaceLabel, PAGE_MAP_OFF,
    PERSISTENT_MEMORY, PageMapInfo, PageMapLocation, PageMapRule, PageMapUser,
};
use lode_platform::LabelVersion;
use lode_platform::image::{Image, QemuSlot};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use uuid::Uuid;

/// Bytes of data and of labels of the image that is fuzzed.
const DATA_LEN: u64 = 16 << 20;
const LABELS_LEN: u64 = 128 << 10;
/// Bytes of the input that begin the data; the other bytes begin the label area.
const HEAD: usize = 16 << 10;

/// Lists an image whose data and labels begin with the bytes.
pub fn run(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("lode-fuzz-image-{}", std::process::id()));
    make(&path, data).expect("the folder for temporary files can be written");
    let listed = Image::open(&path, None).and_then(|image| image.contents());
    match listed {
        Ok(contents) => {
            assert!(contents.listing.contains("\"regions\"") || !contents.faults.is_empty());
            assert!(contents.namespaces.iter().all(|one| one.namespace.size <= DATA_LEN));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    drop(std::fs::remove_file(path));
}

fn make(path: &PathBuf, data: &[u8]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(DATA_LEN + LABELS_LEN)?;
    let (head, labels) = data.split_at(data.len().min(HEAD));
    file.write_all_at(head, 0)?;
    file.write_all_at(&labels[..labels.len().min(LABELS_LEN as usize)], DATA_LEN)
}

/// Returns a namespace of mode fsdax with labels, and a file system in a module without labels.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let uuid = Uuid::from_u128(0x5a);
    let label = Label::Namespace(NamespaceLabel {
        uuid,
        name: LabelName::new("seed").unwrap_or(LabelName::NONE),
        flags: LabelFlags::default(),
        label_count: 1,
        position: 0,
        set_cookie: QemuSlot(0).cookie(LabelVersion::V1_2),
        lba_size: 512,
        dpa: 0,
        raw_size: DATA_LEN,
        alignment: 0,
        type_guid: PERSISTENT_MEMORY,
        abstraction: Abstraction::PageMap,
    });
    let labelled = || -> Option<Vec<u8>> {
        let mut bytes = vec![0; HEAD + 1024];
        let (user, place) = (PageMapUser::FileSystem, PageMapLocation::Dram);
        let info = PageMapInfo::plan(user, place, PageMapRule::Pages, 0, DATA_LEN, 2 << 20).ok()?;
        let info = PageMapInfo { uuid: Uuid::from_u128(1), parent_uuid: uuid, ..info };
        bytes[PAGE_MAP_OFF as usize..][..4096].copy_from_slice(&info.encode());
        let made = LabelArea::format(LABELS_LEN, LabelFormat::V1_2).ok()?;
        let put = made.after.put(&label).ok()?;
        for write in made.writes.into_iter().chain(put.writes) {
            bytes[HEAD + write.off as usize..][..write.bytes.len()].copy_from_slice(&write.bytes);
        }
        Some(bytes)
    };
    let mut file_system = vec![0; 2048];
    file_system[1024 + 0x38..][..2].copy_from_slice(&[0x53, 0xef]);
    file_system[1024 + 0x60] = 0x40;
    let mut partition = vec![0; 8192];
    partition[446 + 4] = 0x83;
    partition[446 + 8] = 8;
    partition[510..512].copy_from_slice(&[0x55, 0xaa]);
    partition[4096..][..4].copy_from_slice(b"XFSB");
    let seeds = [("labels", labelled()), ("ext4", Some(file_system)), ("partition", Some(partition))];
    seeds.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_listed() {
        let path = std::env::temp_dir().join(format!("lode-fuzz-seed-{}", std::process::id()));
        let found: Vec<_> = seeds()
            .into_iter()
            .map(|(name, bytes)| {
                make(&path, &bytes).unwrap();
                let contents = Image::open(&path, None).unwrap().contents().unwrap();
                let file_system = contents.namespaces[0].file_system.as_ref().map(|found| found.kind);
                (name, contents.namespaces[0].namespace.mode().as_str(), file_system)
            })
            .collect();
        std::fs::remove_file(path).unwrap();
        let expected =
            [("labels", "fsdax", None), ("ext4", "raw", Some("ext4")), ("partition", "raw", Some("xfs"))];
        assert_eq!(found, expected);
    }
}
