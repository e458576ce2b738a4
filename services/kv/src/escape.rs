//! Bytes as text that holds no TAB and no newline.

use crate::line_error::LineError;

/// Returns `bytes` as text: `\t`, `\n`, `\\`, and `\xHH` for each byte of other control characters and for bytes that are
/// not UTF-8.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\\' => text.push_str("\\\\"),
                char if char.is_control() => push_char_hex(&mut text, char),
                char => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            push_hex(&mut text, *byte);
        }
    }
    text
}

/// Returns `bytes` as [`escape`] does, with `\xHH` for white space at both ends, too: it can't be told from what is
/// beside the text.
pub fn escape_word(bytes: &[u8]) -> String {
    let text = escape(bytes);
    let inner = text.trim();
    let start = text.len() - text.trim_start().len();
    let mut word = String::with_capacity(text.len());
    for char in text[..start].chars() {
        push_char_hex(&mut word, char);
    }
    word.push_str(inner);
    for char in text[start + inner.len()..].chars() {
        push_char_hex(&mut word, char);
    }
    word
}

fn push_char_hex(text: &mut String, char: char) {
    for byte in char.encode_utf8(&mut [0; 4]).bytes() {
        push_hex(text, byte);
    }
}

fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("\\x");
    for digit in [byte >> 4, byte & 0xF] {
        text.push(DIGITS[digit as usize] as char);
    }
}

/// Returns the bytes that `text` stands for. Characters that need no escape may still be escaped.
///
/// # Errors
/// [`LineError::Escape`]: a backslash that begins no escape.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, LineError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte != b'\\' {
            bytes.push(*byte);
            at += 1;
            continue;
        }
        let (byte, len) = escaped(&text[at + 1..]).ok_or(LineError::Escape { at })?;
        bytes.push(byte);
        at += 1 + len;
    }
    Ok(bytes)
}

/// Returns the byte that an escape stands for, and the length of the escape after its backslash. `rest` begins there.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| (*rest.get(at)? as char).to_digit(16);
    Some(match rest.first()? {
        b't' => (b'\t', 1),
        b'n' => (b'\n', 1),
        b'\\' => (b'\\', 1),
        b'x' => ((digit(1)? * 16 + digit(2)?) as u8, 3),
        _ => return None,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn escaped_bytes_round_trip() {
        for low in 0..=255u8 {
            for bytes in [vec![low], vec![low, b'x', low], vec![0xC3, low], vec![b'\\', low, b'4']] {
                let text = escape(&bytes);
                assert!(!text.contains(['\t', '\n', '\r', '\0']), "{text:?}");
                assert_eq!(unescape(text.as_bytes()), Ok(bytes));
            }
        }
        assert_eq!(escape("étude\tä\\".as_bytes()), "étude\\tä\\\\");
        assert_eq!(escape(b"\xFF\x01"), "\\xff\\x01");
    }

    #[test]
    fn escaped_characters_round_trip() {
        for char in ('\0'..='\u{2100}').chain(['\u{3000}', '\u{10FFFF}']) {
            for text in [format!("{char}"), format!(" {char} x {char}{char}"), format!("\\{char}4")] {
                for escaped in [escape(text.as_bytes()), escape_word(text.as_bytes())] {
                    assert!(!escaped.contains(char::is_control), "{escaped:?}");
                    assert_eq!(unescape(escaped.as_bytes()), Ok(text.clone().into_bytes()), "{escaped:?}");
                }
                let word = escape_word(text.as_bytes());
                assert_eq!(word, word.trim());
            }
        }
        assert_eq!(escape("a\u{85}".as_bytes()), "a\\xc2\\x85");
        assert_eq!(escape_word(" a b\u{3000}".as_bytes()), "\\x20a b\\xe3\\x80\\x80");
        assert_eq!(escape_word(b"  "), "\\x20\\x20");
    }

    #[test]
    fn invalid_escapes_are_reported_with_offset() {
        for (text, at) in [("\\", 0), ("ab\\q", 2), ("\\x", 0), ("\\x4", 0), ("\\n\\xg0", 2), ("\\x+1", 0)] {
            assert_eq!(unescape(text.as_bytes()), Err(LineError::Escape { at }), "{text}");
        }
        assert_eq!(unescape(b"\\x41\\xfF"), Ok(b"A\xFF".to_vec()));
    }
}
