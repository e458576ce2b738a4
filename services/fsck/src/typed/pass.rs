//! A walk over a typed pool that decides what each pointer is to lead to. It changes nothing but flipped bits in entries of maps.
//!
//! A pointer is sound if it leads to an object of its type that has no other owner. To one that does not, the first of these applies:
//!
//! 1. one flipped bit in it makes it lead to an object of its type that has no owner, and no other pointer claims that: it is put right;
//! 2. it leads to a block of its type that is not allocated: the block is allocated again, with what it holds;
//! 3. one object of its type has no owner, and no other pointer lacks such an object, nor may a lost object own it: it leads there. If its own object may be lost,
//!    that one may have followed it, as in a list; so the type has no second pointer by which it could have followed;
//! 4. it is cleared; an element of a vector of boxes, which is never null, leaves the vector.
//!
//! Sound pointers come first, also those in blocks that are allocated again: old bytes may lead to what has an owner.

use super::lost::LossReason;
use crate::maps::Maps;
use lode_heap::check::{MarkResult, SpaceMap};
use lode_heap::{TypedDamage, TypedPlace, TypedPointer, TypedSurvey, TypedVisitor};
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Readable};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The targets of pointers that are put right, by the offsets of their words.
pub(super) type Targets = HashMap<PoolOffset, PoolOffset>;

/// A pass over all that the root reaches.
pub(super) struct Pass<'a, M: Medium> {
    medium: &'a M,
    /// The crate of the maps; `None` if the types have none.
    maps: Option<&'a dyn Maps<M>>,
    /// The objects of the heap, with marks on those that were reached.
    pub(super) map: SpaceMap,
    right: &'a Targets,
    /// Pointers to blocks that are not allocated, to be followed last.
    unallocated: VecDeque<TypedPointer>,
    /// Pointers to blocks that are allocated again.
    pub(super) kept: Vec<TypedPointer>,
    kept_at: HashSet<PoolOffset>,
    /// Pointers that lead to no object that could be theirs.
    pub(super) lost: Vec<(TypedPointer, LossReason)>,
    /// Sound pointers to root objects of maps.
    pub(super) mapped: Vec<TypedPointer>,
    /// Number of words that were stored.
    pub(super) corrected: u64,
}

impl<'a, M: Medium> Pass<'a, M> {
    /// Makes a pass that takes some pointers to lead where they are put right to. No object of `map` is marked.
    pub(super) fn new(
        medium: &'a M,
        maps: Option<&'a dyn Maps<M>>,
        map: SpaceMap,
        right: &'a Targets,
    ) -> Pass<'a, M> {
        let (unallocated, kept_at) = (VecDeque::new(), HashSet::new());
        let (kept, lost, mapped) = (Vec::new(), Vec::new(), Vec::new());
        Pass { medium, maps, map, right, unallocated, kept, kept_at, lost, mapped, corrected: 0 }
    }

    /// Visits all objects.
    pub(super) fn run(mut self, survey: &mut TypedSurvey<'_, Arc<M>>) -> Pass<'a, M> {
        for at in survey.frame() {
            self.mark(at);
        }
        survey.visit(&mut self);
        while let Some(pointer) = self.unallocated.pop_front() {
            if self.map.is_marked(pointer.at()) {
                self.lost.push((pointer, LossReason::TwoOwners));
                continue;
            }
            self.kept.push(pointer);
            self.kept_at.insert(pointer.at());
            if pointer.is_box() {
                survey.visit_pointer(pointer, &mut self);
            } else {
                self.mark(pointer.at());
                self.mapped.extend(Some(pointer).filter(TypedPointer::is_map));
            }
        }
        let Some(maps) = self.maps else { return self };
        let mut roots: Vec<PoolOffset> = self.mapped.iter().map(TypedPointer::at).collect();
        roots.extend(maps.tree_roots(self.medium, &self.map, survey.trees()));
        let (map, corrected) = maps.mark(self.medium, self.map, &roots);
        Pass { map, corrected, ..self }
    }

    fn mark(&mut self, at: PoolOffset) -> Option<MarkResult> {
        self.medium.memory().reading(|memory| self.map.mark(memory, at)).ok()
    }

    fn is_allocated(&self, at: PoolOffset) -> bool {
        let is_allocated = self.medium.memory().reading(|memory| self.map.is_allocated(memory, at));
        matches!(is_allocated, Ok(Some(true)))
    }

    /// Returns the pointers in which one flipped bit explains where they lead, with their right targets.
    pub(super) fn flipped(&self, survey: &mut TypedSurvey<'_, Arc<M>>) -> Targets {
        let mut suspects: Vec<TypedPointer> = self.kept.clone();
        suspects.extend(self.lost.iter().map(|(pointer, _)| *pointer));
        let twice = self.lost.iter().filter(|(_, reason)| *reason == LossReason::TwoOwners);
        let mut twice: HashSet<PoolOffset> = twice.map(|(pointer, _)| pointer.at()).collect();
        // A pointer past its object, to one that this owns, leaves it without an owner.
        let (ownerless, owned) = self.ownerless(survey);
        twice.extend(owned.into_iter().filter(|at| self.map.is_marked(*at)));
        let ownerless: HashSet<PoolOffset> = ownerless.into_iter().collect();
        if ownerless.is_empty() {
            return Targets::new();
        }
        if !twice.is_empty() {
            // Either of the two may be the damaged one.
            let mut owners =
                OwnersOf { pass: self, targets: &twice, seen: HashSet::new(), found: Vec::new() };
            survey.visit(&mut owners);
            let known: HashSet<Option<PoolOffset>> = suspects.iter().map(TypedPointer::word).collect();
            suspects.extend(owners.found.into_iter().filter(|owner| !known.contains(&owner.word())));
        }
        let mut claims: HashMap<PoolOffset, Vec<PoolOffset>> = HashMap::new();
        for pointer in suspects {
            if let Some((word, target)) = self.target_of_flip(survey, pointer, &ownerless) {
                claims.entry(target).or_default().push(word);
            }
        }
        let only = claims.into_iter().filter(|(_, words)| words.len() == 1);
        only.map(|(target, words)| (words[0], target)).collect()
    }

    /// Returns the word of a pointer, and the only object without an owner to which one flipped bit lets it lead.
    fn target_of_flip(
        &self,
        survey: &TypedSurvey<'_, Arc<M>>,
        pointer: TypedPointer,
        ownerless: &HashSet<PoolOffset>,
    ) -> Option<(PoolOffset, PoolOffset)> {
        let word = pointer.word().filter(|word| !self.right.contains_key(word))?;
        let place = survey.place(pointer);
        let flipped = (0..u64::BITS).map(|bit| PoolOffset::new(pointer.at().get() ^ 1 << bit));
        let accepts =
            |at: &PoolOffset| self.map.object(*at).is_some_and(|(size, number)| place.accepts(size, number));
        let mut free = flipped.filter(|at| ownerless.contains(at) && accepts(at));
        match (free.next(), free.next()) {
            (Some(target), None) => Some((word, target)),
            _ => None,
        }
    }

    /// Returns the lost pointers that can lead to one object without an owner only, with those objects. None in a pool whose migration
    /// is not finished, where a pointer may lead to objects of several types. Maps are not among them, since all have the same type
    /// number.
    pub(super) fn links(
        &self,
        survey: &mut TypedSurvey<'_, Arc<M>>,
    ) -> Vec<(TypedPointer, PoolOffset, LossReason)> {
        if self.lost.is_empty() || survey.is_half_migrated() {
            return Vec::new();
        }
        let mut by_number: HashMap<u64, Vec<PoolOffset>> = HashMap::new();
        for at in self.ownerless(survey).0 {
            let number = self.map.object(at).map_or(0, |(_, number)| number);
            by_number.entry(number).or_default().push(at);
        }
        let mut links = Vec::new();
        for ownerless in by_number.values() {
            let [target] = ownerless[..] else { continue };
            let fits = |pointer: TypedPointer| {
                let accepts = |(size, number)| survey.place(pointer).accepts(size, number);
                self.map.object(target).is_some_and(accepts)
            };
            let mut lacking = self.lost.iter().filter(|(pointer, _)| fits(*pointer) && !pointer.is_map());
            let (Some((pointer, reason)), None) = (lacking.next(), lacking.next()) else { continue };
            let followers = survey.place(*pointer).pointers_to_same_type();
            let is_clear = match reason {
                // It is the one that followed.
                LossReason::Unreadable => followers == 1,
                // It is the object itself.
                LossReason::TwoOwners => true,
                // It is either.
                LossReason::NoObject | LossReason::OtherType => followers <= 1,
            };
            let is_new = pointer.word().is_some_and(|word| !self.right.contains_key(&word));
            // The pointers of a lost object are not known.
            let number = self.map.object(target).map_or(0, |(_, number)| number);
            let may_own = |(other, reason): &(TypedPointer, LossReason)| {
                let is_lost = other.word() != pointer.word() && *reason != LossReason::TwoOwners;
                is_lost && survey.place(*other).leads_to(number)
            };
            if is_clear && is_new && !self.lost.iter().any(may_own) {
                links.push((*pointer, target, *reason));
            }
        }
        links
    }

    /// Returns the allocated objects to which no pointer leads, those in other such objects included; and all to which those lead.
    fn ownerless(&self, survey: &mut TypedSurvey<'_, Arc<M>>) -> (Vec<PoolOffset>, HashSet<PoolOffset>) {
        let mut unmarked = Vec::new();
        // A lost bitmap has no objects.
        let visit = |memory: &Readable| self.map.visit_unmarked(memory, |at| unmarked.push(at));
        let _ = self.medium.memory().reading(visit);
        let mut visitor = Owned { pass: self, seen: HashSet::new(), owned: HashSet::new() };
        for at in &unmarked {
            if let Some((_, number)) = self.map.object(*at) {
                survey.visit_unreached(*at, number, &mut visitor);
            }
        }
        let owned = visitor.owned;
        unmarked.retain(|at| !owned.contains(at));
        (unmarked, owned)
    }
}

/// Finds the objects that are owned by others.
struct Owned<'a, M: Medium> {
    pass: &'a Pass<'a, M>,
    seen: HashSet<PoolOffset>,
    owned: HashSet<PoolOffset>,
}

impl<M: Medium> TypedVisitor for Owned<'_, M> {
    fn visits_blocks(&self) -> bool {
        true
    }

    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        let is_owned = place.pointer().is_some_and(|pointer| pointer.word().is_some());
        let accepts = |(size, number)| place.accepts(size, number);
        if !self.pass.map.object(place.at()).is_some_and(accepts) {
            return false;
        }
        if is_owned {
            self.owned.insert(place.at());
        }
        !self.pass.map.is_marked(place.at()) && self.seen.insert(place.at())
    }

    fn damage(&mut self, _: &TypedPlace<'_>, _: TypedDamage) {}
}

impl<M: Medium> TypedVisitor for Pass<'_, M> {
    fn target(&self, word: PoolOffset, stored: PoolOffset) -> PoolOffset {
        self.right.get(&word).copied().unwrap_or(stored)
    }

    fn visits_blocks(&self) -> bool {
        true
    }

    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        let Some(pointer) = place.pointer() else { return false };
        let at = place.at();
        let reason = match self.map.object(at) {
            None => LossReason::NoObject,
            Some((size, number)) if !place.accepts(size, number) => LossReason::OtherType,
            _ if !self.is_allocated(at) && !self.kept_at.contains(&at) => {
                self.unallocated.push_back(pointer);
                return false;
            }
            _ => match self.mark(at) {
                Some(MarkResult::Marked | MarkResult::Unallocated) => {
                    self.mapped.extend(Some(pointer).filter(TypedPointer::is_map));
                    return true;
                }
                Some(MarkResult::AlreadyMarked) => LossReason::TwoOwners,
                Some(MarkResult::NoObject) | None => LossReason::NoObject,
            },
        };
        self.lost.push((pointer, reason));
        false
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        // Values, lengths and texts stay as they are: only the program knows others. So do buffers, of which a part can be read.
        if let Some(pointer) = place.pointer().filter(TypedPointer::is_box) {
            let reason = match damage {
                TypedDamage::Unreadable => LossReason::Unreadable,
                TypedDamage::OtherType => LossReason::OtherType,
                _ => LossReason::NoObject,
            };
            self.lost.push((pointer, reason));
        }
    }
}

/// Finds the pointers that lead to some objects.
struct OwnersOf<'a, M: Medium> {
    pass: &'a Pass<'a, M>,
    targets: &'a HashSet<PoolOffset>,
    seen: HashSet<PoolOffset>,
    found: Vec<TypedPointer>,
}

impl<M: Medium> TypedVisitor for OwnersOf<'_, M> {
    fn target(&self, word: PoolOffset, stored: PoolOffset) -> PoolOffset {
        self.pass.target(word, stored)
    }

    fn visits_blocks(&self) -> bool {
        true
    }

    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.found.extend(place.pointer().filter(|_| self.targets.contains(&place.at())));
        let accepts = |(size, number)| place.accepts(size, number);
        self.pass.map.object(place.at()).is_some_and(accepts) && self.seen.insert(place.at())
    }

    fn damage(&mut self, _: &TypedPlace<'_>, _: TypedDamage) {}
}
