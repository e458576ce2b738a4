//! The rules that unsafe code stands only where the workspace allows it, and that each block has a SAFETY comment.

use super::Finding;
use super::source::Source;
use super::tree::Tree;
use crate::workspace::Workspace;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Finds unsafe code where it is not allowed, and missing SAFETY comments.
pub(super) fn check(source: &Source, allowed: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !allowed.iter().any(|place| covers(place, &source.path)) {
        let advice =
            "unsafe code is not allowed here: `workspace.metadata.unsafe` of Cargo.toml lists where it is";
        findings.extend(
            source.unsafe_lines.iter().map(|line| Finding::new(&source.path, *line, "unsafe", advice)),
        );
    }
    let mut blocks = Blocks { lines: Vec::new() };
    blocks.visit_file(&source.file);
    blocks.lines.sort_unstable();
    let mut first = 1;
    for line in blocks.lines {
        // One comment covers one block: the search ends at the block before.
        if !source.is_tagged("SAFETY:", line, first, usize::MAX) {
            let advice = "no SAFETY comment above: list what the callee requires and why it holds";
            findings.push(Finding::new(&source.path, line, "safety", advice));
        }
        first = line + 1;
    }
    findings
}

/// Returns true if the place, a file or a folder that ends in `/`, covers the path.
fn covers(place: &str, path: &str) -> bool {
    place == path || (place.ends_with('/') && path.starts_with(place))
}

/// Finds crates that may hold no unsafe code and do not forbid it.
pub(super) fn check_roots(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let folder = format!("{}/", package.folder.display());
        if workspace.rules.unsafe_code.allowed.iter().any(|place| place.starts_with(&folder)) {
            continue;
        }
        for root in ["src/lib.rs", "src/main.rs"] {
            let root = tree.get(&format!("{folder}{root}"));
            findings.extend(root.filter(|file| !file.text.contains("#![forbid(unsafe_code)]")).map(|file| {
                Finding::new(
                    &file.path,
                    1,
                    "unsafe",
                    "the crate holds no unsafe code: add #![forbid(unsafe_code)]",
                )
            }));
        }
    }
    findings
}

/// The lines of unsafe blocks and of unsafe implementations.
struct Blocks {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for Blocks {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.lines.push(block.unsafe_token.span().start().line);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = &item.unsafety {
            self.lines.push(token.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::workspace::{Allowed, Package, Rules};

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let allowed = ["pmem/src/".to_owned(), "heap/src/ptr.rs".to_owned()];
        let findings = check(&Source::parse(path, text).unwrap(), &allowed);
        findings.iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    const ARGUED: &str = "fn f() {\n    // SAFETY: - g needs nothing.\n    unsafe { g() };\n}\n";

    #[test]
    fn unsafe_code_outside_allowed_files_is_found() {
        assert_eq!(found("pmem/src/copy.rs", ARGUED), []);
        assert_eq!(found("heap/src/ptr.rs", ARGUED), []);
        assert_eq!(found("heap/src/ptr.rs.rs", ARGUED), [(3, "unsafe")]);
        assert_eq!(found("pmem/tests/map.rs", ARGUED), [(3, "unsafe")]);
        assert_eq!(found("heap/src/heap.rs", "macro_rules! m { () => { unsafe { g() } } }"), [(1, "unsafe")]);
        assert_eq!(found("heap/src/heap.rs", "#![forbid(unsafe_code)]"), []);
    }

    #[test]
    fn each_unsafe_block_needs_safety_comment() {
        let bare = "fn f() {\n    unsafe { g() };\n}\n";
        assert_eq!(found("pmem/src/a.rs", bare), [(2, "safety")]);
        let shared = "fn f() {\n    // SAFETY: - both.\n    unsafe { g() };\n    unsafe { g() };\n}\n";
        assert_eq!(found("pmem/src/a.rs", shared), [(4, "safety")]);
        assert_eq!(found("pmem/src/a.rs", "unsafe impl Send for A {}\n"), [(1, "safety")]);
        assert_eq!(found("pmem/src/a.rs", "// SAFETY: - no pointer.\nunsafe impl Send for A {}\n"), []);
    }

    #[test]
    fn missing_forbid_unsafe_code_is_found() {
        let package = |name: &str| Package { name: name.into(), folder: name.into(), ..Package::default() };
        let rules = Rules { unsafe_code: Allowed { allowed: vec!["pmem/src/".into()] }, ..Rules::default() };
        let packages = ["pmem", "pool", "sim"].map(package).into();
        let workspace = Workspace { packages, rules, ..Workspace::default() };
        let tree = Tree::of(&[
            ("pmem/src/lib.rs", ""),
            ("pool/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("sim/src/lib.rs", "#![deny(unsafe_code)]"),
        ]);
        let found: Vec<_> = check_roots(&tree, &workspace).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["sim/src/lib.rs"]);
    }
}
