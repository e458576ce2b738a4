//! Plans for a real machine, from what its kernel shows in sysfs.
//!
//! sysfs does not show how firmware partitions modules. So these plans begin with the existing regions, and with the
//! CXL devices that can form regions.
//!
//! ```text
//!   lineup    wishes by region
//!   site      an existing region, or a new one                names    kernel's names of new namespaces
//!   cxl       regions that CXL devices can form               outcome  steps, losses, notes and table
//! ```

mod cxl;
mod lineup;
mod names;
mod outcome;
mod site;

pub use cxl::CxlRegion;

use super::impossible::{Impossible, Obstacle, nearest_by};
use super::wish::{PlanRequest, Wish};
use super::{Plan, Unusable};
use crate::error::PlatformError;
use crate::ndctl::{Inventory, NdRegion};
use crate::sysfs::{Cxl, Sysfs};
use lineup::Lineup;
use std::collections::BTreeSet;

impl Sysfs {
    /// Plans the steps to the requested namespaces, with their commands.
    ///
    /// # Errors
    /// [`Impossible`](PlatformError::Impossible): a request can't be fulfilled, with the reason.
    /// [`NotInSysfs`](PlatformError::NotInSysfs): the request sets the use of the rest, which only firmware can change.
    pub fn plan(&self, request: &PlanRequest) -> Result<Plan, PlatformError> {
        plan(&self.inventory(), &self.cxl(), request)
    }
}

/// Plans the steps to the requested namespaces from the known state of a machine.
///
/// # Errors
/// Those of [`Sysfs::plan`].
pub fn plan(inventory: &Inventory, cxl: &Cxl, request: &PlanRequest) -> Result<Plan, PlatformError> {
    if request.rest.is_some() {
        let (what, ask) = ("how firmware divides modules", "ipmctl show -memoryresources");
        return Err(PlatformError::NotInSysfs { what, ask });
    }
    let mut lineup = Lineup::new(inventory, cxl);
    // Requests with a size precede those for the maximum size, then requests for one socket those for any socket.
    let mut wishes: Vec<&Wish> = request.wishes.iter().collect();
    wishes.sort_by_key(|wish| (wish.namespace.size.is_none(), wish.socket.is_none()));
    for wish in wishes {
        let before = lineup.clone();
        if let Err(error) = lineup.add(wish) {
            return Err(impossible(&before, wish, error));
        }
    }
    Ok(lineup.outcome(request))
}

/// Makes the error of a wish that can't be fulfilled together with the placed ones.
fn impossible(lineup: &Lineup<'_>, wish: &Wish, error: PlatformError) -> PlatformError {
    let known = lineup.sockets();
    let socket = wish.socket;
    if let Some(missing) = socket.filter(|socket| !known.contains(socket)) {
        let moved = known.iter().copied().min_by_key(|one| one.abs_diff(missing));
        let moved = moved.map(|near| Wish { socket: Some(near), ..wish.clone() });
        let nearest = moved.filter(|wish| lineup.clone().add(wish).is_ok());
        let obstacle = Obstacle::NoSocket { socket: missing, sockets: known.into_iter().collect() };
        return PlatformError::Impossible(Box::new(Impossible {
            wish: Some(wish.clone()),
            obstacle,
            nearest,
        }));
    }
    let nearest = nearest_by(wish, &error, &mut |wish| lineup.clone().add(wish));
    let unusable = lineup.unusable(socket);
    let obstacle = match error {
        _ if !lineup.suits_any(wish) => Obstacle::NoRegion { socket, kind: wish.kind, unusable },
        PlatformError::NoSpace { largest, .. } => Obstacle::Capacity {
            want: wish.namespace.size,
            largest: super::impossible::largest_of(&nearest, wish, largest),
            socket,
            unusable,
            shared: lineup.has_wishes(),
        },
        error => Obstacle::Rule(Box::new(error)),
    };
    PlatformError::Impossible(Box::new(Impossible { wish: Some(wish.clone()), obstacle, nearest }))
}

/// Returns the socket of a region's modules, or of the region's NUMA node if they have no handle.
fn socket_of(inventory: &Inventory, region: &NdRegion) -> u16 {
    let modules = inventory.modules();
    let handle = region.mappings.iter().find_map(|mapping| {
        modules.iter().find(|module| module.number == mapping.module).and_then(|module| module.handle)
    });
    match handle.and_then(|handle| u32::try_from(handle).ok()) {
        Some(handle) => crate::machine::Handle(handle).socket(),
        None => node(region.numa_node),
    }
}

/// Returns the socket with the number of a NUMA node; 0 without one.
fn node(number: Option<i64>) -> u16 {
    number.and_then(|number| number.try_into().ok()).unwrap_or(0)
}

impl Lineup<'_> {
    /// Returns the sockets that have regions or devices.
    fn sockets(&self) -> BTreeSet<u16> {
        let inventory = self.inventory;
        let regions = inventory.regions().into_iter().map(|region| socket_of(inventory, region));
        let devices = self.cxl().devices.iter().map(|device| node(device.numa_node));
        regions.chain(devices).collect()
    }

    /// Returns the regions and devices of these sockets that can't be used, with the reason.
    fn unusable(&self, socket: Option<u16>) -> Vec<Unusable> {
        let inventory = self.inventory;
        let here = |one: u16| socket.is_none_or(|socket| socket == one);
        let regions = inventory.regions().into_iter().filter(|one| here(socket_of(inventory, one)));
        let regions = regions.filter_map(|region| {
            let why = site::unusable(inventory, region)?;
            Some(Unusable { what: format!("region{}", region.number), why })
        });
        let devices = self.cxl().devices.iter().filter(|device| here(node(device.numa_node)));
        let devices = devices.filter_map(|device| {
            Some(Unusable { what: format!("mem{}", device.number), why: cxl::unusable(self.cxl(), device)? })
        });
        regions.chain(devices).collect()
    }
}
