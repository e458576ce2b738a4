//! Commands that would change a real machine. They are left to the machine's own tools.

use crate::output::Output;
use serde_json::json;
use std::env;

/// Options of lode that other tools do not have. The flag is true if a value follows the option.
const LODE_OPTIONS: [(&str, bool); 5] =
    [("--json", false), ("--sysfs", true), ("--state", true), ("--wait", true), ("--durability", true)];

/// Returns the running command `lode TOOL ...` as a command of TOOL, which takes the same arguments.
pub(crate) fn same_tool_command(tool: &str) -> String {
    let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    command(tool, words.skip_while(|word| word != tool).skip(1))
}

/// Returns a shell line that runs `tool` with these arguments, without the options that only lode has.
pub(crate) fn command(tool: &str, words: impl IntoIterator<Item = String>) -> String {
    let mut line = tool.to_owned();
    let mut is_value = false;
    for word in words {
        let own_option = LODE_OPTIONS.iter().find(|(name, _)| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        match own_option {
            _ if is_value => is_value = false,
            Some((name, takes_value)) => is_value = *takes_value && word == *name,
            None => line += &format!(" {}", shell_quoted(&word)),
        }
    }
    line
}

/// Quotes a word for a shell.
fn shell_quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./,:+%@".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the output with the commands that would change a real machine. The exit code is 1: nothing was changed.
pub(crate) fn tool_commands_output(commands: &[String]) -> Output {
    let head = "# Nothing is done: a real machine is left to its own tools. As root, run:\n";
    let text = commands.iter().fold(head.to_owned(), |text, command| text + command + "\n");
    Output::text(text).with("commands", json!(commands)).with_exit_code(1)
}

#[cfg(test)]
mod test {
    use super::command;

    #[test]
    fn lode_options_are_dropped_and_arguments_quoted() {
        let words = [
            "--sysfs",
            "/sys",
            "--wait",
            "5",
            "create-namespace",
            "--json",
            "-n",
            "a b",
            "--state=x",
            "-s",
            "1G",
            "it's",
            "",
        ];
        let line = command("ndctl", words.map(str::to_owned));
        assert_eq!(line, r"ndctl create-namespace -n 'a b' -s 1G 'it'\''s' ''");
    }
}
