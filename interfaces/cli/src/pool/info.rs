//! `lode pool info`.

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use lode_follow::{FollowError, Followed, PoolInfo};
use lode_layout::Durability;
use lode_pmem::{DurabilityReport, Mapping, PmemError};
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
    ("snapshots", "open snapshots, that of this command included, if another process has it open; or null"),
    ("snapshot_memory", "bytes of that process's memory that keep replaced words for them, or null"),
    ("snapshot_space", "bytes of the pool that were freed and wait for them, or null"),
    ("damaged_header", "which copy of the header is damaged, and how, or null"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let failure = |error: FollowError| Failure::of_pool("reading a pool", path)(error.into());
    let pool = Followed::open(path, None).map_err(failure)?;
    let info = pool.info().map_err(failure)?;
    let PoolInfo { header, damaged_header: damage, .. } = &info;
    let (in_use, medium, found) = match &pool {
        Followed::Served(_) => (true, Some(info.medium.clone()), Some(info.durability.clone())),
        Followed::Opened(_) => {
            let report = detected_durability(path);
            (
                false,
                report.as_ref().map(ToString::to_string),
                report.map(|report| report.durability.to_string()),
            )
        }
    };
    let state = match (in_use, info.was_closed) {
        (true, _) => format!(
            "open for writing in another process; open snapshots: {}, which keep back {} of memory and {} of the pool",
            info.snapshots,
            size(info.snapshot_memory),
            size(info.snapshot_space)
        ),
        (false, true) => "closed".to_owned(),
        (false, false) => {
            format!("not closed; {} records of its log replayed, in this view only", info.replayed)
        }
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
        ("medium", medium.clone().unwrap_or_else(unknown)),
        ("state", state),
    ];
    if let Some(durability) = header.durability_forced {
        rows.push(("forced durability", forced(durability, header.durability_min)));
    }
    if let Some(damage) = damage {
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
        .with("durability", found)
        .with("how", medium)
        .with("closed", !in_use && info.was_closed)
        .with("replayed", if in_use { 0 } else { info.replayed })
        .with("snapshots", in_use.then_some(info.snapshots))
        .with("snapshot_memory", in_use.then_some(info.snapshot_memory))
        .with("snapshot_space", in_use.then_some(info.snapshot_space))
        .with("damaged_header", damage.as_deref()))
}

/// Describes a durability that a user has forced on a pool that was made for `min`.
fn forced(durability: Durability, min: Durability) -> String {
    let means = if durability < min {
        "less than the pool was made for"
    } else {
        "more than the medium was known to keep"
    };
    format!("{durability}: {means}")
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
pub(super) fn age(created: u64) -> String {
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
