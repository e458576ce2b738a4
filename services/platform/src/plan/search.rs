//! The search for places of wishes, on an emulated machine and on a real one.

use super::error::PlanError;
use super::impossible::{Impossible, Obstacle, Unusable};
use super::rule::RuleError;
use super::wish::Wish;
use crate::goal::PersistentKind;
use crate::namespace::NamespaceError;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Generates unused UUIDs.
pub(super) type Uuids<'u> = &'u mut dyn FnMut() -> Uuid;

/// The places of a machine, with the wishes that have one. A copy is a trial.
pub(super) trait Places: Clone {
    /// Finds a place for a wish and returns the bytes of its namespace. Changes nothing if there is no place.
    ///
    /// # Errors
    /// The error of the place that came nearest.
    fn add(&mut self, wish: &Wish, uuids: Uuids<'_>) -> Result<u64, RuleError>;

    /// Returns true if a wish has a place.
    fn has_wishes(&self) -> bool;

    /// Returns the sockets of the machine, ascending.
    fn known_sockets(&self) -> Vec<u16>;

    /// Returns places that include those of the socket, without wishes.
    fn with_socket(&self, socket: u16) -> Self;

    /// Returns the modules, regions and devices of the socket, or of all, that can't be used.
    fn unusable(&self, socket: Option<u16>) -> Vec<Unusable>;

    /// Returns the obstacle that no capacity removes; `None` if some place suits the wish.
    fn lacking(&self, wish: &Wish) -> Option<Obstacle>;
}

/// Adds all wishes to places without any. Wishes with a size precede those for the maximum size, then wishes for one
/// socket those for any socket.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): the first wish without a place.
pub(super) fn add_all<P: Places>(places: &mut P, wishes: &[Wish], uuids: Uuids<'_>) -> Result<(), PlanError> {
    let known = places.known_sockets();
    for wish in wishes {
        if let Some(socket) = wish.socket.filter(|socket| !known.contains(socket)) {
            return Err(no_socket(places, socket, Some(wish), uuids).into());
        }
    }
    let mut wishes: Vec<&Wish> = wishes.iter().collect();
    wishes.sort_by_key(|wish| (wish.namespace.size.is_none(), wish.socket.is_none()));
    for wish in wishes {
        let before = places.clone();
        if let Err(error) = places.add(wish, uuids) {
            return Err(impossible(&before, wish, error, uuids).into());
        }
    }
    Ok(())
}

/// Makes the error of a plan for a socket that does not exist.
pub(super) fn no_socket<P: Places>(
    places: &P,
    socket: u16,
    wish: Option<&Wish>,
    uuids: Uuids<'_>,
) -> Impossible {
    let sockets = places.known_sockets();
    let near = sockets.iter().copied().min_by_key(|known| known.abs_diff(socket));
    let nearest = wish.zip(near).and_then(|(wish, near)| {
        let (places, moved) = (places.with_socket(near), Wish { socket: Some(near), ..wish.clone() });
        match places.clone().add(&moved, uuids) {
            Ok(_) => Some(moved),
            Err(error) => nearest(&places, &moved, &error, uuids),
        }
    });
    Impossible { wish: wish.cloned(), obstacle: Obstacle::NoSocket { socket, sockets }, nearest }
}

/// Makes the error of a wish that can't be fulfilled together with the placed ones.
fn impossible<P: Places>(places: &P, wish: &Wish, error: RuleError, uuids: Uuids<'_>) -> Impossible {
    let nearest = nearest(places, wish, &error, uuids);
    let obstacle = match (places.lacking(wish), error) {
        (Some(lacking), _) => lacking,
        (None, RuleError::Namespace(NamespaceError::NoSpace { largest, .. })) => Obstacle::Capacity {
            want: wish.namespace.size,
            largest: largest_of(&nearest, wish, largest),
            socket: wish.socket,
            unusable: places.unusable(wish.socket),
            shared: places.has_wishes(),
        },
        (None, error) => Obstacle::Rule(Box::new(error)),
    };
    Impossible { wish: Some(wish.clone()), obstacle, nearest }
}

/// Returns the bytes of the nearest wish, else the free bytes; 0 if neither is less than the requested size.
fn largest_of(nearest: &Option<Wish>, wish: &Wish, free: u64) -> u64 {
    let less = |size: &u64| wish.namespace.size.is_none_or(|want| *size < want);
    let offered = nearest.as_ref().and_then(|wish| wish.namespace.size);
    offered.filter(less).or(Some(free).filter(less)).unwrap_or(0)
}

/// Finds the nearest wish that can be fulfilled together with the placed ones, by trying.
fn nearest<P: Places>(places: &P, wish: &Wish, error: &RuleError, uuids: Uuids<'_>) -> Option<Wish> {
    let mut attempt = |wish: &Wish| places.clone().add(wish, uuids);
    let want = wish.namespace.size.unwrap_or(0);
    let sized = |size: Option<u64>| {
        let mut wish = wish.clone();
        wish.namespace.size = size;
        wish
    };
    let mut open = sizes_near(error);
    let (mut tried, mut sizes) = (BTreeSet::new(), Vec::new());
    // An aligned size may be too small or not available, and the minimum size may have to be aligned.
    while let Some(size) = open.pop() {
        if size == 0 || !tried.insert(size) {
            continue;
        }
        match attempt(&sized(Some(size))) {
            Ok(_) => sizes.push(size),
            Err(error) => open.extend(sizes_near(&error)),
        }
    }
    if sizes.is_empty() && wish.namespace.size.is_some() {
        sizes.extend(attempt(&sized(None)));
    }
    if let Some(size) = sizes.into_iter().min_by_key(|size| size.abs_diff(want)) {
        return Some(sized(Some(size)));
    }
    if wish.kind == Some(PersistentKind::AppDirect) {
        let mut other = Wish { kind: None, ..wish.clone() };
        for size in [wish.namespace.size, None] {
            other.namespace.size = size;
            if let Ok(size) = attempt(&other) {
                other.namespace.size = Some(size);
                return Some(other);
            }
        }
    }
    None
}

/// Returns the sizes that a refusal suggests.
fn sizes_near(error: &RuleError) -> Vec<u64> {
    let RuleError::Namespace(error) = error else { return Vec::new() };
    match error {
        NamespaceError::Misaligned { unit, fitting, .. } => vec![*fitting, fitting.saturating_sub(*unit)],
        NamespaceError::TooSmall { size_min, .. } => vec![*size_min],
        NamespaceError::NoSpace { largest, .. } => vec![*largest],
        _ => Vec::new(),
    }
}

/// Returns the first success, else the error that came nearest. `want` are the requested bytes.
pub(super) fn first_good<T>(
    want: u64,
    results: impl Iterator<Item = Result<T, RuleError>>,
) -> Result<T, RuleError> {
    let mut nearest = NamespaceError::NoSpace { region: None, want, largest: 0 }.into();
    for result in results {
        match result {
            Ok(found) => return Ok(found),
            Err(error) => nearest = nearer(nearest, error),
        }
    }
    Err(nearest)
}

/// Returns the more informative error: the larger available space, or an error that more space would not prevent.
fn nearer(one: RuleError, other: RuleError) -> RuleError {
    let space = |error: &RuleError| match error {
        RuleError::Namespace(NamespaceError::NoSpace { largest, .. }) => Some(*largest),
        _ => None,
    };
    match (space(&one), space(&other)) {
        (Some(most), Some(largest)) if most >= largest => one,
        (Some(_), _) => other,
        (None, _) => one,
    }
}
