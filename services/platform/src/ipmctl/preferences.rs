//! `ipmctl show -preferences`.

use super::display::{DisplayOptions, is_first_generation, print};
use super::error::ShowError;
use crate::listing::{Record, Records, Unit};
use crate::platform::Platform;
use crate::preferences::{AppDirectSettings, DimmId, Granularity, word_of};

/// Shows the preferences of a machine.
pub(super) fn show(platform: &Platform, display: &DisplayOptions) -> Result<String, ShowError> {
    let preferences = &platform.state.preferences;
    let record = Record::new()
        .with("CLI_DEFAULT_DIMM_ID", word_of(&DimmId::ALL, preferences.dimm_id))
        .with("CLI_DEFAULT_SIZE", word_of(&Unit::PREFERRED, preferences.size))
        .with("APPDIRECT_SETTINGS", word_of(&AppDirectSettings::ALL, preferences.app_direct));
    let record = if is_first_generation(&platform.machine) {
        record.with("APPDIRECT_GRANULARITY", word_of(&Granularity::ALL, preferences.granularity))
    } else {
        record
    };
    let records = vec![record.with("DBG_LOG_LEVEL", u16::from(u8::from(preferences.log_level)))];
    print(Records { list_tag: "Preferences", tag: "", part_tag: "", head: None, records }, &[], display)
}
