//! What a check reports.

use lode_layout::PoolOffset;
use std::fmt;

/// Findings that a report holds; of more than these it tells how many.
const FINDINGS_MAX: usize = 10_000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing that a power cut does not leave, and harmless.
    Note,
    /// A power cut can leave this; a flipped bit can as well, and then something acknowledged would be lost.
    Doubt,
    /// Not as it was written.
    Damage,
}

/// Something in a pool that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub what: &'static str,
    /// Where that is.
    pub at: PoolOffset,
    /// What is there, where one number tells.
    pub found: Option<u64>,
    /// What should be there, where that is known.
    pub want: Option<u64>,
    /// What it means for the pool.
    pub means: &'static str,
}

impl Finding {
    /// Damage of which no number tells.
    pub fn damage(what: &'static str, at: PoolOffset, means: &'static str) -> Finding {
        Finding { severity: Severity::Damage, what, at, found: None, want: None, means }
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of the log that are needed.
    pub records: u64,
    /// Chunk descriptors.
    pub chunks: u64,
    /// Superblocks.
    pub superblocks: u64,
    /// Allocated objects.
    pub objects: u64,
    /// Objects that were reached from the root.
    pub reached: u64,
    /// Keys.
    pub keys: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is worth telling, in the order in which the pool was looked at.
    pub findings: Vec<Finding>,
    /// Findings that are not in the list because there are too many.
    pub omitted: u64,
    /// How much was looked at.
    pub counts: Counts,
    /// Whether the pool was not closed, so that its log was replayed into a private view first.
    pub unclean: bool,
    /// Whether objects were compared with what the layout reaches; otherwise leaks are not looked for.
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

    /// The worst of all findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Whether nothing is worse than a note.
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
        let Finding { severity, what, at, found, want, means } = self;
        write!(f, "{severity}: {what} at {at}")?;
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
