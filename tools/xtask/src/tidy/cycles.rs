//! The rule that the files of a crate do not import each other in a cycle.
//!
//! A path that begins with `crate`, `self` or `super` imports the file that defines the item, also through a re-export.
//! A file that uses the modules below its own imports nothing: they are its parts.

use super::Finding;
use super::excess::LIST;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Token, UseTree};

/// Names from the root of a crate to a module, or to an item in one.
type Path = Vec<String>;

/// Steps from a re-export to the next after which the search for the definition ends.
const STEPS_MAX: u32 = 8;

/// The imports of all crates, each by the folder of its sources.
#[derive(Default)]
pub(super) struct Imports {
    crates: BTreeMap<String, BTreeMap<Path, Module>>,
}

/// A file, as a module.
#[derive(Default)]
struct Module {
    file: String,
    /// The paths that it imports.
    paths: Vec<Path>,
    /// The paths to which its `use` declarations give names.
    names: BTreeMap<String, Path>,
}

impl Imports {
    /// Adds the imports of a file. Files outside of a crate's library or program have none.
    pub(super) fn add(&mut self, source: &Source) {
        let Some((folder, file)) = source.path.split_once("/src/") else { return };
        let Some(path) = module_of(file) else { return };
        let mut walk = Walk { source, place: path.clone(), paths: Vec::new(), names: BTreeMap::new() };
        walk.visit_file(&source.file);
        let module = self.crates.entry(folder.to_owned()).or_default().entry(path).or_default();
        module.file = source.path.clone();
        module.paths.extend(walk.paths);
        module.names.extend(walk.names);
    }

    /// Finds cycles. `listed` has the number of files in cycles for each crate that may have some.
    pub(super) fn check(&self, listed: &BTreeMap<String, usize>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (folder, modules) in &self.crates {
            let cycles = cycles(modules);
            let have: usize = cycles.iter().map(BTreeSet::len).sum();
            let allowed = listed.get(folder).copied().unwrap_or(0);
            if have < allowed {
                let advice =
                    format!("{have} files of {folder} import each other in cycles now: list as many");
                findings.push(Finding::new(LIST, 1, "cycles", advice));
            }
            for cycle in cycles.iter().filter(|_| have > allowed) {
                let files: Vec<&str> = cycle.iter().map(|path| modules[*path].file.as_str()).collect();
                let advice = format!(
                    "imports in a cycle: {}; move the items that they share into a file that imports none of them",
                    files.join(", ")
                );
                findings.push(Finding::new(files[0], 1, "cycles", advice));
            }
        }
        let gone = listed.keys().filter(|folder| !self.crates.contains_key(*folder));
        findings
            .extend(gone.map(|name| Finding::new(LIST, 1, "cycles", format!("{name} is gone: take it off"))));
        findings
    }
}

/// Returns the path of the module in this file of a crate; `None` for programs beside the crate's own.
fn module_of(file: &str) -> Option<Path> {
    let mut path: Path = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    path.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    (path.first().map(String::as_str) != Some("bin")).then_some(path)
}

/// Returns the groups of modules of which each imports all others, directly or not.
fn cycles(modules: &BTreeMap<Path, Module>) -> BTreeSet<BTreeSet<&Path>> {
    let next: BTreeMap<&Path, BTreeSet<&Path>> = modules
        .iter()
        .map(|(path, module)| {
            let homes = module.paths.iter().filter_map(|import| home(modules, import, STEPS_MAX));
            (path, homes.filter(|home| !home.starts_with(path)).collect())
        })
        .collect();
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        next.keys().map(|path| (*path, reach(&next, path))).collect();
    let cycle = |path: &&Path| -> BTreeSet<&Path> {
        reached[*path].iter().filter(|other| reached[**other].contains(*path)).copied().collect()
    };
    next.keys().map(cycle).filter(|cycle| !cycle.is_empty()).collect()
}

/// Returns the module that defines the item at `import`.
fn home<'m>(modules: &'m BTreeMap<Path, Module>, import: &[String], steps: u32) -> Option<&'m Path> {
    let len = (0..=import.len()).rev().find(|len| modules.contains_key(&import[..*len]))?;
    let (path, module) = modules.get_key_value(&import[..len])?;
    let target = import.get(len).and_then(|name| module.names.get(name)).filter(|_| steps > 0);
    match target {
        Some(target) => home(modules, &[target.as_slice(), &import[len + 1..]].concat(), steps - 1),
        None => Some(path),
    }
}

/// Returns the modules that `from` imports, directly or not.
fn reach<'m>(next: &BTreeMap<&'m Path, BTreeSet<&'m Path>>, from: &'m Path) -> BTreeSet<&'m Path> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(path) = waiting.pop() {
        waiting.extend(next[path].iter().filter(|path| reached.insert(**path)));
    }
    reached
}

/// The walk over a file that finds its imports, outside of tests.
struct Walk<'a> {
    source: &'a Source,
    /// The module that encloses the place of the walk.
    place: Path,
    paths: Vec<Path>,
    names: BTreeMap<String, Path>,
}

impl Walk<'_> {
    /// Returns `path` from the root of the crate. A path that begins with another name is one of the enclosing module.
    fn absolute(&self, path: &[String]) -> Path {
        let (mut place, mut rest) = (self.place.clone(), path);
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => place.clear(),
                "super" => drop(place.pop()),
                "self" => {}
                _ => break,
            }
            rest = after;
        }
        [place.as_slice(), rest].concat()
    }

    fn import(&mut self, path: &[String]) {
        let is_ours = path.first().is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()));
        if is_ours && path.len() > 1 {
            self.paths.push(self.absolute(path));
        }
    }

    fn import_tree(&mut self, tree: &UseTree, mut path: Path) {
        let (name, item) = match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.import_tree(&tree.tree, path);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import_tree(tree, path.clone()));
            }
            UseTree::Glob(_) => return self.import(&path),
            UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
            UseTree::Rename(tree) => (tree.rename.to_string(), tree.ident.to_string()),
        };
        let name = if item == "self" { path.last().cloned().unwrap_or(name) } else { name };
        path.extend((item != "self").then_some(item));
        self.import(&path);
        self.names.insert(name, self.absolute(&path));
    }

    fn is_test(&self, item: impl Spanned) -> bool {
        self.source.is_test(item.span().start().line)
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !self.is_test(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.is_test(function) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.place.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.place.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import_tree(&item.tree, Path::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.import(&names);
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // Assertions and similar macros hold expressions; other macros are not checked.
        if let Ok(inside) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            for expression in &inside {
                self.visit_expr(expression);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(files: &[(&str, &str)], listed: &[(&str, usize)]) -> Vec<String> {
        let mut imports = Imports::default();
        for (file, text) in files {
            imports.add(&Source::parse(file, text).unwrap());
        }
        let listed = listed.iter().map(|(folder, count)| ((*folder).to_owned(), *count)).collect();
        imports.check(&listed).iter().map(ToString::to_string).collect()
    }

    /// Returns true if a crate of these texts of `a.rs`, `b.rs` and `lib.rs` has a cycle.
    fn is_found(a: &str, b: &str, lib: &str) -> bool {
        let files = [("x/src/a.rs", a), ("x/src/b.rs", b), ("x/src/lib.rs", lib)];
        !found(&files, &[]).is_empty()
    }

    #[test]
    fn import_cycles_are_found() {
        let files = [
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b/mod.rs", "use super::{c::C, d};"),
            ("x/src/c.rs", ""),
        ];
        assert_eq!(found(&files, &[]), [""; 0]);
        let back = [files[0], files[1], ("x/src/c.rs", "fn f() -> crate::a::A { todo!() }")];
        assert_eq!(
            found(&back, &[]),
            [
                "x/src/a.rs:1: cycles: imports in a cycle: x/src/a.rs, x/src/b/mod.rs, x/src/c.rs; move the items \
                 that they share into a file that imports none of them"
            ]
        );
        assert!(is_found("fn f() { super::b::g() }", "fn g() { assert!(crate::a::f()) }", ""));
    }

    #[test]
    fn re_exports_are_followed() {
        let lib = "pub use a::A;\npub use crate::b::B as C;\n";
        assert!(is_found("use crate::C;", "use crate::A;", lib));
        assert!(!is_found("use crate::C;", "use crate::Other;", lib), "an item of lib.rs");
        assert!(!is_found("use crate::C;", "", lib));
    }

    #[test]
    fn child_modules_and_tests_are_no_imports() {
        assert!(!is_found("", "use super::Item;", "mod b;\nuse b::B;\nstruct Item;"));
        assert!(!is_found("use crate::b::B;", "#[cfg(test)]\nmod test {\n    use crate::a::A;\n}\n", ""));
        assert!(!is_found("use crate::b::B;", "pub(in crate::a) fn f() {}\n", ""));
        assert!(is_found("mod inner {\n    use super::super::b::B;\n}\n", "use super::a::A;", ""));
        assert!(!is_found("mod inner {\n    use super::Item;\n}\n", "use super::a::A;", ""));
    }

    #[test]
    fn listed_cycles_only_shrink() {
        let files = [("x/src/a.rs", "use crate::b::B;"), ("x/src/b.rs", "use crate::a::A;")];
        assert_eq!(found(&files, &[("x", 2)]), [""; 0]);
        assert_eq!(found(&files, &[("x", 1)]).len(), 1);
        assert_eq!(
            found(&files, &[("x", 3)]),
            [
                "tools/xtask/tidy-excess.toml:1: cycles: 2 files of x import each other in cycles now: list as many"
            ]
        );
        assert_eq!(
            found(&files, &[("x", 2), ("y", 2)]),
            ["tools/xtask/tidy-excess.toml:1: cycles: y is gone: take it off"]
        );
    }
}
