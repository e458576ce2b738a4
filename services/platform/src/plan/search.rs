//! The search for places of requests, on an emulated machine and on a real one.

use super::error::PlanError;
use super::existing::Existing;
use super::fit::Extent;
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
    fn add(&mut self, request: &NamespaceRequest, uuids: Uuids<'_>) -> Result<Extent, RuleError>;

    /// Returns the existing namespaces with this name.
    fn named(&self, name: &str) -> Vec<Existing>;

    /// Protects a namespace that fulfils a request: requests that are added later do not take its place.
    fn keep(&mut self, existing: &Existing);

    /// Adds a request that a kept namespace fulfils. If its modules are partitioned again, the namespace is made again.
    ///
    /// # Errors
    /// Fails if the modules are partitioned again in any case, and the request does not fit then.
    fn add_kept(
        &mut self,
        existing: &Existing,
        request: &NamespaceRequest,
        uuids: Uuids<'_>,
    ) -> Result<(), RuleError>;

    /// Returns true if a request has a place or is fulfilled.
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

/// A request that an existing namespace fulfils.
pub(super) type Fulfilled = (NamespaceRequest, Existing);

/// Adds all requests to places without any. Requests with a size precede those for the maximum size, then requests for
/// one socket those for any socket. Returns the requests that existing namespaces fulfil.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): the first request that is invalid, has the name of another namespace, or has
/// no place.
pub(super) fn add_all<P: Allocator>(
    allocator: &mut P,
    requests: &[NamespaceRequest],
    uuids: Uuids<'_>,
) -> Result<Vec<Fulfilled>, PlanError> {
    let known = allocator.known_sockets();
    for request in requests {
        if let Some(socket) = request.socket.filter(|socket| !known.contains(socket)) {
            return Err(no_socket(allocator, socket, Some(request), uuids).into());
        }
    }
    let mut order = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        if let Err(error) = request.namespace.check() {
            let obstacle = Obstacle::Rule(Box::new(error.into()));
            return Err(Impossible { request: Some(request.clone()), obstacle, nearest: None }.into());
        }
        order.push((request, fulfilling(allocator, request, &requests[..index])?));
    }
    for (_, existing) in &order {
        existing.iter().for_each(|existing| allocator.keep(existing));
    }
    // The order is the same whether namespaces exist or not, so that a plan that was carried out leads to itself.
    order.sort_by_key(|(request, _)| (request.want().is_none(), request.socket.is_none()));
    let mut fulfilled = Vec::new();
    for (request, existing) in order {
        let before = allocator.clone();
        let result = match &existing {
            Some(existing) => allocator.add_kept(existing, request, uuids),
            None => allocator.add(request, uuids).map(drop),
        };
        result.map_err(|error| impossible(&before, request, error, uuids))?;
        fulfilled.extend(existing.map(|existing| (request.clone(), existing)));
    }
    Ok(fulfilled)
}

/// Returns the namespace that fulfils a request with a name; `None` if no namespace has the name. `earlier` are the
/// requests before it.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): an earlier request has the name, or all namespaces with the name are different.
fn fulfilling<P: Allocator>(
    allocator: &P,
    request: &NamespaceRequest,
    earlier: &[NamespaceRequest],
) -> Result<Option<Existing>, PlanError> {
    let name = &request.namespace.name;
    if name.is_empty() || request.add {
        return Ok(None);
    }
    let refused =
        |obstacle| Err(Impossible { request: Some(request.clone()), obstacle, nearest: None }.into());
    if earlier.iter().any(|other| other.namespace.name == *name) {
        return refused(Obstacle::SameName);
    }
    let (mut equal, different): (Vec<Existing>, Vec<Existing>) =
        allocator.named(name).into_iter().partition(|existing| existing.difference(request).is_none());
    match different.first() {
        Some(other) if equal.is_empty() => refused(Obstacle::NameTaken {
            device: other.device.clone(),
            difference: other.difference(request).unwrap_or_default(),
        }),
        _ => Ok(equal.drain(..).next()),
    }
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
            want: request.want(),
            largest: largest_of(&nearest, request, largest),
            socket: request.socket,
            unusable: allocator.unusable(request.socket),
            shared: allocator.has_requests(),
        },
        (None, error) => Obstacle::Rule(Box::new(error)),
    };
    Impossible { request: Some(request.clone()), obstacle, nearest }
}

/// Returns the bytes of the nearest request, else the free bytes; 0 if neither is less than the requested bytes.
fn largest_of(nearest: &Option<NamespaceRequest>, request: &NamespaceRequest, free: u64) -> u64 {
    let less = |size: &u64| request.want().is_none_or(|want| *size < want);
    let offered = nearest.as_ref().and_then(NamespaceRequest::want);
    let free = Some(free).filter(|_| request.usable.is_none());
    offered.filter(less).or(free.filter(less)).unwrap_or(0)
}

/// Finds the nearest request that can be fulfilled together with the placed ones, by trying.
fn nearest<P: Allocator>(
    allocator: &P,
    request: &NamespaceRequest,
    error: &RuleError,
    uuids: Uuids<'_>,
) -> Option<NamespaceRequest> {
    let mut attempt = |request: &NamespaceRequest| allocator.clone().add(request, uuids);
    let want = request.want().unwrap_or(0);
    if request.usable.is_some() {
        let largest = attempt(&request.with(None)).ok().filter(|largest| largest.usable < want);
        let nearest = largest.map(|one| NamespaceRequest { usable: Some(one.usable), ..request.clone() });
        if nearest.as_ref().is_some_and(|nearest| attempt(nearest).is_ok()) {
            return nearest;
        }
    }
    let mut open = sizes_near(error);
    let (mut tried, mut sizes) = (BTreeSet::new(), Vec::new());
    // An aligned size may be too small or not available, and the minimum size may have to be aligned.
    while let Some(size) = open.pop() {
        if size == 0 || !tried.insert(size) {
            continue;
        }
        match attempt(&request.with(Some(size))) {
            Ok(extent) => sizes.push(extent.size),
            Err(error) => open.extend(sizes_near(&error)),
        }
    }
    if sizes.is_empty() && request.want().is_some() {
        sizes.extend(attempt(&request.with(None)).map(|extent| extent.size));
    }
    if let Some(size) = sizes.into_iter().min_by_key(|size| size.abs_diff(want)) {
        return Some(request.with(Some(size)));
    }
    if request.kind == Some(PersistentKind::AppDirect) {
        let other = NamespaceRequest { kind: None, ..request.clone() };
        for other in [other.with(None), other].into_iter().rev() {
            if let Ok(extent) = attempt(&other) {
                return Some(if other.usable.is_some() { other } else { other.with(Some(extent.size)) });
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
