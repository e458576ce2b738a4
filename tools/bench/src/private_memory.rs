//! Memory of a process.

use anyhow::{Context, Result, ensure};
use std::fs;

/// Returns the bytes of anonymous memory that are a process's own: pages of files that it maps are the kernel's. `process` is its number, or
/// `self`.
pub(crate) fn private_memory(process: &str) -> Result<u64> {
    let smaps = fs::read_to_string(format!("/proc/{process}/smaps"))?;
    let (mut anonymous, mut kib) = (false, 0);
    for line in smaps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let first = fields.next().unwrap_or_default();
        if let Some(field) = first.strip_suffix(':') {
            if anonymous && field.starts_with("Private_") {
                kib += fields.next().context("smaps: no size")?.parse::<u64>()?;
            }
        } else {
            // A mapping: its range, protection, offset, device, inode, and name if it has one.
            anonymous = fields.nth(3) == Some("0");
        }
    }
    ensure!(kib > 0, "smaps names no anonymous memory");
    Ok(kib << 10)
}
