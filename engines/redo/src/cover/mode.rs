//! The mode of covered memory: whose stores recovery may rewrite.

/// The part of the log that programs may rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Recovery rewrites units that the log covers, so a store counts when the log or [`Cover::persist`](super::Cover::persist) has it.
    #[default]
    Fast,
    /// Recovery rewrites only ranges of transactions that were open, so a store counts, too, that its program has flushed itself. A
    /// transaction takes two drains and one for each range.
    Careful,
}
