//! A drawing of a media format is compared with the bytes by a test, or it is not there.

use super::Finding;
use super::tree::Tree;

/// The test that compares drawings with `offset_of!`.
const TEST: &str = "layout/tests/drawings.rs";

/// Drawings of `lode-layout` that the test does not read.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let test = tree.get(TEST).map_or("", |file| file.text.as_str());
    let drawings = tree.with_extension("md").filter(|file| file.path.starts_with("layout/src/"));
    let unread =
        drawings.filter(|file| file.path.rsplit('/').next().is_some_and(|name| !test.contains(name)));
    let advice = format!("no test compares this drawing with the bytes: name it in {TEST}");
    unread.map(|file| Finding::new(&file.path, 1, "drawings", advice.clone())).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_drawing_is_read_by_the_test() {
        let test = (TEST, "include_str!(\"../src/header.md\")");
        let tree = Tree::of(&[test, ("layout/src/header.md", ""), ("layout/src/slot.md", "")]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["layout/src/slot.md"]);
        assert_eq!(check(&Tree::of(&[("layout/src/header.md", "")])).len(), 1, "no test at all");
    }
}
