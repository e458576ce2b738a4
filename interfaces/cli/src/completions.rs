//! `lode completions`: its arguments and help. [`manual`](crate::manual) makes the completions.

use crate::fields;
use clap::Args;
use clap_complete::Shell;

/// The commands that put completions into the places in which shells search them.
const EXAMPLES: &str = "\
Examples:
  lode completions bash > ~/.local/share/bash-completion/completions/lode
  lode completions zsh > ~/.zfunc/_lode           # with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc
  lode completions fish > ~/.config/fish/completions/lode.fish";

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// Returns the last sections of the help.
pub(crate) fn help() -> String {
    format!("{EXAMPLES}\n\n{}", fields::help(&[("script", "the completions")]))
}
