//! Plans from the known state of a real machine.

use super::placement::Placement;
use crate::ndctl::Inventory;
use crate::plan::error::PlanError;
use crate::plan::request::PlanRequest;
use crate::plan::search::add_all;
use crate::plan::sequence::Plan;
use crate::sysfs::{Cxl, SysfsError};
use uuid::Uuid;

/// Plans the steps of a real machine to the requested namespaces, with their commands, from what its sysfs shows.
///
/// # Errors
/// [`Impossible`](PlanError::Impossible): a request can't be fulfilled, with the reason.
/// [`NotInSysfs`](SysfsError::NotInSysfs): the request sets the use of the rest, which only firmware can change.
pub fn for_real(inventory: &Inventory, cxl: &Cxl, request: &PlanRequest) -> Result<Plan, PlanError> {
    if request.rest.is_some() {
        let (what, ask) = ("how firmware divides modules", "ipmctl show -memoryresources");
        return Err(SysfsError::NotInSysfs { what, ask }.into());
    }
    let mut placement = Placement::new(inventory, cxl);
    let fulfilled = add_all(&mut placement, &request.namespaces, &mut Uuid::nil)?;
    Ok(placement.outcome(request, fulfilled))
}
