//! Parser of ipmctl's listings as XML (`-o nvmxml`): elements with text, without attributes.

use super::entry::{Entry, Located};
use super::error::ListingFault;

/// Greatest depth of elements. ipmctl has four.
const DEPTH_MAX: usize = 16;

#[derive(Default)]
struct Element {
    name: String,
    line: usize,
    text: String,
    children: Vec<Element>,
}

/// Returns the objects of the document at the start of these lines, and the number of its lines. `first` is the number
/// of the first line.
pub(super) fn entries(lines: &[&str], first: usize) -> Result<(Vec<Entry>, usize), Located> {
    let mut open: Vec<Element> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let number = first + index;
        let fault = |what| (number, ListingFault::Xml { what });
        let mut rest = *line;
        while let Some((text, tagged)) = rest.split_once('<') {
            append(&mut open, text);
            let (tag, after) = tagged.split_once('>').ok_or_else(|| fault("a tag without an end"))?;
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                let element = open.pop().filter(|element| element.name == name.trim());
                let element = element.ok_or_else(|| fault("an end tag without its start tag"))?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => {
                        let mut entries = Vec::new();
                        collect(&element, &[], &mut entries);
                        return Ok((entries, index + 1));
                    }
                }
            } else if !tag.starts_with(['?', '!']) {
                if tag.is_empty()
                    || !tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
                {
                    return Err(fault("a tag that is not one of ipmctl"));
                }
                if open.len() == DEPTH_MAX {
                    return Err(fault("elements inside of others, deeper than ipmctl has"));
                }
                open.push(Element { name: tag.to_owned(), line: number, ..Element::default() });
            }
        }
        append(&mut open, rest);
    }
    let last = first + lines.len() - 1;
    Err((last, ListingFault::Xml { what: "the end tag of the document is missing" }))
}

fn append(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text += text;
    }
}

/// Adds the objects: elements with values, those of the objects around them before their own.
fn collect(element: &Element, around: &[(String, String)], entries: &mut Vec<Entry>) {
    let (parts, values): (Vec<_>, Vec<_>) =
        element.children.iter().partition(|child| !child.children.is_empty());
    let values = values.into_iter().map(|child| (child.name.clone(), unescaped(child.text.trim())));
    let all: Vec<_> = around.iter().cloned().chain(values).collect();
    if all.len() > around.len() {
        entries.push(Entry { line: element.line, values: all.clone() });
    }
    parts.into_iter().for_each(|part| collect(part, &all, entries));
}

fn unescaped(text: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    signs.into_iter().fold(text.to_owned(), |text, (name, sign)| text.replace(name, sign))
}
