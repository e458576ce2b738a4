//! `lode pool info` of a pool of PMDK.

use super::{Content, PmdkPool, uuid_text};
use crate::failure::DAMAGED;
use crate::output::Output;
use crate::pool::info::age;
use crate::pool::size;
use lode_layout::{PmdkFeatures, PmdkPartHeader, PmdkShutdownRecord};
use lode_pmdk::InspectedPart;
use serde_json::{Value, json};

/// The fields of a pool of PMDK.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool: its set file, or its only part"),
    ("library", "the library of PMDK that it belongs to: libpmemobj, libpmemblk or libpmemlog"),
    ("uuid", "the identity of the pool, or null"),
    ("size", "its size in bytes: that of its smallest replica; or null"),
    ("created", "time of creation, in seconds since 1970; or null"),
    ("features", "its features, by the names of pmempool-feature(1) and numbers of unknown bits"),
    ("open", "whether its shutdown state says that it is open, or was in a crash; or null"),
    ("layout", "the layout of a pool of objects, or null"),
    ("block_size", "bytes of a block of a block pool, or null"),
    ("used", "bytes of a log that are used, or null"),
    ("capacity", "bytes that a log can hold, or null"),
    ("parts", "its parts: {replica, path, size, uuid}; the UUID of a part without a header is null"),
    ("damage", "all that is wrong with it, a sentence each; the exit code is then 3"),
];

/// Returns the properties of the pool, and all that is wrong with its headers.
pub(crate) fn info(pool: &PmdkPool) -> Output {
    let inspection = &pool.inspection;
    let header = inspection.header();
    let features = header.map(|header| features(header.features));
    let bytes = inspection.size().ok();
    let content = pool.content().ok();
    let is_open = header.and_then(|header| is_open(*header));
    let faults = pool.faults();
    let mut rows = vec![
        ("path".to_owned(), inspection.path().display().to_string()),
        ("library".to_owned(), format!("{} of PMDK", pool.library())),
    ];
    let mut row = |name: &str, text: Option<String>| rows.extend(text.map(|text| (name.to_owned(), text)));
    row("uuid", header.map(|header| uuid_text(header.poolset_uuid)));
    row("size", bytes.map(size));
    row("created", header.map(|header| age(header.created)));
    row(
        "features",
        features.as_ref().map(|names| if names.is_empty() { "none".to_owned() } else { names.join(", ") }),
    );
    row("content", content.as_ref().map(describe));
    row(
        "state",
        is_open.map(|is_open| if is_open { "open, or was open in a crash" } else { "closed" }.to_owned()),
    );
    for part in inspection.parts() {
        let of = if inspection.replicas().len() > 1 {
            format!("part of {}", part.replica)
        } else {
            "part".to_owned()
        };
        row(&of, Some(describe_part(part)));
    }
    for fault in &faults {
        row("damage", Some(fault.clone()));
    }
    let text: String = rows.iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect();
    let (layout, block_size, log) = match content {
        Some(Content::Objects { layout }) => (Some(layout), None, None),
        Some(Content::Blocks { size }) => (None, Some(size), None),
        Some(Content::Log { used, capacity }) => (None, None, Some((used, capacity))),
        None => (None, None, None),
    };
    let parts: Vec<Value> = inspection.parts().iter().map(part_fields).collect();
    let code = if faults.is_empty() { 0 } else { DAMAGED };
    Output::text(text)
        .with("path", inspection.path().display().to_string())
        .with("library", pool.library())
        .with("uuid", header.map(|header| uuid_text(header.poolset_uuid)))
        .with("size", bytes)
        .with("created", header.map(|header| header.created))
        .with("features", features)
        .with("open", is_open)
        .with("layout", layout)
        .with("block_size", block_size)
        .with("used", log.map(|(used, _)| used))
        .with("capacity", log.map(|(_, capacity)| capacity))
        .with("parts", parts)
        .with("damage", faults)
        .with_exit_code(code)
}

/// Returns true if the shutdown state says that the pool is open; `None` if it keeps none.
fn is_open(header: PmdkPartHeader) -> Option<bool> {
    if !header.features.has_shutdown_state() {
        return None;
    }
    match header.shutdown {
        PmdkShutdownRecord::Stored(state) => Some(state.is_dirty),
        _ => Some(false),
    }
}

/// Returns the names of the features, as pmempool-feature(1) has them, and the unknown bits as numbers.
pub(super) fn features(features: PmdkFeatures) -> Vec<String> {
    let known = [
        (features.checks_bad_blocks(), "CHECK_BAD_BLOCKS"),
        (features.has_single_header(), "SINGLEHDR"),
        (features.has_short_checksum(), "CKSUM_2K"),
        (features.has_shutdown_state(), "SHUTDOWN_STATE"),
    ];
    let mut names: Vec<String> =
        known.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned()).collect();
    let PmdkFeatures { compat, incompat, ro_compat } = features.unknown();
    let unknown = [("compat", compat), ("incompat", incompat), ("ro_compat", ro_compat)];
    names.extend(
        unknown.iter().filter(|(_, bits)| *bits != 0).map(|(word, bits)| format!("{word} {bits:#x}")),
    );
    names
}

fn describe(content: &Content) -> String {
    match content {
        // Bytes of the pool, which could hold sequences of the terminal and ends of lines.
        Content::Objects { layout } => format!("objects, layout \"{}\"", layout.escape_debug()),
        Content::Blocks { size } => format!("blocks of {size} bytes"),
        Content::Log { used, capacity } => format!("a log, {} of {} used", size(*used), size(*capacity)),
    }
}

fn describe_part(part: &InspectedPart) -> String {
    let bytes = part.size.map_or_else(|| "of unknown size".to_owned(), size);
    let uuid = part.header.map_or_else(|| "no header".to_owned(), |header| uuid_text(header.uuid));
    format!("{}, {bytes}, {uuid}", part.path.display())
}

fn part_fields(part: &InspectedPart) -> Value {
    json!({
        "replica": part.replica,
        "path": part.path.display().to_string(),
        "size": part.size,
        "uuid": part.header.map(|header| uuid_text(header.uuid)),
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn layout_is_escaped() {
        let content = Content::Objects { layout: "a\x1b[2J\nstate         closed".to_owned() };
        let text = describe(&content);
        assert_eq!(text, r#"objects, layout "a\u{1b}[2J\nstate         closed""#);
    }
}
