//! `pmempool sync` and `pmempool transform` on both libraries, on damage that is drawn from a seed.

use crate::damage::Draw;
use lode_capi_compare::{Files, Tool, ToolResults, ToolRun};
use lode_layout::{BLOCK, PmdkUuidField, StoredPmdkHeader, store_pmdk_checksum};
use std::fs;

const HEADER: usize = BLOCK as usize;

/// The lines of sets, parts by their names.
const SETS: [&[&str]; 5] = [
    &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"],
    &["17M a0", "REPLICA", "8M b0", "10M b1", "REPLICA", "8M c0", "8M c1", "8M c2"],
    &["8M a0", "REPLICA", "8M b0"],
    &["OPTION SINGLEHDR", "8M a0", "8M a1", "REPLICA", "16M b0"],
    &["8M a0", "REPLICA", "8M b0", "REPLICA", "8M c0", "REPLICA", "8M d0"],
];

/// Writes a set file into the tool's folder.
pub(crate) fn write_set(tool: &Tool, name: &str, lines: &[&str]) {
    let line = |line: &&str| match line.split_once(' ') {
        Some((size, part)) if size != "OPTION" && part != "host" => {
            format!("{size} {}\n", tool.folder().join(part).display())
        }
        _ => format!("{line}\n"),
    };
    let lines: String = lines.iter().map(line).collect();
    fs::write(tool.folder().join(name), format!("PMEMPOOLSET\n{lines}")).unwrap();
}

fn empty(tool: &Tool) {
    for name in tool.files().keys() {
        fs::remove_file(tool.folder().join(name)).unwrap();
    }
}

/// Makes a pool of a set. The tool's folder is empty again afterwards.
pub(crate) fn pool(tool: &Tool, lines: &[&str]) -> Files {
    empty(tool);
    write_set(tool, "set", lines);
    tool.make(&["create", "obj", "set"]);
    let files = tool.files();
    empty(tool);
    files
}

/// Returns the files without random UUIDs, times and checksums: UUIDs are numbered in the order in which they appear.
pub(crate) fn normal(files: &Files) -> Files {
    let mut known: Vec<[u8; 16]> = Vec::new();
    let mut normal = files.clone();
    for bytes in normal.values_mut().filter(|bytes| is_part(bytes)) {
        let mut header = StoredPmdkHeader::new(bytes[..HEADER].try_into().unwrap());
        let is_intact = header.is_intact();
        for field in PmdkUuidField::ALL {
            let uuid = header.uuid(field);
            let index = known.iter().position(|other| *other == uuid).unwrap_or_else(|| {
                known.push(uuid);
                known.len() - 1
            });
            header.set_uuid(field, [index as u8 + 1; 16]);
        }
        header.set_created(0);
        bytes[..HEADER].copy_from_slice(header.bytes());
        bytes[HEADER - 8..HEADER].fill(u8::from(is_intact));
    }
    normal
}

fn is_part(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER && bytes.starts_with(b"PMEM") && !bytes.starts_with(b"PMEMPOOLSET")
}

fn assert_same(theirs: &ToolResults, ours: &ToolResults, context: &str) {
    let [left, right] = [theirs, ours].map(|results| results.text.lines().collect::<Vec<&str>>());
    // A message of several lines goes on after Debian's words.
    let is_same =
        left.len() == right.len() && left.iter().zip(&right).all(|(left, right)| right.starts_with(left));
    assert!(is_same, "{context}\nDebian's:\n{}\nours:\n{}", theirs.text, ours.text);
    let context = format!("{context}\nDebian's:\n{}\nours:\n{}", theirs.text, ours.text);
    let (theirs, ours) = (normal(&theirs.files), normal(&ours.files));
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&theirs), names(&ours), "{context}");
    for (name, bytes) in &theirs {
        let differs = bytes.iter().zip(&ours[name]).position(|(left, right)| left != right);
        assert!(
            bytes.len() == ours[name].len() && differs.is_none(),
            "{context}\n{name} differs at {differs:?}, {} and {} bytes",
            bytes.len(),
            ours[name].len()
        );
    }
}

/// Takes the runs on both libraries, compares them, and lets Debian's library judge the files of ours.
fn compare(tool: &Tool, files: &Files, runs: &[ToolRun], judged: &str, context: &str) -> ToolResults {
    let [theirs, ours] = [false, true].map(|is_ours| tool.take(is_ours, files, runs));
    assert_same(&theirs, &ours, context);
    let judge = [ToolRun::of(&["check", "-v", judged]), ToolRun::of(&["sync", "-v", judged])];
    let [theirs, judged] = [&theirs, &ours].map(|results| tool.take(false, &results.files, &judge));
    assert_same(&theirs, &judged, context);
    ours
}

/// Damages a part. Returns a description.
fn damage(draw: &mut Draw, files: &mut Files, foreign: &Files) -> String {
    let parts: Vec<String> = files.keys().filter(|name| *name != "set").cloned().collect();
    if parts.is_empty() {
        return "nothing".to_owned();
    }
    let part = parts[draw.below(parts.len())].clone();
    let other = parts[draw.below(parts.len())].clone();
    let bytes = files.get_mut(&part).unwrap();
    let what = match draw.below(12) {
        0..3 => {
            files.remove(&part);
            "removed".to_owned()
        }
        3 => {
            bytes[..HEADER].fill(0);
            "header of zeros".to_owned()
        }
        4 => {
            bytes.truncate(bytes.len() - draw.pick(&[1, 4096, 7 << 20]));
            "truncated".to_owned()
        }
        5 => {
            bytes.push(0);
            "extended".to_owned()
        }
        6 => {
            let (left, right) = (files[&part].clone(), files[&other].clone());
            files.insert(part.clone(), right);
            files.insert(other.clone(), left);
            format!("swapped with {other}")
        }
        7 => match foreign.get(&part) {
            Some(other) => {
                *bytes = other.clone();
                "of another pool".to_owned()
            }
            None => "left".to_owned(),
        },
        8 | 9 => {
            let at = draw.pick(&[0, 8, 12, 16, 24, 40, 56, 72, 88, 104, 120, 128, 3000, 4024, 4088]);
            bytes[at] ^= 1 << draw.below(8);
            let is_sealed = draw.below(3) > 0;
            if is_sealed {
                store_pmdk_checksum(&mut bytes[..HEADER]);
            }
            format!("header {at} {is_sealed}")
        }
        10 => {
            bytes[HEADER + draw.below(1000)] ^= 1;
            "descriptor".to_owned()
        }
        _ => {
            let start = bytes.len() - 8192;
            bytes[start..start + 4096].fill(7);
            "content".to_owned()
        }
    };
    format!("{part}: {what}")
}

#[test]
fn damaged_replicas_are_repaired_alike() {
    let Some(tool) = Tool::find() else { return };
    let pools: Vec<[Files; 2]> = SETS.iter().map(|lines| [pool(&tool, lines), pool(&tool, lines)]).collect();
    let seed = lode_testing::seed(3);
    for number in 0..lode_testing::scaled(20) {
        let mut draw = Draw::new(seed, number);
        let [files, foreign] = &pools[draw.below(pools.len())];
        let mut files = files.clone();
        let count = draw.pick(&[1, 1, 2, 3]);
        let damages: Vec<String> = (0..count).map(|_| damage(&mut draw, &mut files, foreign)).collect();
        let options = draw.pick(&[&["-v"][..], &["-v"], &["-v"], &["-v", "-d"], &["-v", "-b"]]);
        let run = ToolRun::of(&[&["sync"][..], options, &["set"]].concat());
        let context = format!("seed {seed}, number {number}: {damages:?}, {options:?}");
        compare(&tool, &files, &[run], "set", &context);
    }
}

/// A set that is changed: its lines, those of the new one, and true if the content of parts moves.
type Change = (&'static [&'static str], &'static [&'static str], bool);

const TWO: &[&str] = &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"];
const CHANGES: [Change; 28] = [
    (TWO, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1", "REPLICA", "17M c0"], false),
    (TWO, &["17M c0", "REPLICA", "8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"], false),
    (
        TWO,
        &["8M a0", "8M a1", "REPLICA", "17M c0", "REPLICA", "9M b0", "8M b1", "REPLICA", "9M d0", "9M d1"],
        false,
    ),
    (TWO, &["9M b0", "8M b1", "REPLICA", "8M a0", "8M a1", "REPLICA", "17M c0"], false),
    (TWO, &["8M a0", "8M a1"], false),
    (TWO, &["9M b0", "8M b1"], false),
    (&["8M a0"], &["8M a0", "REPLICA", "8M b0"], false),
    (&["8M a0", "REPLICA", "8M b0", "REPLICA", "8M c0"], &["8M c0", "REPLICA", "8M a0"], false),
    (&["8M a0", "REPLICA", "8M b0", "REPLICA", "8M c0"], &["8M b0"], false),
    (
        &["OPTION SINGLEHDR", "8M a0", "8M a1"],
        &["OPTION SINGLEHDR", "8M a0", "8M a1", "REPLICA", "8M b0", "9M b1"],
        false,
    ),
    (&["OPTION SINGLEHDR", "8M a0", "8M a1", "REPLICA", "16M b0"], &["OPTION SINGLEHDR", "16M b0"], false),
    (TWO, &["OPTION SINGLEHDR", "8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"], true),
    (&["8M a0", "8M a1", "8M a2"], &["OPTION SINGLEHDR", "8M a0", "8M a1", "8M a2"], true),
    (&["8M a0"], &["OPTION SINGLEHDR", "8M a0"], true),
    (&["OPTION SINGLEHDR", "8M a0"], &["8M a0"], true),
    (
        &["OPTION SINGLEHDR", "15M a0", "REPLICA", "8M b0", "8M b1"],
        &["15M a0", "REPLICA", "8M b0", "8M b1"],
        true,
    ),
    (&["OPTION SINGLEHDR", "8M a0", "8M a1"], &["8M a0", "8M a1"], false),
    (TWO, TWO, false),
    (TWO, &["9M b0", "8M b1", "REPLICA", "8M a0", "8M a1"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "17M c0"], false),
    (TWO, &["17M c0"], false),
    (TWO, &["OPTION SINGLEHDR", "8M a0", "8M a1"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1", "REPLICA", "8M c0"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1", "REPLICA", "17M a0"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "8M a0", "8M a1"], false),
    (TWO, &["OPTION NOHDRS", "8M a0", "8M a1"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1", "REPLICA", "9M none/c0", "8M c1"], false),
    (TWO, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1", "REPLICA", "15M c0", "2M c1"], false),
];

#[test]
fn sets_are_changed_alike() {
    let Some(tool) = Tool::find() else { return };
    for (old, new, is_moved) in CHANGES {
        let mut files = pool(&tool, old);
        write_set(&tool, "new", new);
        files.extend(tool.files());
        fs::remove_file(tool.folder().join("new")).unwrap();
        for options in [&["-v"][..], &["-v", "-d"]] {
            let run = [ToolRun::of(&[&["transform"][..], options, &["set", "new"]].concat())];
            let context = format!("{old:?} -> {new:?} {options:?}");
            if !is_moved {
                compare(&tool, &files, &run, "new", &context);
                continue;
            }
            // PMDK leaves old content behind the end of the pool, which moves by headers.
            let [theirs, ours] = [false, true].map(|is_ours| {
                let mut results = tool.take(is_ours, &files, &run);
                for (_, bytes) in results.files.iter_mut().filter(|(name, _)| !name.ends_with('0')) {
                    let end = bytes.len().saturating_sub(3 * HEADER);
                    bytes[end..].fill(0);
                }
                results
            });
            assert_same(&theirs, &ours, &context);
            let judge = [ToolRun::of(&["check", "-v", "new"])];
            let text = tool.take(false, &tool.take(true, &files, &run).files, &judge).text;
            assert!(options.contains(&"-d") || text.contains("consistent"), "{context}: {text}");
        }
    }
}

/// A set whose parts are damaged is not changed.
#[test]
fn damaged_sets_are_refused_alike() {
    let Some(tool) = Tool::find() else { return };
    let pools = [pool(&tool, TWO), pool(&tool, TWO)];
    write_set(&tool, "new", CHANGES[0].1);
    let new = tool.files();
    let seed = lode_testing::seed(4);
    for number in 0..lode_testing::scaled(12) {
        let mut draw = Draw::new(seed, number);
        let mut files = pools[0].clone();
        let what = damage(&mut draw, &mut files, &pools[1]);
        files.extend(new.clone());
        compare(
            &tool,
            &files,
            &[ToolRun::of(&["transform", "-v", "set", "new"])],
            "new",
            &format!("{number}: {what}"),
        );
    }
}

/// Ranges that PMDK cleared before it was stopped: a file for each part tells of them, and the other replica has their content.
#[test]
fn interrupted_repairs_of_bad_blocks_are_finished_alike() {
    let Some(tool) = Tool::find() else { return };
    let mut files = pool(&tool, TWO);
    let lost: [(&str, &str, &str); 4] = [
        ("a0", "r0_p0", "8192 4096\n"),
        ("a1", "r0_p1", "4096 8192\n"),
        ("b0", "r1_p0", "16384 4096\n"),
        ("b1", "r1_p1", ""),
    ];
    for (part, file, ranges) in lost {
        let bytes = files.get_mut(part).unwrap();
        for line in ranges.lines() {
            let (start, len) = line.split_once(' ').unwrap();
            let (start, len): (usize, usize) = (start.parse().unwrap(), len.parse().unwrap());
            bytes[start..start + len].fill(0);
        }
        files.insert(format!("set_{file}_badblocks.txt"), format!("{ranges}0 0\n").into_bytes());
    }
    for options in [&["-v", "-b"][..], &["-v"], &["-v", "-b", "-d"]] {
        let run = ToolRun::of(&[&["sync"][..], options, &["set"]].concat());
        compare(&tool, &files, &[run], "set", &format!("{options:?}"));
    }
    let mut incomplete = files.clone();
    incomplete.insert("set_r0_p0_badblocks.txt".to_owned(), b"8192 4096\n".to_vec());
    // Both libraries take an incomplete file for one of a repair that had cleared no range.
    let [theirs, ours] = [false, true]
        .map(|is_ours| tool.take(is_ours, &incomplete, &[ToolRun::of(&["sync", "-v", "-b", "set"])]));
    assert_eq!(theirs.text, ours.text);
}
