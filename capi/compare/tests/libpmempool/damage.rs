//! Pools made by Debian's `pmempool`, and damage that is drawn from a seed.

use lode_capi_compare::{Files, Tool};
use lode_layout::{BLOCK, store_pmdk_checksum};
use std::fs;

/// Numbers from a seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64, number: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number))
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The pools, each by itself: name of the pool or set file, and the files.
pub(crate) struct Pools {
    pub(crate) pools: Vec<(&'static str, Files)>,
}

impl Pools {
    /// Makes the pools in the tool's folder, which is empty again afterwards.
    pub(crate) fn make(tool: &Tool) -> Pools {
        let path = |name: &str| tool.folder().join(name).display().to_string();
        let set = |name: &str, lines: &[&str]| {
            let lines: String = lines
                .iter()
                .map(|line| match line.split_once(' ') {
                    Some((size, part)) if part.starts_with('/') => format!("{size} {}\n", path(&part[1..])),
                    _ => format!("{line}\n"),
                })
                .collect();
            fs::write(tool.folder().join(name), format!("PMEMPOOLSET\n{lines}")).unwrap();
        };
        let mut pools = Vec::new();
        let mut done = |name: &'static str| {
            let files = tool.files();
            for name in files.keys() {
                fs::remove_file(tool.folder().join(name)).unwrap();
            }
            pools.push((name, files));
        };
        tool.make(&["create", "log", "-s", "2M", "log"]);
        done("log");
        tool.make(&["create", "blk", "512", "-s", "17M", "blank"]);
        done("blank");
        tool.make(&["create", "blk", "4096", "-w", "-s", "17M", "blk"]);
        done("blk");
        tool.make(&["create", "obj", "-s", "8M", "obj"]);
        done("obj");
        set("logset", &["2M /l0", "2M /l1"]);
        tool.make(&["create", "log", "logset"]);
        done("logset");
        set("blkset", &["9M /b0", "9M /b1"]);
        tool.make(&["create", "blk", "512", "-w", "blkset"]);
        done("blkset");
        set("objset", &["8M /o0", "REPLICA", "5M /o1", "5M /o2"]);
        tool.make(&["create", "obj", "objset"]);
        done("objset");
        set("single", &["OPTION SINGLEHDR", "2M /s0", "2M /s1"]);
        tool.make(&["create", "log", "single"]);
        done("single");
        Pools { pools }
    }
}

/// Offsets of fields of a header, with their bytes.
const FIELDS: [(usize, usize); 18] = [
    (0, 8),
    (8, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 16),
    (40, 16),
    (56, 16),
    (72, 16),
    (88, 16),
    (104, 16),
    (120, 8),
    (128, 16),
    (144, 1904),
    (2048, 1976),
    (4024, 64),
    (4088, 8),
    (0, 4096),
];

/// Damages the files of the pool `name`. Returns a description.
pub(crate) fn damage(draw: &mut Draw, name: &str, files: &mut Files) -> String {
    let parts: Vec<String> =
        files.iter().filter(|(_, bytes)| bytes.len() > 4096).map(|(name, _)| name.clone()).collect();
    let part = &parts[draw.below(parts.len())];
    let bytes = files.get_mut(part).unwrap();
    let is_first = part == &parts[0];
    let what = match draw.below(if is_first && name != "obj" && name != "objset" { 10 } else { 5 }) {
        0..5 => header(draw, bytes),
        _ if name.starts_with("log") || name == "single" => log(draw, bytes),
        5 => block_size(draw, bytes),
        _ => table(draw, bytes),
    };
    format!("{part}: {what}")
}

fn header(draw: &mut Draw, bytes: &mut [u8]) -> String {
    let (at, len) = draw.pick(&FIELDS);
    let field = &mut bytes[at..at + len];
    let how = draw.below(4);
    match how {
        0 => field.fill(0),
        1 => field[0] ^= 1 << draw.below(8),
        2 => {
            let place = draw.below(field.len());
            field[place] = draw.next() as u8;
        }
        _ => field.fill(draw.next() as u8),
    }
    let is_sealed = draw.below(3) == 0;
    if is_sealed {
        store_pmdk_checksum(&mut bytes[..BLOCK as usize]);
    }
    format!("header {at} {how} {is_sealed}")
}

fn log(draw: &mut Draw, bytes: &mut [u8]) -> String {
    let at = 4096 + 8 * draw.below(3);
    let value = draw.pick(&[0, 1, 4096, 8192, 8193, 1 << 20, 2 << 20, (2 << 20) + 1, u64::MAX]);
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    format!("log {at} {value:#x}")
}

fn block_size(draw: &mut Draw, bytes: &mut [u8]) -> String {
    let value = draw.pick(&[0, 1, 511, 512, 520, 4096, 30_000, 34_000, 1 << 20, u32::MAX]);
    bytes[4096..4100].copy_from_slice(&value.to_le_bytes());
    format!("block size {value}")
}

/// Damages the table of a block pool.
fn table(draw: &mut Draw, bytes: &mut [u8]) -> String {
    const TABLE: usize = 8192;
    let number = |bytes: &[u8], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[TABLE + at..TABLE + at + 8]);
        u64::from_le_bytes(word) as usize
    };
    let [map, flog, copy] = [0x60, 0x68, 0x70].map(|at| number(bytes, at));
    let last = bytes.len();
    let is_written = bytes[TABLE] != 0 && TABLE + copy < last && map < flog && flog < copy;
    let info = |bytes: &mut [u8], draw: &mut Draw, at: usize| {
        let place =
            draw.pick(&[0, 0x18, 0x28, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x50, 0x58, 0x60, 0x800, 0xff8]);
        bytes[at + place] ^= 1 << draw.below(8);
        format!("info {at:#x} {place:#x}")
    };
    match draw.below(6) {
        0 => info(bytes, draw, TABLE),
        1 => {
            bytes[TABLE..TABLE + 4096].fill(draw.pick(&[0, 0, 7]));
            "info filled".to_owned()
        }
        2 if is_written => info(bytes, draw, TABLE + copy),
        3 if is_written => {
            let count = 1 + draw.below(3);
            for _ in 0..count {
                let at = TABLE + map + 4 * draw.below(40);
                let value = draw.pick(&[
                    0,
                    0xC000_0000,
                    0xC000_0001,
                    0x4000_0002,
                    0x8000_0003,
                    0xC000_0F00,
                    u32::MAX,
                ]);
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            format!("{count} map entries")
        }
        _ if is_written => {
            let count = 1 + draw.below(3);
            for _ in 0..count {
                let at = TABLE + flog + 64 * draw.below(20) + 4 * draw.below(8);
                let value = draw.pick(&[0, 1, 2, 3, 4, 7, 0x4000_0001, 0x8000_0002, 0xC000_0FFF, u32::MAX]);
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            format!("{count} flog words")
        }
        _ => info(bytes, draw, TABLE),
    }
}
