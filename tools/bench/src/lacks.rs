//! Programs and files that a run needs and the machine lacks. Their rows are N/A then, or their group fails.

use crate::group::Group;
use crate::keys::WORDS;
use crate::plan::Selection;
use crate::program;
use clap::ValueEnum;
use std::path::Path;

/// The programs of Debian's packages that groups run.
const PROGRAMS: [(Group, &str); 7] = [
    (Group::Load, "sqlite3"),
    (Group::Reopen, "strace"),
    (Group::Store, "strace"),
    (Group::Nbd, "fio"),
    (Group::Nbd, "nbdkit"),
    (Group::Nbd, "qemu-nbd"),
    (Group::PmemPrograms, "fio"),
];
/// The groups that run the program `lode`.
const OF_LODE: [Group; 3] = [Group::Load, Group::Platform, Group::Nbd];
/// The groups that read a list of words.
const OF_WORDS: [Group; 2] = [Group::Words, Group::Load];

/// Returns a line for each thing that a selected group needs and that is not there: the thing, and how to get it.
pub(crate) fn lacking(selections: &[Selection]) -> Vec<String> {
    let is_selected = |group: &Group| selections.iter().any(|selection| selection.group == *group);
    let name =
        |group: &Group| group.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let packaged =
        PROGRAMS.iter().filter(|(group, program)| is_selected(group) && program::in_path(program).is_none());
    let mut lines: Vec<String> = packaged
        .map(|(group, program)| {
            format!("{} lacks the program {program}: setup/install.sh bench", name(group))
        })
        .collect();
    if program::lode().is_none() {
        let groups = OF_LODE.iter().filter(|group| is_selected(group));
        lines.extend(groups.map(|group| format!("{}: {}", name(group), program::NO_LODE)));
    }
    if !Path::new(WORDS).exists() {
        let groups = OF_WORDS.iter().filter(|group| is_selected(group));
        lines.extend(groups.map(|group| format!("{} lacks {WORDS}: setup/install.sh bench", name(group))));
    }
    lines
}
