//! What must not get into a pool, or out of a transaction, does not compile. Each file of `compile_fail/` is
//! named after the promise that it tries to break; beside it is what the compiler says.

#![allow(clippy::panic, reason = "a test may panic")]

use std::fs;

#[test]
fn compile_fail() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// The documentation lists messages that do not name the remedy. The programs that it names are here, and their messages have the
/// codes that it says.
#[test]
fn documented_messages_have_programs() {
    let lines = include_str!("../src/typed/typed.md").lines();
    let rows = lines.skip_while(|line| *line != "| message | remedy | program |").skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 1, "the table is there");
    for row in rows {
        let [_, message, _, programs, _] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("columns of {row}")
        };
        let text = |program: &str| {
            let path = format!("tests/compile_fail/{}.stderr", program.trim().trim_matches('`'));
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let texts: String = programs.split(',').map(text).collect();
        let words = message.split(|c: char| !c.is_ascii_alphanumeric());
        for code in
            words.filter(|word| word.len() == 5 && word[1..].bytes().all(|byte| byte.is_ascii_digit()))
        {
            assert!(texts.contains(&format!("error[{code}]")), "{code} in {programs}");
        }
    }
}
