//! Comparison of the output that a page shows with what was printed.

/// Stands for any text in a line, and for any lines if it is a line of its own.
const ANYTHING: char = '…';

/// Returns true if `printed` is what the page shows. `…` in a line stands for any text, and a line `…` for any lines.
pub fn is_as_shown(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), printed.lines().collect());
    lines_match(&shown, &printed)
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim().chars().eq([ANYTHING]) => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        (Some((first, shown)), Some((line, printed))) => {
            let parts: Vec<&str> = first.trim_end().split(ANYTHING).collect();
            line_matches(&parts, line.trim_end()) && lines_match(shown, printed)
        }
        _ => false,
    }
}

/// Returns true if the line has these parts in their order, begins with the first and ends with the last one.
fn line_matches(parts: &[&str], line: &str) -> bool {
    match parts {
        [] => line.is_empty(),
        [only] => line == *only,
        [first, between @ .., last] => {
            let Some(mut left) = line.strip_prefix(first) else { return false };
            for part in between {
                let Some((_, after)) = left.split_once(part) else { return false };
                left = after;
            }
            left.ends_with(last)
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ellipses_stand_for_text_and_lines() {
        for (shown, printed, is_same) in [
            ("a\nb\n", "a\nb\n", true),
            ("a\n", "a\nb\n", false),
            ("a\nb\n", "a\n", false),
            ("a  \n", "a\n", true),
            ("uuid …\n", "uuid 17\n", true),
            ("a … b … c\n", "a 1 b 2 c\n", true),
            ("a … b … c\n", "a 1 c 2 b\n", false),
            ("a…a\n", "a\n", false),
            ("…\nb\n", "a\nb\nb\n", true),
            ("a\n…\n", "a\n", true),
            ("a\n…\nc\n", "a\nb\n", false),
            ("", "a\n", false),
        ] {
            assert_eq!(is_as_shown(shown, printed), is_same, "{shown:?} {printed:?}");
        }
    }
}
