//! The rules for names and marks: banned words, uninformative names, and marks without an issue.

use super::Finding;
use super::source::Source;
use super::tree::{Text, Tree};
use syn::visit::{self, Visit};

/// Words that promise durability without its kind. Store, flush, drain and persist name it.
const BANNED: [&str; 4] = ["save", "saved", "barrier", "barriers"];
/// A word for a call of the kernel. No function of ours may promise it: see `BANNED`.
const KERNEL: &str = "sync";
/// File names that do not describe the content.
const EMPTY: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "misc", "manager"];
/// Kinds of files that are code.
const CODE: [&str; 6] = [".rs", ".sh", ".c", ".h", ".toml", "Makefile"];
// Split, so that the rule does not find them in this file.
const FIX_MARK: &str = concat!("FIX", "ME");
const DO_MARK: &str = concat!("TO", "DO");

/// Finds definitions whose names hold a banned word.
pub(super) fn check_names(source: &Source, allowed: &[String]) -> Vec<Finding> {
    let mut names = Names { found: Vec::new() };
    names.visit_file(&source.file);
    let mut findings = Vec::new();
    for (ident, is_function) in names.found {
        let (name, line) = (ident.to_string(), ident.span().start().line);
        let words = words(&name);
        let promise = words.first().filter(|word| is_function && *word == KERNEL);
        let word = promise.or_else(|| words.iter().find(|word| BANNED.contains(&word.as_str())));
        if let Some(word) = word.filter(|_| !allowed.contains(&name) && !source.is_test(line)) {
            let advice =
                format!("`{name}` says {word}: say store, flush, drain, persist, visible or durable");
            findings.push(Finding::new(&source.path, line, "words", advice));
        }
    }
    findings
}

/// Returns the words of a name in any case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character != '_') {
            word.extend(character.to_lowercase());
        }
        after_lower = character.is_lowercase();
    }
    words
}

/// The names of definitions, each with true if it is a function's.
struct Names {
    found: Vec<(syn::Ident, bool)>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.found.push((signature.ident.clone(), true));
        visit::visit_signature(self, signature);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.found.push((item.ident.clone(), false));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.found.push((item.ident.clone(), false));
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.found.push((item.ident.clone(), false));
        visit::visit_item_trait(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.found.push((item.ident.clone(), false));
        visit::visit_item_const(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.found.extend(field.ident.clone().map(|ident| (ident, false)));
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.found.push((variant.ident.clone(), false));
        visit::visit_variant(self, variant);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.found.push((pattern.ident.clone(), false));
        visit::visit_pat_ident(self, pattern);
    }
}

/// Finds files with empty names, and marks in code.
pub(super) fn check_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let stems = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
        if let Some(name) = stems.into_iter().find(|stem| EMPTY.contains(stem)) {
            let advice = format!("`{name}` names nothing: name the file after the one noun that it holds");
            findings.push(Finding::new(&file.path, 1, "names", advice));
        }
        if CODE.iter().any(|kind| file.path.ends_with(kind)) {
            findings.extend(check_marks(file));
        }
    }
    findings
}

fn check_marks(file: &Text) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let has = |mark: &str| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == mark);
        if has(FIX_MARK) {
            let advice = format!("{FIX_MARK}: do it now");
            findings.push(Finding::new(&file.path, index + 1, "marks", advice));
        }
        let numbered = line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if has(DO_MARK) && !numbered {
            let advice =
                format!("{DO_MARK} without the number of an issue: do it now, or write {DO_MARK}(#12)");
            findings.push(Finding::new(&file.path, index + 1, "marks", advice));
        }
    }
    findings
}

#[cfg(test)]
mod test {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let source = Source::parse("a.rs", text).unwrap();
        let findings = check_names(&source, &["SaveGame".to_owned()]);
        findings.iter().filter_map(|finding| finding.advice.split('`').nth(1).map(str::to_owned)).collect()
    }

    #[test]
    fn ambiguous_durability_names_are_found() {
        let text = "struct SaveState { saved: u8 } enum E { WriteBarrier } fn save_all(barrier: u8) { let save_at = 1; }
                    const LAST_SAVE: u8 = 0; trait Save {} fn sync() {} fn sync_all() {}";
        let mut expected = [
            "SaveState",
            "saved",
            "WriteBarrier",
            "save_all",
            "barrier",
            "save_at",
            "LAST_SAVE",
            "Save",
            "sync",
            "sync_all",
        ]
        .map(str::to_owned);
        let mut names = names(text);
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn kernel_sync_names_are_allowed() {
        assert!(
            names("struct SyncError; fn fdatasync() {} fn msync() {} fn map_sync(synced: u8) {}").is_empty()
        );
        assert!(
            names("fn f() { file.sync_all(); save(); } use std::sync::Arc; fn asynchronous() {}").is_empty()
        );
        assert!(
            names("struct SaveGame; #[cfg(test)] mod test { fn saves_and_syncs(save: u8) {} }").is_empty()
        );
    }

    #[test]
    fn uninformative_file_names_are_found() {
        let tree = Tree::of(&[("heap/src/utils.rs", ""), ("misc/a.rs", ""), ("heap/src/commons.rs", "")]);
        let found: Vec<_> = check_files(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["heap/src/utils.rs", "misc/a.rs"]);
    }

    #[test]
    fn marks_without_issue_numbers_are_found() {
        let text = format!("// {FIX_MARK}: a\n// {DO_MARK}: b\n// {DO_MARK}(#12): c\n// {DO_MARK}S\n");
        let tree = Tree::of(&[("a.rs", &text), ("a.md", &text)]);
        let found: Vec<_> =
            check_files(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(found, [("a.rs".into(), 1), ("a.rs".into(), 2)]);
    }
}
