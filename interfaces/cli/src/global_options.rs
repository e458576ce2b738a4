//! The options that every command has.

use crate::durability::Durability;
use clap::Args;

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct GlobalOptions {
    /// Print JSON: one object, or one object per line; errors as {"error", "code"}
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Use this rung of the durability ladder instead of the detected one: the user then answers for durability.
    /// Ignored by commands that only read
    #[arg(long, global = true, value_name = "RUNG", default_value = "auto", display_order = 101)]
    pub(crate) durability: Durability,
}
