//! `docs/tool-options.md` says of each verb and option of ndctl, daxctl, cxl and ipmctl whether lode takes it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{lode, text};
use lode_testing::firmware_image;
use std::collections::BTreeMap;
use std::fs;

const TABLE: &str = include_str!("../../../../docs/tool-options.md");
/// The mark of what lode takes.
const TAKEN: &str = "●";

/// A row: the tool, its verb, the spellings of an option, and whether lode takes it.
struct Row<'t> {
    line: &'t str,
    tool: &'t str,
    verb: &'t str,
    options: Vec<&'t str>,
    is_taken: bool,
}

/// Returns the rows of the table.
fn rows() -> Vec<Row<'static>> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, tool, verb, options, state, _] = cells[..] else { panic!("{line}") };
        let is_taken = state == TAKEN;
        assert!(is_taken || state.split(' ').count() > 3, "a reason: {line}");
        let options = options.split(", ").filter(|word| !word.is_empty()).map(|word| word.trim_matches('`'));
        Row { line, tool, verb, options: options.collect(), is_taken }
    };
    TABLE.lines().filter(|line| line.starts_with("| ")).skip(1).map(row).collect()
}

/// Returns true if `word` stands in the text as a word of its own.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    text.split(|char| !is_part(char)).any(|found| found == word)
}

#[test]
fn nearly_all_options_are_taken() {
    let (rows, taken) = (rows().len(), rows().iter().filter(|row| row.is_taken).count());
    assert!(rows > 500 && taken * 100 >= rows * 95, "{taken} of {rows}");
}

#[test]
fn rows_agree_with_help() {
    let mut helps: BTreeMap<(&str, &str), Option<String>> = BTreeMap::new();
    for Row { line, tool, verb, options, is_taken } in rows().into_iter().filter(|row| row.tool != "ipmctl") {
        let help = helps.entry((tool, verb)).or_insert_with(|| {
            let result = lode([tool, verb, "--help"]);
            (result.code == Some(0)).then_some(result.out)
        });
        let has_all = |help: &String| options.iter().all(|word| has_word(help, word));
        assert_eq!(help.as_ref().is_some_and(has_all), is_taken, "{line}");
    }
}

/// Returns the words of a command of ipmctl with one option more.
fn with_option(machine: &Emulated, verb: &str, option: &str) -> Vec<String> {
    let file = |name: &str| text(&machine.file(name)).to_owned();
    let mut words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
    let before: &[&str] = match verb {
        "dump -system -config" => &["-destination", "configuration"],
        "load -dimm" => &["-source", "image"],
        "load -goal" => &["-source", "configuration"],
        _ => &[],
    };
    let after: &[&str] = match verb {
        "set -sensor" => &["MediaTemperature"],
        "show -error" => &["Media"],
        _ => &[],
    };
    words.extend(after.iter().map(|word| (*word).to_owned()));
    let with_file = |word: &&str| if word.starts_with('-') { (*word).to_owned() } else { file(word) };
    words.splice(1..1, before.iter().map(with_file));
    let value: &[&str] = match option {
        "-o" | "-output" => &["text"],
        "-u" | "-units" => &["GiB"],
        "-d" | "-display" if verb.ends_with("-socket") => &["SocketID"],
        "-d" | "-display" if verb.ends_with("-region") => &["ISetID"],
        "-d" | "-display" if verb.ends_with("-capabilities") => &["Alignment"],
        "-d" | "-display" => &["DimmID"],
        "-dimm" => &["0x0001"],
        "-socket" => &["0"],
        _ => &[],
    };
    let option_words = [option].into_iter().chain(value.iter().copied()).map(str::to_owned);
    match (option, words.iter().position(|word| word == option)) {
        ("", _) | ("-source", _) => {}
        (_, Some(target)) => drop(words.splice(target..=target, option_words)),
        // Targets are the last words before properties.
        ("-dimm" | "-socket", None) => words.extend(option_words),
        (_, None) => drop(words.splice(1..1, option_words)),
    }
    let property: &[&str] = match verb {
        "set -sensor" => &["AlarmEnabled=1"],
        "set -dimm" => &["Temperature=30"],
        "set -preferences" => &["DBG_LOG_LEVEL=1"],
        _ => &[],
    };
    words.extend(property.iter().map(|word| (*word).to_owned()));
    words
}

/// A refused line has one of two exit codes. Other failures are of the machine's state, or of a question without an answer.
#[test]
fn rows_of_ipmctl_are_run() {
    let machine = Emulated::included("lab-pair").interleaved();
    fs::write(machine.file("image"), firmware_image([2, 3, 0, 0, 1])).unwrap();
    let mut ran = 0;
    for Row { line, verb, options, is_taken, .. } in rows().into_iter().filter(|row| row.tool == "ipmctl") {
        for option in if options.is_empty() { vec![""] } else { options } {
            let words = with_option(&machine, verb, option);
            let result = lode(
                ["ipmctl"].into_iter().chain(machine.location()).chain(words.iter().map(String::as_str)),
            );
            assert_eq!(
                !matches!(result.code, None | Some(2 | 101 | 201)),
                is_taken,
                "{line}: {words:?}: {result:?}"
            );
            ran += 1;
        }
    }
    assert!(ran > 200, "{ran}");
}
