//! The rules of CONTRIBUTING.md that no other tool checks.

mod costs;
mod cycles;
mod documents;
mod excess;
mod figures;
mod format_tables;
mod language;
mod layers;
mod members;
mod modules;
mod mutants;
mod order;
mod packages;
mod release;
mod rules;
mod size;
mod source;
mod tree;
mod unsafety;
mod words;

use crate::log::Log;
use crate::workspace::Workspace;
use anyhow::Result;
use source::Source;
use std::fmt;
use tree::Tree;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path relative to the root of the workspace.
    path: String,
    /// Number of the line, from 1.
    line: usize,
    rule: &'static str,
    /// Description of the fault, and the remedy.
    advice: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

/// Checks all rules, and prints the places that break them. Returns true if there are none.
pub(crate) fn run(workspace: &Workspace, log: Log) -> Result<bool> {
    let tree = Tree::read(&workspace.root)?;
    let excess = excess::Excess::read(&workspace.root)?;
    let mut findings = Vec::new();
    let mut sizes = Vec::new();
    let mut imports = cycles::Imports::default();
    for text in tree.with_extension("rs") {
        let source = Source::parse(&text.path, &text.text)?;
        sizes.extend(size::measure(&source));
        imports.add(&source);
        findings.extend(unsafety::check(&source, &workspace.rules.unsafe_code.allowed));
        findings.extend(order::check(&source));
        findings.extend(language::check(&source, &text.text));
        findings.extend(words::check_names(&source, &workspace.rules.words.allowed));
    }
    findings.extend(excess.compare(&sizes));
    findings.extend(imports.check(&excess.cycles));
    findings.extend(unsafety::check_roots(&tree, workspace));
    findings.extend(words::check_files(&tree));
    findings.extend(costs::check(workspace));
    findings.extend(layers::check(workspace, &tree));
    findings.extend(members::check(workspace, &tree));
    findings.extend(packages::check(workspace));
    findings.extend(release::check(workspace, &tree));
    findings.extend(modules::check(&tree));
    findings.extend(mutants::check(&tree, &workspace.packages));
    findings.extend(figures::check(&tree));
    findings.extend(format_tables::check(&tree));
    findings.extend(rules::check(&tree));
    findings.extend(documents::check_links(&tree));
    findings.extend(documents::check_decisions(&tree));
    findings.extend(documents::check_paths(&tree));
    findings
        .extend(documents::check_map(&tree, workspace.packages.iter().map(|package| package.name.as_str())));
    findings.sort();
    for finding in &findings {
        log.line(&finding.to_string());
    }
    log.line(&format!("tidy: {} files, {} findings", tree.files.len(), findings.len()));
    Ok(findings.is_empty())
}
