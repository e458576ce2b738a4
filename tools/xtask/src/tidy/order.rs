//! The rule that each wait for durability and each atomic access has an ORDER comment.

use super::Finding;
use super::source::{Source, lines_of};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Token};

/// Lines of code that may stand between the comment and the call that it covers.
const REACH: usize = 8;
/// The methods of `Medium` that wait for durability.
const WAITS: [&str; 2] = ["drain", "log_write"];
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Finds waits and atomic accesses without an ORDER comment, outside of tests.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut walk = Walk { source, functions: Vec::new(), findings: Vec::new() };
    walk.visit_file(&source.file);
    walk.findings
}

struct Walk<'a> {
    source: &'a Source,
    /// The functions that enclose the place of the walk, each with its name and first line.
    functions: Vec<(String, usize)>,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn require_comment(&mut self, line: usize, what: &str) {
        let first = self.functions.last().map_or(1, |(_, line)| *line);
        if !self.source.is_test(line) && !self.source.is_tagged("ORDER:", line, first, REACH) {
            let advice = format!("{what} without an ORDER comment above: say what before what, and why");
            self.findings.push(Finding::new(&self.source.path, line, "order", advice));
        }
    }

    fn inside(&mut self, signature: &syn::Signature, visit: impl FnOnce(&mut Self)) {
        let first = *lines_of(signature.span()).start();
        self.functions.push((signature.ident.to_string(), first));
        visit(self);
        self.functions.pop();
    }

    /// Returns true if the enclosing function only passes the call on: then its own callers state the order.
    fn forwards(&self, method: &str) -> bool {
        self.functions.last().is_some_and(|(name, _)| name == method)
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.inside(&function.sig, |walk| visit::visit_item_fn(walk, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.inside(&function.sig, |walk| visit::visit_impl_item_fn(walk, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.inside(&function.sig, |walk| visit::visit_trait_item_fn(walk, function));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        let method = call.method.to_string();
        // A drain of a collection has a range as argument; that of a medium has none.
        let waits = WAITS.contains(&method.as_str()) && (method != "drain" || call.args.is_empty());
        if waits && !self.forwards(&method) {
            self.require_comment(line, &format!("`{method}`"));
        }
        if call.args.iter().any(is_ordering) {
            self.require_comment(line, &format!("atomic `{method}`"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if call.args.iter().any(is_ordering) {
            self.require_comment(call.func.span().start().line, "atomic access");
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // Assertions and similar macros hold expressions; other macros are not checked.
        if let Ok(inside) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            for expression in &inside {
                self.visit_expr(expression);
            }
        }
    }
}

/// Returns true if the argument is an ordering of atomics, as in `Ordering::Acquire`.
fn is_ordering(argument: &Expr) -> bool {
    let Expr::Path(path) = argument else { return false };
    path.path.segments.last().is_some_and(|last| ORDERINGS.iter().any(|name| last.ident == name))
}

#[cfg(test)]
mod test {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::parse("a.rs", text).unwrap()).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn drains_and_atomics_need_order_comments() {
        assert_eq!(lines("fn f() {\n    m.drain();\n}\n"), [2]);
        assert_eq!(lines("fn f() {\n    m.log_write(at, b)?;\n}\n"), [2]);
        assert_eq!(lines("fn f() {\n    a.load(Ordering::Acquire);\n}\n"), [2]);
        assert_eq!(
            lines("fn f() {\n    a.load(atomic::Ordering::Acquire);\n    fence(SeqCst);\n}\n"),
            [2, 3]
        );
        assert_eq!(lines("fn f() {\n    debug_assert!(a.load(Ordering::Relaxed) == 0);\n}\n"), [2]);
        assert_eq!(lines("fn f() {\n    // ORDER: data before its name.\n    m.drain();\n}\n"), NONE);
    }

    #[test]
    fn collection_drains_and_comparisons_are_exempt() {
        assert_eq!(lines("fn f() {\n    vec.drain(..);\n    a.cmp(b) == Ordering::Less;\n}\n"), NONE);
        assert_eq!(lines("fn drain(&self) {\n    (**self).drain()\n}\n"), NONE, "passing on");
        assert_eq!(lines("#[cfg(test)]\nmod test {\n    fn f() {\n        m.drain();\n    }\n}\n"), NONE);
    }

    #[test]
    fn order_comment_covers_one_group() {
        let group = "fn f() {\n    // ORDER: why.\n    a.load(Relaxed);\n    b.load(Relaxed);\n\n    c.load(Relaxed);\n}\n";
        assert_eq!(lines(group), [6]);
        let far =
            format!("fn f() {{\n    // ORDER: why.\n{}    m.drain();\n}}\n", "    g();\n".repeat(REACH + 1));
        assert_eq!(lines(&far), [12]);
        assert_eq!(lines("// ORDER: elsewhere.\nfn f() {\n    m.drain();\n}\n"), [3]);
    }
}
