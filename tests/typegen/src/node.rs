//! The content of a pool as text, which the programs and the model share.

use std::fmt;

/// A value, or a list of nodes. Types give it its meaning.
///
/// | type | node |
/// |---|---|
/// | number, `bool`, `char`, text | its text |
/// | enum | a list: the variant's name, its fields |
/// | struct, tuple, array | a list of its parts |
/// | `Option`, box | a list of none or one |
/// | vector, queue, vector of boxes | a list of its elements |
/// | map, hash map | a list of pairs, sorted by their text |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A value.
    Leaf(String),
    /// A list.
    List(Vec<Node>),
}

impl Node {
    /// Returns the leaf with the text of a value.
    pub fn leaf(value: impl fmt::Display) -> Node {
        Node::Leaf(value.to_string())
    }

    /// Returns the list of a variant's name and its fields.
    pub fn variant(name: &str, fields: impl IntoIterator<Item = Node>) -> Node {
        Node::List(std::iter::once(Node::leaf(name)).chain(fields).collect())
    }

    /// Returns the list of these entries, sorted by their text.
    pub fn sorted(mut entries: Vec<Node>) -> Node {
        entries.sort_by_cached_key(Node::to_string);
        Node::List(entries)
    }

    /// Returns the text of a leaf.
    ///
    /// # Panics
    /// Panics if the node is a list.
    pub fn text(&self) -> &str {
        match self {
            Node::Leaf(text) => text,
            Node::List(_) => panic!("a list where a value is wanted: {self}"),
        }
    }

    /// Returns the nodes of a list.
    ///
    /// # Panics
    /// Panics if the node is a leaf.
    pub fn list(&self) -> &[Node] {
        match self {
            Node::List(nodes) => nodes,
            Node::Leaf(_) => panic!("a value where a list is wanted: {self}"),
        }
    }

    /// Returns the node that a text is; `None` if it is none.
    pub fn parse(text: &str) -> Option<Node> {
        let mut rest = text.trim_end();
        let node = parse_first(&mut rest)?;
        rest.is_empty().then_some(node)
    }
}

/// Parses the node with which `rest` begins, and advances it past the node.
fn parse_first(rest: &mut &str) -> Option<Node> {
    if let Some(mut inner) = rest.strip_prefix('(') {
        let mut nodes = Vec::new();
        loop {
            inner = inner.trim_start_matches(' ');
            if let Some(after) = inner.strip_prefix(')') {
                *rest = after;
                return Some(Node::List(nodes));
            }
            nodes.push(parse_first(&mut inner)?);
        }
    }
    let (escaped, after) = rest.strip_prefix('"')?.split_once('"')?;
    *rest = after;
    let mut parts = escaped.split("\\u{");
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, plain) = part.split_once('}')?;
        text.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        text += plain;
    }
    Some(Node::Leaf(text))
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Leaf(text) => {
                f.write_str("\"")?;
                for char in text.chars() {
                    match char {
                        ' '..='~' if !matches!(char, '"' | '\\') => write!(f, "{char}")?,
                        _ => write!(f, "{}", char.escape_unicode())?,
                    }
                }
                f.write_str("\"")
            }
            Node::List(nodes) => {
                f.write_str("(")?;
                for (index, node) in nodes.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { " " })?;
                    write!(f, "{node}")?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::Node;

    #[test]
    fn texts_of_nodes_round_trip() {
        let node = Node::List(vec![
            Node::leaf("a \"quoted\" \\ (text)\n\u{e9}\u{1f9f2}"),
            Node::List(Vec::new()),
            Node::variant("Some", [Node::leaf(-7), Node::leaf(""), Node::leaf(1.5)]),
        ]);
        let text = node.to_string();
        assert!(text.is_ascii(), "{text}");
        assert_eq!(Node::parse(&text), Some(node));
        for broken in ["", "(", "\"a", "()()", "\"\\u{x}\"", "a"] {
            assert_eq!(Node::parse(broken), None, "{broken}");
        }
    }
}
