//! The text of a pool set: poolset(5).
//!
//! ```text
//! PMEMPOOLSET                     exactly, on a line of its own
//! OPTION SINGLEHDR                anywhere after it
//! 100G /mountpoint0/file.part0    a part: size and absolute path
//! # a comment, also after other words
//! REPLICA                         the parts that follow are those of a replica
//! 100G /mountpoint3/mirror.part0
//! ```
//!
//! Lines are read as PMDK reads them, including its order of checks: tests compare the two.

use crate::set_size::parse_size;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The first line of a set file.
const SIGNATURE: &[u8] = b"PMEMPOOLSET";
/// Most bytes that a set file may have.
const LEN_MAX: usize = 16 << 20;
const OPTION: &[u8] = b"OPTION";
const REPLICA: &[u8] = b"REPLICA";

/// The content of a set file. No path in it has been looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFile {
    /// The replicas, the master first. Each has at least one part.
    pub replicas: Vec<Vec<SetPart>>,
    /// True if only the first part of each replica has a header (SINGLEHDR).
    pub has_single_header: bool,
    /// True if no part has a header (NOHDRS).
    pub has_no_headers: bool,
}

/// A line of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPart {
    /// The size in bytes; `None` for that of a device-DAX node (AUTO).
    pub size: Option<u64>,
    /// The file, device-DAX node, or folder of files.
    pub path: PathBuf,
}

/// The reason why a text is no set file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct SetFileError {
    /// Number of the line, from 1; that after the last one if something is missing at the end.
    pub line: usize,
    /// The rule that it breaks.
    #[source]
    pub fault: SetFault,
}

/// Rules of set files that a line can break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetFault {
    /// The first line is another one.
    #[error("the first line must be exactly 'PMEMPOOLSET'")]
    FirstLine,
    /// A line begins with REPLICA and goes on.
    #[error("exactly 'REPLICA' expected")]
    Replica,
    /// A line of a part has more or fewer than two words, or holds a zero byte.
    #[error("invalid token found in the current line; a part is SIZE and PATH, without spaces in them")]
    Token,
    /// A remote replica without its set file.
    #[error("address of remote node and descriptor of remote pool set expected")]
    RemoteExpected,
    /// A remote replica.
    #[error(
        "REPLICA {node} {set}: replicas on other machines are not supported, since PMDK's librpmem is gone; remove the line, or \
         give a local replica"
    )]
    Remote {
        /// The other machine.
        node: String,
        /// Its set file.
        set: String,
    },
    /// A size that is none, or 0.
    #[error("incorrect format of size; write a number with a unit, such as 100M, 2GiB or 4GB")]
    Size,
    /// A relative path of a part.
    #[error("incorrect path (must be an absolute one)")]
    Absolute,
    /// An absolute path of a remote set file.
    #[error("incorrect descriptor (must be a relative path)")]
    Relative,
    /// The set has no part.
    #[error("no pool set parts")]
    NoParts,
    /// A replica has no part.
    #[error("no replica parts")]
    NoReplicaParts,
    /// An unknown option.
    #[error("unknown option; SINGLEHDR and NOHDRS are known")]
    OptionUnknown,
    /// OPTION alone.
    #[error("missing option name")]
    OptionMissing,
    /// The text is too long to be a set file.
    #[error("the file is longer than {LEN_MAX} bytes, which no set file is")]
    TooLong,
}

impl SetFileError {
    /// Returns the message for the set file at this path: PMDK's words, and then ours.
    pub(crate) fn of_file(&self, path: &Path) -> String {
        let (path, line) = (path.display(), self.line);
        match &self.fault {
            fault @ SetFault::Remote { .. } => {
                let words = "the pool set requires a remote replica, but the 'librpmem.so.1' library cannot be loaded";
                format!("{words}; {path}, line {line}: {fault}")
            }
            fault => {
                let text = fault.to_string();
                let (words, remedy) = text.split_once("; ").unwrap_or((&text, "change that line"));
                format!("{path} [{words}:{line}]; {remedy}")
            }
        }
    }
}

impl SetFile {
    /// Most bytes that are read of a set file; a longer one is refused.
    pub const LEN_MAX: usize = LEN_MAX;

    /// Returns true if a file that begins with these bytes is a set file, sound or not.
    pub fn is_announced(start: &[u8]) -> bool {
        start.starts_with(SIGNATURE)
    }

    /// Reads a set file. Never panics, for any content.
    ///
    /// # Errors
    /// Fails with the first line that breaks a rule.
    pub fn parse(text: &[u8]) -> Result<SetFile, SetFileError> {
        let at = |line| move |fault| SetFileError { line, fault };
        if text.len() > LEN_MAX {
            return Err(at(1)(SetFault::TooLong));
        }
        let rest = text.strip_prefix(SIGNATURE).and_then(|rest| rest.strip_prefix(b"\n"));
        let mut rest = rest.ok_or_else(|| at(1)(SetFault::FirstLine))?;
        let mut set = SetFile { replicas: vec![Vec::new()], ..SetFile::default() };
        let mut line = 1;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            line += 1;
            set.add_line(&rest[..end]).map_err(at(line))?;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        set.check_last_replica().map_err(at(line + 1))?;
        Ok(set)
    }

    /// Returns the text of the set file.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = [SIGNATURE, b"\n"].concat();
        for (is_used, name) in [(self.has_single_header, "SINGLEHDR"), (self.has_no_headers, "NOHDRS")] {
            if is_used {
                text.extend_from_slice(format!("OPTION {name}\n").as_bytes());
            }
        }
        for (index, parts) in self.replicas.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(b"REPLICA\n");
            }
            for part in parts {
                let size = part.size.map_or_else(|| "AUTO".to_owned(), |size| size.to_string());
                text.extend_from_slice(size.as_bytes());
                text.push(b' ');
                text.extend_from_slice(part.path.as_os_str().as_bytes());
                text.push(b'\n');
            }
        }
        text
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), SetFault> {
        let text = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        if let Some(options) = text.strip_prefix(OPTION) {
            return self.add_options(options);
        }
        let Some(rest) = text.strip_prefix(REPLICA) else { return self.add_part(text) };
        match rest.first() {
            None => {
                self.check_last_replica()?;
                self.replicas.push(Vec::new());
                Ok(())
            }
            Some(b' ' | b'\t') => Err(remote(rest)),
            Some(_) => Err(SetFault::Replica),
        }
    }

    fn add_options(&mut self, options: &[u8]) -> Result<(), SetFault> {
        let mut names = words(options).peekable();
        if names.peek().is_none() {
            return Err(SetFault::OptionMissing);
        }
        for name in names {
            match name {
                b"SINGLEHDR" => self.has_single_header = true,
                b"NOHDRS" => self.has_no_headers = true,
                _ => return Err(SetFault::OptionUnknown),
            }
        }
        Ok(())
    }

    fn add_part(&mut self, text: &[u8]) -> Result<(), SetFault> {
        let words: Vec<&[u8]> = words(text).collect();
        let [size, path] = words[..] else { return Err(SetFault::Token) };
        if text.contains(&0) {
            return Err(SetFault::Token);
        }
        if !path.starts_with(b"/") {
            return Err(SetFault::Absolute);
        }
        let size = match size {
            b"AUTO" => None,
            size => Some(parse_size(size).filter(|size| *size > 0).ok_or(SetFault::Size)?),
        };
        let part = SetPart { size, path: PathBuf::from(OsStr::from_bytes(path)) };
        if let Some(parts) = self.replicas.last_mut() {
            parts.push(part);
        }
        Ok(())
    }

    /// Checks that the replica that ends here has a part.
    fn check_last_replica(&self) -> Result<(), SetFault> {
        match &self.replicas[..] {
            [first] if first.is_empty() => Err(SetFault::NoParts),
            [.., last] if last.is_empty() => Err(SetFault::NoReplicaParts),
            _ => Ok(()),
        }
    }
}

/// Returns what is wrong with the line of a remote replica: at the latest that it is one.
fn remote(rest: &[u8]) -> SetFault {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    match words(rest).collect::<Vec<_>>()[..] {
        [] | [_] => SetFault::RemoteExpected,
        [_, set] if set.starts_with(b"/") => SetFault::Relative,
        [node, set] => SetFault::Remote { node: text(node), set: text(set) },
        _ => SetFault::Token,
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod test {
    use super::*;

    fn fault(text: &str) -> (usize, SetFault) {
        let error = SetFile::parse(text.as_bytes()).unwrap_err();
        (error.line, error.fault)
    }

    fn part(size: u64, path: &str) -> SetPart {
        SetPart { size: Some(size), path: path.into() }
    }

    #[test]
    fn set_files_are_read() {
        let text =
            "PMEMPOOLSET\nOPTION SINGLEHDR\n2M /a/0 # first\n\n#\n AUTO\t/dev/dax0.0\nREPLICA\n1GiB /b/0";
        let set = SetFile::parse(text.as_bytes()).unwrap();
        let device = SetPart { size: None, path: "/dev/dax0.0".into() };
        let replicas = vec![vec![part(2 << 20, "/a/0"), device], vec![part(1 << 30, "/b/0")]];
        let want = SetFile { replicas, has_single_header: true, has_no_headers: false };
        assert_eq!(set, want);
        assert_eq!(SetFile::parse(&set.to_text()), Ok(want));
        assert!(SetFile::is_announced(text.as_bytes()) && !SetFile::is_announced(b"PMEMPOOLSE"));
    }

    #[test]
    fn broken_rules_are_named_with_their_line() {
        let long = "x".repeat(LEN_MAX + 1);
        for (text, line, want) in [
            ("", 1, SetFault::FirstLine),
            ("PMEMPOOLSET", 1, SetFault::FirstLine),
            (" PMEMPOOLSET\n", 1, SetFault::FirstLine),
            ("PMEMPOOLSET\r\n1M /a\n", 1, SetFault::FirstLine),
            ("PMEMPOOLSET\n", 2, SetFault::NoParts),
            ("PMEMPOOLSET\n# 1M /a\n", 3, SetFault::NoParts),
            ("PMEMPOOLSET\nREPLICA\n2M /a\n", 2, SetFault::NoParts),
            ("PMEMPOOLSET\n2M /a\nREPLICA\n", 4, SetFault::NoReplicaParts),
            ("PMEMPOOLSET\n2M /a\nREPLICA\nREPLICA\n2M /b\n", 4, SetFault::NoReplicaParts),
            ("PMEMPOOLSET\n2M /a\nREPLICAS\n", 3, SetFault::Replica),
            ("PMEMPOOLSET\n2M /a\nREPLICA \n", 3, SetFault::RemoteExpected),
            ("PMEMPOOLSET\n2M /a\nREPLICA node\n", 3, SetFault::RemoteExpected),
            ("PMEMPOOLSET\n2M /a\nREPLICA node /set\n", 3, SetFault::Relative),
            ("PMEMPOOLSET\n2M /a\nREPLICA node a b\n", 3, SetFault::Token),
            ("PMEMPOOLSET\n2M\n", 2, SetFault::Token),
            ("PMEMPOOLSET\n \n", 2, SetFault::Token),
            ("PMEMPOOLSET\n2M /a b\n", 2, SetFault::Token),
            ("PMEMPOOLSET\n2M /a\0b\n", 2, SetFault::Token),
            ("PMEMPOOLSET\n2M a\n", 2, SetFault::Absolute),
            ("PMEMPOOLSET\n2X a\n", 2, SetFault::Absolute),
            ("PMEMPOOLSET\n2X /a\n", 2, SetFault::Size),
            ("PMEMPOOLSET\n0 /a\n", 2, SetFault::Size),
            ("PMEMPOOLSET\nauto /a\n", 2, SetFault::Size),
            ("PMEMPOOLSET\nOPTION\n", 2, SetFault::OptionMissing),
            ("PMEMPOOLSET\nOPTION # SINGLEHDR\n", 2, SetFault::OptionMissing),
            ("PMEMPOOLSET\nOPTION singlehdr\n", 2, SetFault::OptionUnknown),
            (&long, 1, SetFault::TooLong),
        ] {
            assert_eq!(fault(text), (line, want), "{:?}", &text[..text.len().min(60)]);
        }
    }

    #[test]
    fn messages_begin_with_pmdks_words() {
        let message = |text: &str| SetFile::parse(text.as_bytes()).unwrap_err().of_file(Path::new("/set"));
        assert_eq!(
            message("PMEMPOOLSET\n2M a\n"),
            "/set [incorrect path (must be an absolute one):2]; change that line"
        );
        let size = message("PMEMPOOLSET\n2X /a\n");
        assert!(size.starts_with("/set [incorrect format of size:2]; write a number"), "{size}");
        let remote = message("PMEMPOOLSET\n2M /a\nREPLICA host pool.set\n");
        let words =
            "the pool set requires a remote replica, but the 'librpmem.so.1' library cannot be loaded";
        assert!(remote.starts_with(&format!("{words}; /set, line 3: REPLICA host pool.set: ")), "{remote}");
    }

    #[test]
    fn remote_replicas_are_refused_by_name() {
        let (line, error) = fault("PMEMPOOLSET\n2M /a\nREPLICA user@host pool.set\n");
        assert_eq!(line, 3);
        assert_eq!(error, SetFault::Remote { node: "user@host".into(), set: "pool.set".into() });
        assert!(error.to_string().starts_with("REPLICA user@host pool.set: "));
    }
}
