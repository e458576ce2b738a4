//! The outcome of a check.

/// The result of pmempool_check_end(3), except for that of a pool with a single sound replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Consistent,
    NotConsistent,
    Repaired,
    CannotRepair,
    Error,
}

/// The end of a check before its last stage. Its reason is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop(pub(crate) Outcome);
