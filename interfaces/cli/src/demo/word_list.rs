//! The words that the demo loads.

use crate::failure::Failure;
use lode_kv::escape;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Different words, numbered from 1. The number of a word is the value that it gets.
pub(super) struct WordList {
    words: Vec<Vec<u8>>,
    lines: HashMap<Vec<u8>, usize>,
}

impl WordList {
    pub(super) fn read(path: &Path) -> Result<WordList, Failure> {
        let what = "reading the words (Debian has them in the package wamerican; --words names another list)";
        let text = fs::read(path).map_err(|error| Failure::io(what, path, &error))?;
        let mut lines = HashMap::new();
        let mut words = Vec::new();
        for word in text.split(|byte| *byte == b'\n').filter(|word| !word.is_empty()) {
            if !lines.contains_key(word) {
                words.push(word.to_vec());
                lines.insert(word.to_vec(), words.len());
            }
        }
        if words.is_empty() {
            return Err(Failure::io(what, path, &io::Error::other("there are none")));
        }
        Ok(WordList { words, lines })
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn all(&self) -> &[Vec<u8>] {
        &self.words
    }

    /// Returns the value that the word is loaded with, or `None` if it is not in the list.
    pub(super) fn value(&self, word: &[u8]) -> Option<Vec<u8>> {
        self.lines.get(word).map(|line| line.to_string().into_bytes())
    }

    /// Writes a file with a line for each word: word, TAB, number. Returns the file's path.
    pub(super) fn write_tsv(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let path = folder.join("words.tsv");
        let line = |(word, number): (&Vec<u8>, usize)| format!("{}\t{number}\n", escape(word));
        let text: String = self.words.iter().zip(1..).map(line).collect();
        fs::write(&path, text).map_err(|error| Failure::io("writing the words", &path, &error))?;
        Ok(path)
    }
}
