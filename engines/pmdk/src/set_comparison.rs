//! Two sets beside each other: which replicas they share, and what makes the one the other.

use crate::pool_set::{PoolSet, Replica};
use crate::replica_error::ReplicaFault;

/// The operation that makes a set another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Replicas are added.
    Add,
    /// Replicas are removed.
    Remove,
    /// All parts but the first of each replica get headers.
    AddHeaders,
    /// All parts but the first of each replica lose their headers.
    RemoveHeaders,
}

/// The replicas that two sets share.
#[derive(Debug)]
pub(crate) struct SetComparison {
    /// For each replica of the old set its number in the new one.
    pub(crate) of_old: Vec<Option<usize>>,
    /// For each replica of the new set its number in the old one.
    pub(crate) of_new: Vec<Option<usize>>,
    /// True if only the first part of each replica has a header, in the old and in the new set.
    has_single_header: [bool; 2],
}

impl SetComparison {
    /// Compares two sets by the paths and sizes of their parts.
    pub(crate) fn of(old: &PoolSet, new: &PoolSet) -> Result<SetComparison, ReplicaFault> {
        let (mut of_old, mut of_new) = (vec![None; old.replicas.len()], vec![None; new.replicas.len()]);
        for (number, replica) in old.replicas.iter().enumerate() {
            for (other, new) in new.replicas.iter().enumerate().filter(|(_, new)| is_same(replica, new)) {
                if of_old[number].is_some() || of_new[other].is_some() {
                    let words = "there are more then one corresponding replicas; name each replica once";
                    return Err(ReplicaFault::Comparison(words));
                }
                debug_assert_eq!(new.parts.len(), replica.parts.len());
                (of_old[number], of_new[other]) = (Some(other), Some(number));
            }
        }
        if old.has_no_headers || new.has_no_headers {
            let words = "the NOHDRS poolset option is not supported in local poolset files; remove it";
            return Err(ReplicaFault::Comparison(words));
        }
        let has_single_header = [old.has_single_header, new.has_single_header];
        Ok(SetComparison { of_old, of_new, has_single_header })
    }

    /// Returns what makes the old set the new one, which is one operation.
    pub(crate) fn operation(&self) -> Result<Operation, ReplicaFault> {
        let [is_removed, is_added] = [&self.of_old, &self.of_new].map(|numbers| numbers.contains(&None));
        let [old, new] = self.has_single_header;
        if self.of_old.iter().all(Option::is_none) {
            return Err(ReplicaFault::NoneLeft);
        }
        match (is_removed, is_added) {
            (true, true) => Err(ReplicaFault::AddedAndRemoved),
            (false, false) if old == new => Err(ReplicaFault::Equal),
            (false, false) if !self.of_new.is_sorted() => Err(ReplicaFault::OrderAndOption),
            (false, false) if new => Ok(Operation::RemoveHeaders),
            (false, false) => Ok(Operation::AddHeaders),
            _ if old != new => Err(ReplicaFault::ReplicasAndOption),
            (true, false) => Ok(Operation::Remove),
            (false, true) => Ok(Operation::Add),
        }
    }
}

fn is_same(left: &Replica, right: &Replica) -> bool {
    let parts = |replica: &Replica| {
        replica.parts.iter().map(|part| (part.path.clone(), part.size)).collect::<Vec<_>>()
    };
    parts(left) == parts(right)
}
