//! `lode pool info`.

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use lode_heap::Pool;
use lode_layout::Durability;
use lode_pmem::{DurabilityReport, Mapping, PmemError};
use lode_pool::{Access, OpenOptions};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("uuid", "its identity"),
    ("layout", "layout of its content"),
    ("size", "its size in bytes"),
    ("size_max", "the size in bytes up to which it grows by itself, or null"),
    ("created", "time of creation, in seconds since 1970"),
    ("log_bytes", "bytes of its log"),
    (
        "durability_min",
        "the durability with which it was created; a medium that does not offer it is refused",
    ),
    (
        "durability_forced",
        "the durability that a user forced last, in place of the one detected or recorded; or null",
    ),
    (
        "durability",
        "the durability that its medium offers now, or null if that can't be found out without writing",
    ),
    ("how", "evidence for that durability, or null"),
    ("closed", "whether the last writer closed it; otherwise the next one replays its log"),
    ("replayed", "records of the log that this reader replayed into its private view"),
    ("damaged_header", "which copy of the header is damaged, and how, or null"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let failure = Failure::of_pool("reading a pool", path);
    let pool =
        Pool::open(path, &OpenOptions::new(Access::ReadOnly)).map_err(|error| failure(error.into()))?;
    let (header, recovery) = (pool.header(), pool.recovery());
    let report = detected_durability(path);
    let damage = pool.file().damage().map(|(copy, fault)| format!("copy {copy}: {fault}"));
    let state = match (recovery.was_closed, recovery.replayed) {
        (true, _) => "closed".to_owned(),
        (false, count) => format!("not closed; {count} records of its log replayed, in this view only"),
    };
    let mut rows = vec![
        ("path", path.display().to_string()),
        ("uuid", header.uuid.to_string()),
        ("layout", header.layout.to_string()),
        ("size", size(header.geometry.size())),
        (
            "grows to",
            if header.size_max == 0 { "no other size by itself".to_owned() } else { size(header.size_max) },
        ),
        ("log", size(header.geometry.log_len())),
        ("created", age(header.created)),
        ("durability", header.durability_min.to_string()),
        ("medium", report.as_ref().map_or_else(unknown, ToString::to_string)),
        ("state", state),
    ];
    if let Some(durability) = header.durability_forced {
        let means = if durability < header.durability_min {
            "less than the pool was made for"
        } else {
            "more than the medium was known to keep"
        };
        rows.push(("forced durability", format!("{durability}: {means}")));
    }
    if let Some(damage) = &damage {
        rows.push(("header", format!("{damage}; run `lode pool repair`")));
    }
    let text: String = rows.iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect();
    let durability = |durability: Durability| Value::from(durability.to_string());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("uuid", header.uuid.to_string())
        .with("layout", header.layout.to_string())
        .with("size", header.geometry.size())
        .with("size_max", (header.size_max > 0).then_some(header.size_max))
        .with("created", header.created)
        .with("log_bytes", header.geometry.log_len())
        .with("durability_min", durability(header.durability_min))
        .with("durability_forced", header.durability_forced.map(durability))
        .with("durability", report.as_ref().map(|report| durability(report.durability)))
        .with("how", report.map(|report| report.to_string()))
        .with("closed", recovery.was_closed)
        .with("replayed", recovery.replayed)
        .with("damaged_header", damage))
}

/// Returns the durability that the medium offers, or `None` if this user can't map it for writing.
fn detected_durability(path: &Path) -> Option<DurabilityReport> {
    match Mapping::options().open(path) {
        Ok(mapping) => Some(mapping.report().clone()),
        Err(PmemError::Volatile { report, .. } | PmemError::NoFlush { report, .. }) => Some(report),
        Err(_) => None,
    }
}

fn unknown() -> String {
    "not known: asking the kernel takes the right to write".to_owned()
}

/// Formats the time since `created` in human-readable form.
fn age(created: u64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs().saturating_sub(created);
    let (count, unit) = match seconds {
        0..120 => (seconds, "seconds"),
        120..7200 => (seconds / 60, "minutes"),
        7200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit} ago")
}
