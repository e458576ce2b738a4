//! `lode volume check`.

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::volume::{exit_code, failed, lines};
use lode_volume::VolumeFormat;
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the volume"),
    ("format", "its format: btt, btt2, pmemblk, atomic or raw; null if the damage hides it"),
    ("damaged", "whether there is damage; the exit code is then 3"),
    ("findings", "the findings, a sentence each"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the volume");
    let (format, findings) = lode_volume::check(path).map_err(failed("checking a volume"))?;
    drop(progress);
    let damaged = !findings.is_empty();
    let findings = lines(&findings);
    let mut text: String = findings.iter().map(|finding| format!("damage: {finding}\n")).collect();
    let verdict = if damaged { "damaged; run `lode volume repair`" } else { "no damage" };
    text += &format!("{}: {verdict}\n", path.display());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("format", format.map(VolumeFormat::name))
        .with("damaged", damaged)
        .with("findings", findings)
        .with_exit_code(exit_code(damaged)))
}
