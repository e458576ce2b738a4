//! The options that every command has.

use crate::durability::DurabilityOption;
use clap::Args;

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct GlobalOptions {
    /// Print JSON: one object, or one object per line; errors as {"error", "code"}. Help stays text
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Force this durability in place of the detected one; a wrong choice may lose data.
    /// Ignored by commands that only read
    #[arg(long, global = true, value_name = "DURABILITY", default_value = "auto", display_order = 101)]
    pub(crate) durability: DurabilityOption,
}
