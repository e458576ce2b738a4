//! The words of the command line, before arguments are parsed from them.

use clap::Command;
use std::ffi::OsString;

/// Takes `--json` out of the words before `--`. So it may stand anywhere: among the words of `help` and of ipmctl, too.
pub(crate) fn take_json(words: impl Iterator<Item = OsString>) -> (bool, Vec<OsString>) {
    let mut words: Vec<OsString> = words.collect();
    let count = words.len();
    let mut in_options = true;
    words.retain(|word| {
        in_options &= word != "--";
        !in_options || word != "--json"
    });
    (words.len() < count, words)
}

/// Replaces `help` in the place of a command by `--help` at the end: the words after it are then parsed as commands, and
/// one that is misspelt gets a suggestion.
pub(crate) fn with_help_option(program: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let mut command = program;
    for (index, word) in words.iter().enumerate().skip(1) {
        if word == "help" && command.has_subcommands() {
            words.remove(index);
            words.push("--help".into());
            break;
        }
        let Some(below) = command.find_subcommand(word) else { break };
        command = below;
    }
    words
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::arguments::Arguments;
    use clap::CommandFactory;

    fn split(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    #[test]
    fn json_is_taken_before_two_dashes_only() {
        let take = |line| take_json(split(line).into_iter());
        assert_eq!(take("lode help --json kv"), (true, split("lode help kv")));
        assert_eq!(take("lode kv put p -- --json v"), (false, split("lode kv put p -- --json v")));
        assert_eq!(take("lode --json kv get p -- --json"), (true, split("lode kv get p -- --json")));
    }

    #[test]
    fn help_is_an_option_in_place_of_a_command_only() {
        let replaced = |line| with_help_option(&Arguments::command(), split(line));
        assert_eq!(replaced("lode help"), split("lode --help"));
        assert_eq!(replaced("lode help kv load"), split("lode kv load --help"));
        assert_eq!(replaced("lode platform image help export"), split("lode platform image export --help"));
        for line in ["lode kv get help", "lode kv put pool help", "lode ipmctl help", "lode"] {
            assert_eq!(replaced(line), split(line), "{line}");
        }
    }
}
