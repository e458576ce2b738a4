//! `ipmctl show -preferences`.

use super::display::{DisplayOptions, print};
use super::error::ShowError;
use crate::listing::{Record, Records};

/// Shows the preferences of the factory. ipmctl keeps others in a file of its own, which an emulated machine has not.
pub(super) fn show(display: &DisplayOptions) -> Result<String, ShowError> {
    let record = Record::new()
        .with("CLI_DEFAULT_DIMM_ID", "HANDLE")
        .with("CLI_DEFAULT_SIZE", "GiB")
        .with("APPDIRECT_SETTINGS", "RECOMMENDED")
        .with("DBG_LOG_LEVEL", 0);
    let records = vec![record];
    print(Records { list_tag: "Preferences", tag: "", part_tag: "", head: None, records }, &[], display)
}
