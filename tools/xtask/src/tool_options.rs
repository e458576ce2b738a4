//! The rows of `docs/tool-options.md`: the verbs and options in the manual pages of ndctl, daxctl, cxl and ipmctl.
//!
//! ```text
//!   manual pages of Debian's packages --> tool, verb, option --+--> docs/tool-options.md
//!   the table: answers, and the names that pages misspell -----+
//! ```
//!
//! An option is the head of an entry in the section OPTIONS or TARGETS of a page. The verb of ipmctl is that of the synopsis, with
//! its target. A verb that is refused has one row, with the reason. The answers are those of the table: a test runs the commands.

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const TABLE: &str = "docs/tool-options.md";
/// The mark of what lode takes.
const TAKEN: &str = "●";
/// The mark of a row without an answer.
const OPEN: &str = "?";
/// The tools, with the date of the pages of the version that the table is of.
const TOOLS: [(&str, &str); 4] =
    [("cxl", "2023-02-24"), ("daxctl", "2023-02-24"), ("ipmctl", "2022-09-26"), ("ndctl", "2023-02-24")];
/// Words in a synopsis of ipmctl that are options, and do not name a command.
const NO_TARGETS: [&str; 4] = ["-destination", "-dict", "-source", "-mode"];
/// Options that the pages misspell, with their right names: those of the programs.
const MISSPELLED: [(&str, &str); 2] = [("--ovewrite", "--overwrite"), ("--key_handle", "--key-handle")];

/// A verb: its tool, and its words.
type Verb = (String, String);
/// The spellings of the options of each verb.
type Options = BTreeMap<Verb, Vec<Vec<String>>>;

/// Compares the table with the pages in a folder, or writes its rows anew. Returns true if they agree.
///
/// # Errors
/// The folder lacks the pages of a tool, or has those of another version.
pub(crate) fn run(workspace: &Workspace, pages: &Path, accept: bool) -> Result<bool> {
    let path = workspace.root.join(TABLE);
    let text = fs::read_to_string(&path).with_context(|| TABLE.to_owned())?;
    let mut all = Options::new();
    for (tool, date) in TOOLS {
        match options_of(pages, tool, date)? {
            Some(options) => all.extend(options),
            None => bail!("{} has no pages of {tool} of {date}: those of Debian 12", pages.display()),
        }
    }
    let new = with_rows(&text, &all);
    if accept {
        fs::write(&path, &new).with_context(|| TABLE.to_owned())?;
    }
    for (line, what) in differences(&text, &new) {
        println!("{what} {line}");
    }
    Ok(new == text && !new.contains(&format!("| {OPEN} |")))
}

/// Returns the lines that only one of two texts has.
fn differences<'t>(old: &'t str, new: &'t str) -> impl Iterator<Item = (&'t str, &'static str)> {
    let gone = old.lines().filter(move |line| !new.lines().any(|other| other == *line));
    let come = new.lines().filter(move |line| !old.lines().any(|other| other == *line));
    gone.map(|line| (line, "no page has")).chain(come.map(|line| (line, "the table lacks")))
}

/// Reads the pages of a tool in a folder. `None` if there are none, or they are of another version.
fn options_of(pages: &Path, tool: &str, date: &str) -> Result<Option<Options>> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(pages).with_context(|| pages.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{tool}-")) && (name.ends_with(".1") || name.ends_with(".1.gz")) {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut all = Options::new();
    for name in &names {
        let page = Page::parse(&text_of(&pages.join(name))?);
        if page.date != date {
            return Ok(None);
        }
        let verb = match tool {
            "ipmctl" => page.command(),
            _ => name.trim_start_matches(tool)[1..].split('.').next().unwrap_or_default().to_owned(),
        };
        // Two pages of ipmctl may describe one command.
        let options = all.entry((tool.to_owned(), verb)).or_default();
        for option in page.options {
            if !options.contains(&option) {
                options.push(option);
            }
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

fn text_of(path: &Path) -> Result<String> {
    let shown = || path.display().to_string();
    if path.extension().is_none_or(|end| end != "gz") {
        return fs::read_to_string(path).with_context(shown);
    }
    let output = Command::new("gzip").arg("-dc").arg(path).output().context("gzip")?;
    if !output.status.success() {
        bail!("{}: {}", shown(), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(shown)
}

/// A manual page.
struct Page {
    /// The date in its title.
    date: String,
    /// The words of its synopsis.
    synopsis: Vec<String>,
    /// The spellings of its options, in its order.
    options: Vec<Vec<String>>,
}

impl Page {
    /// Reads what asciidoctor has made.
    fn parse(text: &str) -> Page {
        let mut page = Page { date: String::new(), synopsis: Vec::new(), options: Vec::new() };
        let mut section = "";
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(title) = line.strip_prefix(".TH ") {
                page.date = title.split('"').nth(5).unwrap_or_default().to_owned();
            } else if let Some(name) = line.strip_prefix(".SH ") {
                section = name.trim_matches('"');
            } else if section == "SYNOPSIS" && !line.starts_with('.') {
                page.synopsis.extend(plain(line).split_whitespace().map(str::to_owned));
            } else if matches!(section, "OPTIONS" | "TARGETS")
                && line.starts_with("\\-")
                && lines.peek().is_some_and(|next| next.starts_with(".RS 4"))
            {
                page.options.push(spellings(&plain(line)));
            }
        }
        page
    }

    /// Returns the verb of ipmctl with its targets.
    fn command(&self) -> String {
        let targets = self.synopsis.iter().skip(2).filter(|word| word.starts_with('-'));
        let targets = targets.filter(|word| !NO_TARGETS.contains(&word.as_str()));
        self.synopsis.iter().skip(1).take(1).chain(targets).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// Returns the text of a line: without changes of the font, and with plain signs.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('f') => drop(chars.next()),
                Some('-') => text.push('-'),
                Some('(') => drop(chars.nth(1)),
                _ => {}
            },
            (char, _) => text.push(char),
        }
    }
    text
}

/// Returns the names in the head of an entry, as `-b, --bus=` or `-o (text|nvmxml), -output (text|nvmxml)`.
fn spellings(head: &str) -> Vec<String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    let words = head.split(|char: char| char == ',' || char.is_whitespace());
    let names = words.filter(|word| word.len() > 1 && word.starts_with('-'));
    let name = |word: &str| word.split(|char| !is_name(char)).next().unwrap_or_default().to_owned();
    let right = |name: String| {
        let found = MISSPELLED.iter().find(|(wrong, _)| *wrong == name);
        found.map_or(name, |(_, right)| (*right).to_owned())
    };
    names.map(name).map(right).collect()
}

/// Returns the text of the table with the rows of these verbs. Rows keep their answers; a new one has none.
fn with_rows(text: &str, all: &Options) -> String {
    let is_row = |line: &str| line.starts_with("| ") && !line.starts_with("| tool ");
    let mut answers: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for line in text.lines().filter(|line| is_row(line)) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, tool, verb, options, answer, _] = cells[..] {
            answers.insert((tool.to_owned(), verb.to_owned(), options.to_owned()), answer.to_owned());
        }
    }
    let answer = |tool: &str, verb: &str, options: &str| {
        let found = answers.get(&(tool.to_owned(), verb.to_owned(), options.to_owned()));
        found.map_or(OPEN, String::as_str).to_owned()
    };
    let mut rows = String::new();
    for ((tool, verb), options) in all {
        let of_verb = answer(tool, verb, "");
        rows += &format!("| {tool} | {verb} |  | {of_verb} |\n");
        for option in options.iter().filter(|_| of_verb == TAKEN) {
            let names: Vec<String> = option.iter().map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            rows += &format!("| {tool} | {verb} | {names} | {} |\n", answer(tool, verb, &names));
        }
    }
    let head = text.lines().take_while(|line| !is_row(line));
    let rest = text.lines().skip_while(|line| !is_row(line)).skip_while(|line| is_row(line));
    let lines =
        |lines: &mut dyn Iterator<Item = &str>| lines.map(|line| format!("{line}\n")).collect::<String>();
    lines(&mut head.into_iter()) + &rows + &lines(&mut rest.into_iter())
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_testing::skip;

    /// The folder of the installed manual pages.
    const PAGES: &str = "/usr/share/man/man1";

    /// Compares the rows of some tools with the installed pages.
    fn check(test: &str, tools: &[&str]) {
        let table =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(TABLE)).unwrap();
        for (tool, date) in TOOLS.into_iter().filter(|(tool, _)| tools.contains(tool)) {
            let pages = Path::new(PAGES);
            let found = pages.is_dir().then(|| options_of(pages, tool, date).unwrap()).flatten();
            let Some(options) = found else {
                return skip(test, format!("{PAGES} has no pages of {tool} of Debian 12"));
            };
            let of_tool = |text: &str| -> Vec<String> {
                let is_row = |line: &&str| line.starts_with(&format!("| {tool} |"));
                text.lines().filter(is_row).map(str::to_owned).collect()
            };
            assert_eq!(of_tool(&with_rows(&table, &options)), of_tool(&table), "cargo xtask tool-options");
        }
    }

    #[test]
    fn rows_are_those_of_the_pages_of_ndctl() {
        check("rows_are_those_of_the_pages_of_ndctl", &["cxl", "daxctl", "ndctl"]);
    }

    #[test]
    fn rows_are_those_of_the_pages_of_ipmctl() {
        check("rows_are_those_of_the_pages_of_ipmctl", &["ipmctl"]);
    }

    #[test]
    fn pages_are_parsed() {
        let text = ".TH \"IPMCTL\\-LOAD\\-DIMM\" \"1\" \"2022-09-26\" \"ipmctl\" \"ipmctl\"\n.SH \"SYNOPSIS\"\n.sp\n\
            \\fIipmctl load [OPTIONS] \\-source (path) \\-dimm [TARGETS]\\fP\n.SH \"OPTIONS\"\n.sp\n\
            \\-o (text|nvmxml), \\-output (text|nvmxml)\n.RS 4\nText.\n.RE\n.sp\n\\-k, \\-\\-key_handle=\n.RS 4\n\
            \\-x is no option\n.RE\n.SH \"EXAMPLE\"\n.sp\n\\-y\n.RS 4\n";
        let page = Page::parse(text);
        assert_eq!((page.date.as_str(), page.command().as_str()), ("2022-09-26", "load -dimm"));
        assert_eq!(page.options, [vec!["-o", "-output"], vec!["-k", "--key-handle"]]);
    }

    #[test]
    fn answers_are_kept() {
        let table = "# Head\n\n| tool | verb | option | |\n|---|---|---|---|\n| cxl | a |  | ● |\n| cxl | a | `-x` | ● |\n\
            | cxl | b |  | not emulated at all |\n\nRest\n";
        let option = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let verb = |verb: &str| ("cxl".to_owned(), verb.to_owned());
        let all: Options = [
            (verb("a"), vec![option(&["-x"]), option(&["-y", "--yes"])]),
            (verb("b"), vec![option(&["-z"])]),
        ]
        .into();
        let new = with_rows(table, &all);
        assert_eq!(new, table.replace("| cxl | b", "| cxl | a | `-y`, `--yes` | ? |\n| cxl | b"));
        assert_eq!(
            differences(table, &new).collect::<Vec<_>>(),
            [("| cxl | a | `-y`, `--yes` | ? |", "the table lacks")]
        );
        let none = with_rows(table, &[(verb("a"), Vec::new())].into());
        assert_eq!(differences(table, &none).filter(|(_, what)| *what == "no page has").count(), 2);
    }
}
