//! `lode volume repair`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::volume::{exit_code, failed, lines};
use lode_volume::VolumeRepair;
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("repairs", "the changes, a sentence each"),
    ("lost_blocks", "number of blocks that are lost"),
    ("findings", "findings of a check of the repaired volume, a sentence each"),
];

pub(crate) fn run(path: &Path, durability: DurabilityOption) -> Result<Output, Failure> {
    let progress = Progress::spinner("repairing the volume");
    let repaired = lode_volume::repair(path, durability.forced());
    let (repairs, findings) = repaired.map_err(failed("repairing a volume"))?;
    drop(progress);
    let lost = repairs.iter().filter(|repair| VolumeRepair::is_loss(repair)).count();
    let (repairs, findings) = (lines(&repairs), lines(&findings));
    let mut text: String = repairs.iter().map(|repair| format!("{repair}\n")).collect();
    text.extend(findings.iter().map(|finding| format!("damage: {finding}\n")));
    let verdict = match (findings.is_empty(), lost, repairs.len()) {
        (false, _, _) => "still damaged; restore a backup",
        (true, 0, 0) => "nothing to repair",
        (true, 0, _) => "repaired",
        (true, _, _) => "repaired, what is listed is lost",
    };
    text += &format!("{}: {verdict}\n", path.display());
    let code = exit_code(!findings.is_empty() || lost > 0);
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("repairs", repairs)
        .with("lost_blocks", lost)
        .with("findings", findings)
        .with_exit_code(code))
}
