//! Sequences on both libraries, and the shortest one that differs.

use crate::wanted::{WANTED, WantedKind};
use crate::{Library, Program, Wanted};
use std::fmt;

/// Separates a step's answer from the message, which may be longer on ours.
const MESSAGE: &str = " message ";

/// Sequences of a process.
const BATCH: usize = 500;

/// A comparison of one program on both libraries.
#[derive(Clone, Copy, Debug)]
struct Comparison<'a> {
    /// The program: it takes a seed, the first sequence, their count, and steps.
    program: &'a Program,
    /// The seed.
    seed: u64,
    /// Environment variables of both processes.
    variables: &'a [(&'a str, &'a str)],
}

/// Compares the answers of the program `name` on both libraries, in processes with these environment variables. Each `test`
/// has other sequences.
///
/// # Panics
/// Panics with the difference if there is one.
pub fn assert_same_answers(name: &str, library: Library, test: &str, variables: &[(&str, &str)]) {
    let Some(program) = Program::compile(name, library) else { return };
    let seed = test
        .bytes()
        .fold(lode_testing::seed(1), |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let comparison = Comparison { program: &program, seed, variables };
    if let Err(difference) = comparison.run(0, lode_testing::scaled(library.sequences)) {
        panic!("{difference}");
    }
}

/// A difference: the steps that show it, as few as were found, and their answers.
#[derive(Debug)]
struct Difference {
    seed: u64,
    sequence: u64,
    steps: Vec<u64>,
    variables: Vec<(String, String)>,
    theirs: String,
    ours: String,
}

impl Comparison<'_> {
    /// Takes the sequences from `first` on, on both libraries. A process takes some hundreds of them: a library leaks,
    /// and what one sequence leaves should not change another.
    ///
    /// # Errors
    /// The first difference that is not wanted.
    fn run(&self, first: u64, count: u64) -> Result<(), Box<Difference>> {
        let end = first + count;
        (first..end)
            .step_by(BATCH)
            .try_for_each(|first| self.run_batch(first, (end - first).min(BATCH as u64)))
    }

    fn run_batch(&self, first: u64, count: u64) -> Result<(), Box<Difference>> {
        let [theirs, ours] = [false, true].map(|is_ours| self.take(is_ours, first, count, &[]));
        let bare = ours.lines().find(|line| !has_remedy(line));
        assert_eq!(bare, None, "no remedy is in this message, seed {}", self.seed);
        let Some(line) = first_difference(&theirs, &ours) else { return Ok(()) };
        let number = |text: &str| text.split([' ', '.']).next()?.parse().ok();
        let shown = theirs.lines().nth(line).and_then(number);
        let last = || theirs.lines().last().and_then(number).unwrap_or(first);
        Err(self.shrink(shown.unwrap_or_else(last)))
    }

    /// Removes steps as long as the rest differs.
    fn shrink(&self, sequence: u64) -> Box<Difference> {
        let run = |steps: &[u64]| [false, true].map(|is_ours| self.take(is_ours, sequence, 1, steps));
        let differs = |steps: &[u64]| {
            let [theirs, ours] = run(steps);
            first_difference(&theirs, &ours).is_some()
        };
        let whole = self.take(false, sequence, 1, &[]);
        let mut steps: Vec<u64> = (0..whole.lines().count() as u64).collect();
        let mut index = 0;
        while index < steps.len() && steps.len() > 1 {
            let removed = steps.remove(index);
            if !differs(&steps) {
                steps.insert(index, removed);
                index += 1;
            }
        }
        let [theirs, ours] = run(&steps);
        let variables = self.variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Box::new(Difference {
            seed: self.seed,
            sequence,
            steps,
            variables: variables.collect(),
            theirs,
            ours,
        })
    }

    /// Takes sequences on one library. Returns its answers, the end of the process last.
    fn take(&self, is_ours: bool, first: u64, count: u64, steps: &[u64]) -> String {
        let numbers = [self.seed, first, count];
        let arguments: Vec<String> = numbers.iter().chain(steps).map(ToString::to_string).collect();
        let output = self.program.run(is_ours, &arguments, self.variables);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{}{} {errors}", String::from_utf8_lossy(&output.stdout), output.status)
    }
}

/// Returns the number of the first line that differs and is not wanted.
fn first_difference(theirs: &str, ours: &str) -> Option<usize> {
    let (mut left, mut right) = (theirs.lines(), ours.lines());
    let mut skipped = None;
    for line in 0.. {
        let (theirs, ours) = match (left.next(), right.next()) {
            (None, None) => return None,
            (Some(theirs), Some(ours)) => (theirs, ours),
            _ => return Some(line),
        };
        let sequence = theirs.split([' ', '.']).next();
        if skipped.is_some() && sequence == skipped {
            continue;
        }
        if are_equal(theirs, ours) {
            continue;
        }
        match wanted(theirs, ours).map(|wanted| wanted.kind) {
            Some(WantedKind::Message) => {}
            Some(WantedKind::Result) => skipped = sequence,
            None => return Some(line),
        }
    }
    None
}

/// Returns true if the answers are the same. Our message may go on after Debian's words, if there are some.
fn are_equal(theirs: &str, ours: &str) -> bool {
    match (theirs.split_once(MESSAGE), ours.split_once(MESSAGE)) {
        (Some((answer, words)), Some((our_answer, our_words))) => {
            let goes_on = !words.is_empty() && our_words.starts_with(words);
            answer == our_answer && (words == our_words || goes_on)
        }
        _ => theirs == ours,
    }
}

/// Returns true if our message, when there is one, goes on with a remedy after a semicolon. That of a version check is Debian's: the
/// versions in it tell the remedy.
fn has_remedy(line: &str) -> bool {
    let Some((_, words)) = line.split_once(MESSAGE) else { return true };
    let is_complete = words.is_empty() || words == "none" || words.contains(" version mismatch (need ");
    is_complete || words.contains("; ")
}

fn wanted(theirs: &str, ours: &str) -> Option<&'static Wanted> {
    let call = |line: &str| line.split_once(' ').map(|(_, call)| call.to_owned()).unwrap_or_default();
    let answer = |line: &str| line.split(MESSAGE).next().unwrap_or_default().to_owned();
    WANTED.iter().find(|wanted| {
        let same = wanted.kind == WantedKind::Result || answer(theirs) == answer(ours);
        same && (wanted.is)(&call(theirs), &call(ours))
    })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { seed, sequence, steps, variables, theirs, ours } = self;
        writeln!(f, "seed {seed}, sequence {sequence}, steps {steps:?}, {variables:?}")?;
        writeln!(f, "Debian's:\n{theirs}\nours:\n{ours}")
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn messages_may_go_on() {
        assert!(are_equal("1.0 a = 0 message open f", "1.0 a = 0 message open f: why"));
        assert!(!are_equal("1.0 a = 0 message open f", "1.0 a = 0 message why"));
        assert!(!are_equal("1.0 a = 0 message ", "1.0 a = 0 message why"));
        assert!(are_equal("1.0 a = 0 message ", "1.0 a = 0 message "));
        assert!(!are_equal("1.0 a = 0 message open f", "1.0 a = 1 message open f"));
        assert!(!are_equal("1.0 a = 0 message open f", "1.0 a = 0"));
    }

    #[test]
    fn messages_have_a_remedy() {
        assert!(has_remedy("1.0 a = 0 message open f: No such file; create it"));
        assert!(!has_remedy("1.0 a = 0 message open f: No such file"));
        assert!(
            has_remedy("1.0 a = 0") && has_remedy("1.0 a = 0 message ") && has_remedy("1.0 a message none")
        );
    }

    #[test]
    fn differences_are_found_unless_wanted() {
        assert_eq!(first_difference("1.0 a\n1.1 b\n", "1.0 a\n1.1 b\n"), None);
        assert_eq!(first_difference("1.0 a\n1.1 b\n", "1.0 a\n1.1 c\n"), Some(1));
        assert_eq!(first_difference("1.0 a\n1.1 b\n", "1.0 a\n"), Some(1));
        let theirs = "1.0 map_file \"\" 1 9 0 mapped 1 = 1\n1.1 x\n1 end\n2.0 y\n";
        let ours = "1.0 map_file \"\" 1 9 0 = 0 errno 2 message mkstemp: No such file or directory\n1.1 z\n1 end q\n2.0 y\n";
        assert_eq!(first_difference(theirs, ours), None);
        assert_eq!(first_difference(theirs, &ours.replace("2.0 y", "2.0 z")), Some(3));
        let message = "1.0 map_file \"/dev/null\" = 0 errno 22 message ";
        assert_eq!(
            first_difference(&format!("{message}x"), &format!("{message}/dev/null is not device DAX")),
            None
        );
        assert_eq!(first_difference(&format!("{message}x"), &format!("{message}y")), Some(0));
    }
}
