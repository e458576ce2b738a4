//! The text that describes a change of a set.
//!
//! ```text
//! LODE-PMDK-CHANGE 1
//! from HIDDEN                     a file, and the part that it becomes: its proof, and the inode number of the file that
//! name PROOF REPLACED PART        it replaces, 0 for none
//! header OLD NEW PART             headers, in hexadecimal digits
//! source CHECKSUM PART
//! remove PROOF PART
//! end CHECKSUM                    of all before this line
//! ```

use crate::file_proof::FileProof;
use crate::set_change::{NamedFile, SetChange};
use lode_layout::{PmdkPartHeader, StoredPmdkHeader, fletcher64};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const SIGNATURE: &str = "LODE-PMDK-CHANGE 1";
const HEADER_LEN: usize = PmdkPartHeader::LEN;

impl SetChange {
    /// Returns the text of the description.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = format!("{SIGNATURE}\n").into_bytes();
        let mut line = |words: &str, path: &Path| {
            text.extend_from_slice(words.as_bytes());
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(b'\n');
        };
        for named in &self.named {
            line("from ", &named.hidden);
            line(&format!("name {} {} ", named.file, named.replaced.unwrap_or(0)), &named.part);
        }
        for (part, old, new) in &self.headers {
            line(&format!("header {} {} ", hex(old), hex(new)), part);
        }
        if let Some((part, state)) = &self.source {
            line(&format!("source {state:016x} "), part);
        }
        for (part, file) in &self.removed {
            line(&format!("remove {file} "), part);
        }
        let end = format!("end {:016x}\n", checksum(&text));
        text.extend_from_slice(end.as_bytes());
        text
    }

    /// Reads a description. `None` if it is none. Never panics, for any content.
    pub fn parse(text: &[u8]) -> Option<SetChange> {
        let body_len = text.strip_suffix(b"\n")?.iter().rposition(|byte| *byte == b'\n')? + 1;
        let (body, end) = text.split_at(body_len);
        if end != format!("end {:016x}\n", checksum(body)).as_bytes() {
            return None;
        }
        let body = body.strip_prefix(SIGNATURE.as_bytes())?.strip_prefix(b"\n")?;
        let mut change = SetChange::default();
        let mut from = None;
        for line in body.strip_suffix(b"\n").into_iter().flat_map(|body| body.split(|byte| *byte == b'\n')) {
            let (word, rest) = cut(line)?;
            match word {
                "from" if from.is_none() => from = Some(path(rest)?),
                "name" => {
                    let (file, rest) = cut(rest)?;
                    let (replaced, rest) = cut(rest)?;
                    let replaced = Some(replaced.parse().ok()?).filter(|number| *number != 0);
                    let (hidden, file) = (from.take()?, FileProof::parse(file)?);
                    change.named.push(NamedFile { hidden, part: path(rest)?, file, replaced });
                }
                "header" => {
                    let (old, rest) = cut(rest)?;
                    let (new, rest) = cut(rest)?;
                    change.headers.push((path(rest)?, unhex(old)?, unhex(new)?));
                }
                "source" if change.source.is_none() => {
                    let (state, rest) = cut(rest)?;
                    change.source = Some((path(rest)?, u64::from_str_radix(state, 16).ok()?));
                }
                "remove" => {
                    let (file, rest) = cut(rest)?;
                    change.removed.push((path(rest)?, FileProof::parse(file)?));
                }
                _ => return None,
            }
        }
        from.is_none().then_some(change)
    }
}

/// Returns the checksum of a text, padded to whole words.
fn checksum(text: &[u8]) -> u64 {
    let mut words = text.to_vec();
    words.resize(text.len().next_multiple_of(4), 0);
    fletcher64(&words)
}

/// Cuts the first word off a line.
fn cut(line: &[u8]) -> Option<(&str, &[u8])> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    Some((str::from_utf8(&line[..end]).ok()?, &line[end + 1..]))
}

fn path(bytes: &[u8]) -> Option<PathBuf> {
    let is_path = bytes.starts_with(b"/") && !bytes.contains(&0);
    is_path.then(|| PathBuf::from(OsStr::from_bytes(bytes)))
}

fn hex(header: &StoredPmdkHeader) -> String {
    header.bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<StoredPmdkHeader> {
    let digits = text.as_bytes();
    if digits.len() != 2 * HEADER_LEN {
        return None;
    }
    let mut bytes = [0; HEADER_LEN];
    for (byte, digits) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(StoredPmdkHeader::new(bytes))
}

#[cfg(test)]
mod test {
    use super::*;

    fn sample() -> SetChange {
        let header = |byte| StoredPmdkHeader::new([byte; HEADER_LEN]);
        let named = |hidden: &str, part: &str, uuids, replaced| NamedFile {
            hidden: hidden.into(),
            part: part.into(),
            file: FileProof { ino: 9, uuids },
            replaced,
        };
        SetChange {
            named: vec![
                named("/a/.b", "/a/b", Some([1, u128::MAX]), None),
                named("/a/.c d", "/a/c d", None, Some(5)),
            ],
            headers: vec![("/a/e".into(), header(1), header(0xfe))],
            removed: vec![("/a/f".into(), FileProof { ino: 77, uuids: Some([7, 8]) })],
            source: Some(("/a/g".into(), 88)),
        }
    }

    #[test]
    fn descriptions_round_trip() {
        for change in [sample(), SetChange::default()] {
            assert_eq!(SetChange::parse(&change.to_text()), Some(change));
        }
    }

    #[test]
    fn torn_description_is_none() {
        let text = sample().to_text();
        for len in 0..text.len() {
            assert_eq!(SetChange::parse(&text[..len]), None, "{len}");
        }
        for at in (0..text.len()).step_by(7) {
            let mut text = text.clone();
            text[at] ^= 1;
            assert_eq!(SetChange::parse(&text), None, "{at}");
        }
    }

    #[test]
    fn relative_paths_and_unknown_lines_are_refused() {
        for body in [
            "name 1:- 0 /a\n",
            "from /a\n",
            "from a\nname 1:- 0 /b\n",
            "from /a\nname 1 0 /b\n",
            "from /a\nname 01:- 0 /b\n",
            "from /a\nname 1:- x /b\n",
            "remove x /a\n",
            "remove 1:00 /a\n",
            "other /a\n",
            "header 00 00 /a\n",
            "\n",
        ] {
            let body = format!("{SIGNATURE}\n{body}").into_bytes();
            let end = format!("end {:016x}\n", checksum(&body)).into_bytes();
            assert_eq!(
                SetChange::parse(&[body.clone(), end].concat()),
                None,
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
    }
}
