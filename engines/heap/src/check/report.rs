//! The report of a check.

use lode_layout::PoolOffset;
use std::fmt;

/// Maximum number of findings in a report. Further ones are only counted.
const FINDINGS_MAX: usize = 10_000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A state that a power cut can leave, and harmless.
    Note,
    /// A power cut can leave this. A flipped bit can as well, and then something acknowledged would be lost.
    Doubt,
    /// Bytes that are not as they were written.
    Damage,
}

/// Something in a pool that is worth reporting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// The structure that it is about.
    pub what: &'static str,
    /// Offset of that structure.
    pub at: PoolOffset,
    /// The value that is there, if one number says it.
    pub found: Option<u64>,
    /// The value that should be there, if it is known.
    pub want: Option<u64>,
    /// The consequence for the pool.
    pub means: &'static str,
    /// The way to it from the root of a pool of typed data, as `Shop.items[17].name`.
    pub path: Option<String>,
}

impl Finding {
    /// Makes a finding of damage without numeric values.
    pub fn damage(what: &'static str, at: PoolOffset, means: &'static str) -> Finding {
        Finding { severity: Severity::Damage, what, at, found: None, want: None, means, path: None }
    }
}

/// Numbers of checked structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of needed records of the log.
    pub records: u64,
    /// Number of chunk descriptors.
    pub chunks: u64,
    /// Number of superblocks.
    pub superblocks: u64,
    /// Number of allocated objects.
    pub objects: u64,
    /// Number of objects that were reached from the root.
    pub reached: u64,
    /// Number of keys.
    pub keys: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Findings, in the order in which the pool was checked.
    pub findings: Vec<Finding>,
    /// Number of findings that are not in the list because there are too many.
    pub omitted: u64,
    /// Numbers of checked structures.
    pub counts: Counts,
    /// True if the pool was not closed. Its log was then replayed into a private view first.
    pub unclean: bool,
    /// True if objects were compared with those that the layout reaches. Otherwise leaks are not looked for.
    pub traced: bool,
}

impl Report {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the worst severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Returns true if the report names damage. A state that a power cut can leave is not damage.
    pub fn is_damaged(&self) -> bool {
        self.worst() == Some(Severity::Damage) || self.omitted > 0
    }

    /// Returns true if no finding is worse than a note, and none was omitted.
    pub fn is_clean(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Severity::Note) && self.omitted == 0
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Doubt => "doubt",
            Severity::Damage => "damage",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, what, at, found, want, means, path } = self;
        write!(f, "{severity}: {what} at {at}")?;
        if let Some(path) = path {
            write!(f, ", {path},")?;
        }
        match (found, want) {
            (Some(found), Some(want)) => write!(f, " is {found:#x}, it must be {want:#x}")?,
            (Some(found), None) => write!(f, " is {found:#x}")?,
            _ => {}
        }
        write!(f, ": {means}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.omitted > 0 {
            writeln!(f, "and {} more", self.omitted)?;
        }
        if self.unclean {
            writeln!(
                f,
                "the pool was not closed: {} records of its log were replayed into a private view",
                self.counts.records
            )?;
        }
        let Counts { chunks, superblocks, objects, reached, keys, .. } = self.counts;
        write!(f, "checked {chunks} chunks, {superblocks} superblocks, {objects} objects")?;
        if self.traced {
            write!(f, ", {reached} of them reached, {keys} keys")?;
        }
        Ok(())
    }
}
