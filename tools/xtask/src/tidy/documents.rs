//! The rules for documents: links have a target, the map names every crate and files that exist, and the index links
//! every decision.

use super::Finding;
use super::tree::Tree;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

const MAP: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/decisions/";

/// Finds relative links without a target. Links in `src/` are rustdoc's, which checks them itself.
pub(super) fn check_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md").filter(|file| !file.path.contains("/src/")) {
        for (event, range) in Parser::new(&file.text).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
                continue;
            };
            let target = dest_url.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !resolve(&file.path, target).is_some_and(|path| tree.holds(&path)) {
                let line = file.text[..range.start].lines().count().max(1);
                let advice = format!("the link to {target} leads nowhere");
                findings.push(Finding::new(&file.path, line, "links", advice));
            }
        }
    }
    findings
}

/// Returns the path, from the root, of a link in the document at `from`; `None` if it leaves the project.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Finds crates that the map does not name.
pub(super) fn check_map<'a>(tree: &Tree, packages: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let map = tree.get(MAP).map_or("", |file| file.text.as_str());
    let missing = packages.filter(|name| !map.contains(&format!("`{name}`")));
    missing
        .map(|name| Finding::new(MAP, 1, "map", format!("`{name}` is not named here: say what it is")))
        .collect()
}

/// Finds files and folders in code spans of the map that do not exist. Paths start at the root, or in the crate that
/// the section is about.
pub(super) fn check_paths(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.get(MAP) else { return Vec::new() };
    let mut findings = Vec::new();
    let (mut is_heading, mut section) = (false, String::new());
    for (event, range) in Parser::new(&map.text).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                section.clear();
            }
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Code(path) if is_path(&path) => {
                if is_heading && section.is_empty() {
                    section = path.to_string();
                }
                let crate_path = format!("{section}src/{path}");
                if !tree.holds(&path) && (section.is_empty() || !tree.holds(&crate_path)) {
                    let line = map.text[..range.start].matches('\n').count() + 1;
                    let advice = format!("`{path}` is neither in the tree nor in the crate of the section");
                    findings.push(Finding::new(MAP, line, "paths", advice));
                }
            }
            _ => {}
        }
    }
    findings
}

/// Returns true for the path of a source file or of a folder.
fn is_path(span: &str) -> bool {
    let ends = [".rs", ".md", ".toml", ".sh", "/"];
    span.contains('/')
        && !span.contains('*')
        && !span.starts_with('/')
        && ends.iter().any(|end| span.ends_with(end))
}

/// Finds decision pages that their index does not link.
pub(super) fn check_decisions(tree: &Tree) -> Vec<Finding> {
    let index = format!("{DECISIONS}README.md");
    let text = tree.get(&index).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for file in tree.with_extension("md").filter(|file| file.path != index) {
        if let Some(name) = file.path.strip_prefix(DECISIONS)
            && !text.contains(&format!("]({name})"))
        {
            let advice = format!("link it from {index}");
            findings.push(Finding::new(&file.path, 1, "decisions", advice));
        }
    }
    findings
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let text =
            "# A\n[b](docs/b.md#part) [c](docs) [d](https://example.org/x) [e](#a)\n\n[f](docs/f.md)\n";
        let inner = "[a](../a.md) [root](..) [out](../../a.md)\n";
        let tree = Tree::of(&[("a.md", text), ("docs/b.md", inner), ("heap/src/c.md", "[d](crate::d)")]);
        let found: Vec<_> = check_links(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "a.md:3: links: the link to docs/f.md leads nowhere",
                "docs/b.md:1: links: the link to ../../a.md leads nowhere"
            ]
        );
    }

    #[test]
    fn unnamed_crates_are_found() {
        let tree = Tree::of(&[(MAP, "`lode-layout` holds formats; lode-pmem is bare")]);
        let found = check_map(&tree, ["lode-layout", "lode-pmem"].into_iter());
        assert_eq!(found.len(), 1);
        assert!(found[0].advice.contains("lode-pmem"));
    }

    #[test]
    fn missing_paths_are_found() {
        let text = "`log/a.rs`\n\n### `heap/`, crate\n`log/a.rs` `log/b.rs` `heap/src/log/` `/dev/x/`\n\n## Other\n\n`log/a.rs`\n";
        let tree = Tree::of(&[(MAP, text), ("heap/src/log/a.rs", "")]);
        let found: Vec<_> = check_paths(&tree).into_iter().map(|finding| finding.line).collect();
        assert_eq!(found, [1, 4, 8]);
    }

    #[test]
    fn unindexed_decisions_are_found() {
        let index = "[crc](crc.md)";
        let tree = Tree::of(&[
            ("docs/decisions/README.md", index),
            ("docs/decisions/crc.md", ""),
            ("docs/decisions/ring.md", ""),
        ]);
        let found: Vec<_> = check_decisions(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["docs/decisions/ring.md"]);
    }
}
