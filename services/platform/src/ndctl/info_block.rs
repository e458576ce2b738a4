//! Info blocks in the format of `ndctl read-infoblock --json`.

use super::label_area::c_text;
use crate::info_block::{InfoBlockArea, StoredInfoBlock};
use crate::listing::{Fields, Json};
use lode_nvdimm::{StoredBtt, StoredPageMap};
use uuid::Uuid;

/// Returns the info blocks that `takes` accepts, as ndctl prints them.
pub fn info_blocks(
    areas: &[InfoBlockArea],
    mut takes: impl FnMut(&InfoBlockArea, &StoredInfoBlock) -> bool,
    human: bool,
) -> String {
    let mut listed = Vec::new();
    for area in areas {
        let taken = area.blocks().filter(|block| takes(area, block));
        listed.extend(taken.map(|block| json(area, &block)));
    }
    Json::Array(listed).print(human) + "\n"
}

fn json(area: &InfoBlockArea, block: &StoredInfoBlock) -> Json {
    let mut fields = Fields::default();
    match &area.namespace {
        Some(name) => fields.add("dev", Json::text(name)),
        None => fields.add("file", Json::text(&area.file)),
    }
    match block {
        StoredInfoBlock::Btt(btt) => fields.add_btt(btt),
        StoredInfoBlock::PageMap(map) => fields.add_page_map(map),
    }
    Json::Object(fields.into())
}

impl Fields {
    fn add_head(&mut self, sig: &[u8; 16], uuids: [[u8; 16]; 2], flags: u32, version: [u16; 2]) {
        let [uuid, parent] = uuids.map(|uuid| Json::text(Uuid::from_bytes(uuid)));
        self.add("signature", c_text(sig));
        self.add("uuid", uuid);
        self.add("parent_uuid", parent);
        self.add("flags", Json::Hex(flags.into()));
        self.add("version", Json::text(format_args!("{}.{}", version[0], version[1])));
    }

    fn add_btt(&mut self, btt: &StoredBtt) {
        self.add_head(&btt.sig, [btt.uuid, btt.parent_uuid], btt.flags, [btt.major, btt.minor]);
        // ndctl prints 32 bits as signed numbers.
        for (name, value) in [
            ("external_lbasize", btt.external[0]),
            ("external_nlba", btt.external[1]),
            ("internal_lbasize", btt.internal[0]),
            ("internal_nlba", btt.internal[1]),
            ("nfree", btt.nfree),
            ("infosize", btt.infosize),
        ] {
            self.add(name, Json::Number((value as i32).into()));
        }
        for (name, value) in [
            ("nextoff", btt.nextoff),
            ("dataoff", btt.dataoff),
            ("mapoff", btt.mapoff),
            ("logoff", btt.flogoff),
            ("info2off", btt.infooff),
        ] {
            self.add(name, Json::Hex(value));
        }
    }

    fn add_page_map(&mut self, map: &StoredPageMap) {
        self.add_head(&map.sig, [map.uuid, map.parent_uuid], map.flags, [map.major, map.minor]);
        self.add("dataoff", Json::Hex(map.data_off));
        self.add("npfns", Json::Hex(map.page_count));
        self.add("mode", Json::Number((map.mode as i32).into()));
        for (name, value) in [
            ("start_pad", map.start_pad),
            ("end_trunc", map.end_trunc),
            ("align", map.align),
            ("page_size", map.page_size),
            ("page_struct_size", map.page_struct_size.into()),
        ] {
            self.add(name, Json::Hex(value.into()));
        }
    }
}
