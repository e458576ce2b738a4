//! Cells with a character and an ink.

use super::plain::plain;

/// Colours of pictures on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Characters without colours.
    #[default]
    Plain,
    /// Colours of the terminal.
    Colour,
}

/// Style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ink {
    #[default]
    Text,
    Frame,
    Strong,
    Quiet,
    Memory,
    Persistent,
    Used,
    Alarm,
}

impl Ink {
    /// Returns the terminal codes of the style.
    fn code(self) -> &'static str {
        match self {
            Ink::Text => "0",
            Ink::Frame | Ink::Quiet => "2",
            Ink::Strong => "1",
            Ink::Memory => "33",
            Ink::Persistent => "34",
            Ink::Used => "36",
            Ink::Alarm => "1;31",
        }
    }
}

/// A grid of cells, which grows downwards.
pub(super) struct Canvas {
    width: usize,
    lines: Vec<Vec<(char, Ink)>>,
}

/// Content of the second cell of a wide character.
const WIDE_TAIL: char = '\0';

impl Canvas {
    pub(super) fn new(width: usize) -> Canvas {
        Canvas { width, lines: Vec::new() }
    }

    /// Returns the number of lines.
    pub(super) fn height(&self) -> usize {
        self.lines.len()
    }

    /// Writes a text, cut to `room` cells. Returns the number of cells that it takes.
    pub(super) fn put(&mut self, x: usize, y: usize, room: usize, text: &str, ink: Ink) -> usize {
        while self.lines.len() <= y {
            self.lines.push(vec![(' ', Ink::Text); self.width]);
        }
        let room = room.min(self.width.saturating_sub(x));
        let mut taken = 0;
        for (character, cells) in fitting(text, room) {
            self.lines[y][x + taken] = (character, ink);
            if cells == 2 {
                self.lines[y][x + taken + 1] = (WIDE_TAIL, ink);
            }
            taken += cells;
        }
        taken
    }

    /// Writes a text that continues on the next lines, from the column `indent` on, if it is longer than `room` cells.
    /// It is divided between words, or within words that are too long. Returns the cell after the end.
    pub(super) fn fold(
        &mut self,
        (mut x, mut y): (usize, usize),
        indent: usize,
        room: usize,
        text: &str,
        ink: Ink,
    ) -> (usize, usize) {
        let end = x + room;
        let mut rest = text;
        loop {
            let (line, others) = split(rest, end.saturating_sub(x), x <= indent);
            x += self.put(x, y, end.saturating_sub(x), line, ink);
            rest = others;
            if rest.is_empty() {
                return (x, y);
            }
            (x, y) = (indent, y + 1);
        }
    }

    /// Writes the same character into `count` cells.
    pub(super) fn fill(&mut self, x: usize, y: usize, count: usize, character: char, ink: Ink) {
        self.put(x, y, count, &character.to_string().repeat(count), ink);
    }

    /// Draws a box of `width` times `height` cells.
    pub(super) fn frame(&mut self, x: usize, y: usize, width: usize, height: usize, ink: Ink) {
        if width < 2 || height < 2 {
            return;
        }
        let line = "─".repeat(width - 2);
        self.put(x, y, width, &format!("┌{line}┐"), ink);
        self.put(x, y + height - 1, width, &format!("└{line}┘"), ink);
        for row in y + 1..y + height - 1 {
            self.put(x, row, 1, "│", ink);
            self.put(x + width - 1, row, 1, "│", ink);
        }
    }

    /// Returns the text, without spaces at the ends of lines.
    pub(super) fn text(&self, palette: Palette) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let end = line.iter().rposition(|(character, _)| *character != ' ').map_or(0, |last| last + 1);
            let mut ink = Ink::Text;
            for (character, own) in line[..end].iter().filter(|(character, _)| *character != WIDE_TAIL) {
                if palette == Palette::Colour && *own != ink && *character != ' ' {
                    text += &format!("\x1b[0;{}m", own.code());
                    ink = *own;
                }
                text.push(*character);
            }
            text += if ink == Ink::Text { "\n" } else { "\x1b[0m\n" };
        }
        text
    }
}

/// Returns the characters that fit, each with its cells. A cut text ends with `…`.
fn fitting(text: &str, room: usize) -> Vec<(char, usize)> {
    let all: Vec<(char, usize)> = plain(text).chars().map(|one| (one, width(one))).collect();
    let cells = |part: &[(char, usize)]| part.iter().map(|(_, cells)| cells).sum::<usize>();
    if cells(&all) <= room {
        return all;
    }
    let mut kept = all;
    while !kept.is_empty() && cells(&kept) + 1 > room {
        kept.pop();
    }
    if room > 0 {
        kept.push(('…', 1));
    }
    kept
}

/// Divides a text after as many words as fit into `room` cells. A word is divided if it is the first and `is_first` is
/// true.
fn split(text: &str, room: usize, is_first: bool) -> (&str, &str) {
    if cells(text) <= room {
        return (text, "");
    }
    let mut taken = 0;
    let fits = |one: &char| {
        taken += width(*one);
        taken <= room
    };
    let end: usize = text.chars().take_while(fits).map(char::len_utf8).sum();
    let is_between = text[end..].starts_with(' ');
    let words = if is_between { end } else { text[..end].rfind(' ').unwrap_or(0) };
    let words = text[..words].trim_end_matches(' ').len();
    let at = match words {
        // A line holds a character at least, however wide it is.
        0 if is_first => end.max(text.chars().next().map_or(0, char::len_utf8)),
        words => words,
    };
    (&text[..at], text[at..].trim_start_matches(' '))
}

fn width(character: char) -> usize {
    if is_wide(character) { 2 } else { 1 }
}

/// Returns the number of cells of a text.
pub(super) fn cells(text: &str) -> usize {
    fitting(text, usize::MAX).iter().map(|(_, cells)| cells).sum()
}

/// Returns true if a character takes two cells: East Asian scripts and pictographs.
fn is_wide(character: char) -> bool {
    matches!(
        character,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}'
            | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}'
    )
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn text_is_truncated_by_cell_width() {
        let mut canvas = Canvas::new(8);
        assert_eq!(canvas.put(0, 0, 4, "abcdef", Ink::Text), 4);
        assert_eq!(canvas.put(4, 0, 9, "漢字漢字", Ink::Text), 3);
        assert_eq!(canvas.put(7, 1, 9, "xy", Ink::Alarm), 1);
        assert_eq!(canvas.text(Palette::Plain), "abc…漢…\n       …\n");
        assert_eq!(canvas.text(Palette::Colour), "abc…漢…\n       \x1b[0;1;31m…\x1b[0m\n");
        assert_eq!((cells("漢a"), canvas.height()), (3, 2));
    }

    #[test]
    fn long_text_continues_on_the_next_line() {
        let fold = |at, indent, room, text| {
            let mut canvas = Canvas::new(10);
            let end = canvas.fold(at, indent, room, text, Ink::Text);
            (canvas.text(Palette::Plain), end)
        };
        let text = |text: &str, end: (usize, usize)| (text.to_owned(), end);
        assert_eq!(fold((0, 0), 2, 10, "one two"), text("one two\n", (7, 0)));
        assert_eq!(fold((0, 0), 2, 10, "one two  three"), text("one two\n  three\n", (7, 1)));
        assert_eq!(fold((0, 0), 2, 10, "onetwo three"), text("onetwo\n  three\n", (7, 1)));
        assert_eq!(fold((0, 0), 1, 9, "abcdefghijklmn"), text("abcdefghi\n jklmn\n", (6, 1)));
        assert_eq!(fold((6, 0), 1, 4, "  abcd efg"), text("\n abcd efg\n", (9, 1)));
        assert_eq!(fold((0, 0), 0, 3, "漢字漢"), text("漢\n字\n漢\n", (2, 2)));
        assert_eq!(fold((9, 0), 9, 1, "漢字"), text("         …\n         …\n", (10, 1)));
        assert_eq!(fold((0, 0), 2, 10, ""), text("\n", (0, 0)));
        let name = "a\u{1b}b";
        assert_eq!(fold((0, 0), 2, 10, name), text("a\u{fffd}b\n", (3, 0)));
    }
}
