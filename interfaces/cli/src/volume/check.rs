//! `lode volume check`.

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::volume::{exit_code, failed, lines};
use lode_volume::{VolumeFinding, VolumeFormat};
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("format", "its format: btt, btt2, pmemblk, atomic or raw; null if the damage hides it"),
    ("damaged", "whether there is damage; the exit code is then 3"),
    ("repairable", "whether `lode volume repair` mends any of it"),
    ("findings", "the findings, a sentence each"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the volume");
    let (format, findings) = lode_volume::check(path).map_err(failed("checking a volume"))?;
    drop(progress);
    let damaged = !findings.is_empty();
    let repairable = findings.iter().any(VolumeFinding::is_repairable);
    let findings = lines(&findings);
    let mut text: String = findings.iter().map(|finding| format!("damage: {finding}\n")).collect();
    let verdict = match (damaged, repairable) {
        (false, _) => "no damage",
        (true, true) => "damaged; run `lode volume repair`",
        (true, false) => "damaged, and a repair can't help; restore it from a copy",
    };
    text += &format!("{}: {verdict}\n", path.display());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("format", format.map(VolumeFormat::name))
        .with("damaged", damaged)
        .with("repairable", repairable)
        .with("findings", findings)
        .with_exit_code(exit_code(damaged)))
}
