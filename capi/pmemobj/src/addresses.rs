//! The addresses of the open pools of the process.

use lode_capi_entry::AddressTable;

/// A range for each open pool. `number` is that of its OIDs, `word` the address of its `OpenPool`.
pub(crate) static POOLS: AddressTable = AddressTable::new();
