//! The length of files and functions.

use super::source::{Source, lines_of};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of code that a file may have, without tests.
pub(super) const FILE_LINES: usize = 800;
/// Lines of code that a function may have, from its `fn` to its brace.
pub(super) const FUNCTION_LINES: usize = 70;

/// The lines of code of a file or of a function.
pub(super) struct Size {
    pub(super) path: String,
    /// Name of the function; `None` for the file itself.
    pub(super) function: Option<String>,
    /// Number of the first line.
    pub(super) line: usize,
    pub(super) code_lines: usize,
}

/// Measures a file and its functions, without tests.
pub(super) fn measure(source: &Source) -> Vec<Size> {
    let code_lines = source.code_lines(1..=source.last_line());
    let whole = Size { path: source.path.clone(), function: None, line: 1, code_lines };
    let mut functions = Functions { source, sizes: vec![whole] };
    functions.visit_file(&source.file);
    functions.sizes
}

struct Functions<'a> {
    source: &'a Source,
    sizes: Vec<Size>,
}

impl Functions<'_> {
    fn add(&mut self, signature: &syn::Signature, end: Span) {
        let line = signature.span().start().line;
        if !self.source.is_test(line) {
            let code_lines = self.source.code_lines(line..=*lines_of(end).end());
            let function = Some(signature.ident.to_string());
            self.sizes.push(Size { path: self.source.path.clone(), function, line, code_lines });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, function.block.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, function.block.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block.span());
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_code_lines_are_counted() {
        let text =
            "// Why.\nfn f() {\n    // Why.\n\n    a();\n}\n#[cfg(test)]\nmod test {\n    fn g() {}\n}\n";
        let sizes = measure(&Source::parse("a.rs", text).unwrap());
        let found: Vec<_> =
            sizes.iter().map(|size| (size.function.as_deref(), size.line, size.code_lines)).collect();
        assert_eq!(found, [(None, 1, 3), (Some("f"), 2, 3)]);
    }
}
