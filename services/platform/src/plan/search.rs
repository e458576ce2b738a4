//! The search for places of requests, on an emulated machine and on a real one.

use super::error::PlanError;
use super::impossible::{Impossible, Obstacle, Unusable};
use super::request::NamespaceRequest;
use super::rule::RuleError;
use crate::goal::PersistentKind;
use crate::namespace::NamespaceError;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Generates unused UUIDs.
pub(super) type Uuids<'u> = &'u mut dyn FnMut() -> Uuid;

/// The places of a machine, with the requests that have one. A copy is a trial.
pub(super) trait Allocator: Clone {
    /// Finds a place for a request and returns the bytes of its namespace. Changes nothing if there is no place.
    ///
    /// # Errors
    /// Fails with the error of the place that came nearest.
    fn add(&mut self, request: &NamespaceRequest, uuids: Uuids<'_>) -> Result<u64, RuleError>;

    /// Returns true if a request has a place.
    fn has_requests(&self) -> bool;

    /// Returns the sockets of the machine, ascending.
    fn known_sockets(&self) -> Vec<u16>;

    /// Returns places that include those of the socket, without requests.
    fn with_socket(&self, socket: u16) -> Self;

    /// Returns the modules, regions and devices of the socket, or of all, that can't be used.
    fn unusable(&self, socket: Option<u16>) -> Vec<Unusable>;

    /// Returns the obstacle that no capacity removes; `None` if some place suits the request.
    fn obstacle(&self, request: &NamespaceRequest) -> Option<Obstacle>;
}

/// Adds all requests to places without any. Requests with a size precede those for the maximum size, then requests for
/// one socket those for any socket.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): the first request without a place.
pub(super) fn add_all<P: Allocator>(
    allocator: &mut P,
    requests: &[NamespaceRequest],
    uuids: Uuids<'_>,
) -> Result<(), PlanError> {
    let known = allocator.known_sockets();
    for request in requests {
        if let Some(socket) = request.socket.filter(|socket| !known.contains(socket)) {
            return Err(no_socket(allocator, socket, Some(request), uuids).into());
        }
    }
    let mut requests: Vec<&NamespaceRequest> = requests.iter().collect();
    requests.sort_by_key(|request| (request.namespace.size.is_none(), request.socket.is_none()));
    for request in requests {
        let before = allocator.clone();
        if let Err(error) = allocator.add(request, uuids) {
            return Err(impossible(&before, request, error, uuids).into());
        }
    }
    Ok(())
}

/// Makes the error of a plan for a socket that does not exist.
pub(super) fn no_socket<P: Allocator>(
    allocator: &P,
    socket: u16,
    request: Option<&NamespaceRequest>,
    uuids: Uuids<'_>,
) -> Impossible {
    let sockets = allocator.known_sockets();
    let near = sockets.iter().copied().min_by_key(|known| known.abs_diff(socket));
    let nearest = request.zip(near).and_then(|(request, near)| {
        let (allocator, moved) =
            (allocator.with_socket(near), NamespaceRequest { socket: Some(near), ..request.clone() });
        match allocator.clone().add(&moved, uuids) {
            Ok(_) => Some(moved),
            Err(error) => nearest(&allocator, &moved, &error, uuids),
        }
    });
    Impossible { request: request.cloned(), obstacle: Obstacle::NoSocket { socket, sockets }, nearest }
}

/// Makes the error of a request that can't be fulfilled together with the placed ones.
fn impossible<P: Allocator>(
    allocator: &P,
    request: &NamespaceRequest,
    error: RuleError,
    uuids: Uuids<'_>,
) -> Impossible {
    let nearest = nearest(allocator, request, &error, uuids);
    let obstacle = match (allocator.obstacle(request), error) {
        (Some(lacking), _) => lacking,
        (None, RuleError::Namespace(NamespaceError::NoSpace { largest, .. })) => Obstacle::Capacity {
            want: request.namespace.size,
            largest: largest_of(&nearest, request, largest),
            socket: request.socket,
            unusable: allocator.unusable(request.socket),
            shared: allocator.has_requests(),
        },
        (None, error) => Obstacle::Rule(Box::new(error)),
    };
    Impossible { request: Some(request.clone()), obstacle, nearest }
}

/// Returns the bytes of the nearest request, else the free bytes; 0 if neither is less than the requested size.
fn largest_of(nearest: &Option<NamespaceRequest>, request: &NamespaceRequest, free: u64) -> u64 {
    let less = |size: &u64| request.namespace.size.is_none_or(|want| *size < want);
    let offered = nearest.as_ref().and_then(|request| request.namespace.size);
    offered.filter(less).or(Some(free).filter(less)).unwrap_or(0)
}

/// Finds the nearest request that can be fulfilled together with the placed ones, by trying.
fn nearest<P: Allocator>(
    allocator: &P,
    request: &NamespaceRequest,
    error: &RuleError,
    uuids: Uuids<'_>,
) -> Option<NamespaceRequest> {
    let mut attempt = |request: &NamespaceRequest| allocator.clone().add(request, uuids);
    let want = request.namespace.size.unwrap_or(0);
    let sized = |size: Option<u64>| {
        let mut request = request.clone();
        request.namespace.size = size;
        request
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
    if sizes.is_empty() && request.namespace.size.is_some() {
        sizes.extend(attempt(&sized(None)));
    }
    if let Some(size) = sizes.into_iter().min_by_key(|size| size.abs_diff(want)) {
        return Some(sized(Some(size)));
    }
    if request.kind == Some(PersistentKind::AppDirect) {
        let mut other = NamespaceRequest { kind: None, ..request.clone() };
        for size in [request.namespace.size, None] {
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
pub(super) fn first_success<T>(
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
