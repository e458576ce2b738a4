//! `ipmctl version`.

use super::display::{DisplayOptions, print};
use super::error::ShowError;
use crate::listing::{Format, Record, Records};
use crate::machine::IpmctlGeneration;

/// Returns ipmctl's output of its version. The name is that of the version's time.
///
/// # Errors
/// None: it has no values to select.
pub fn version(generation: IpmctlGeneration, format: Format) -> Result<String, ShowError> {
    let (product, number) = match generation {
        IpmctlGeneration::One => ("Intel(R) Optane(TM) DC Persistent Memory", "01.00.00.3474"),
        IpmctlGeneration::Two => ("Intel(R) Optane(TM) Persistent Memory", "02.00.00.3885"),
        IpmctlGeneration::Three => ("Intel(R) Optane(TM) Persistent Memory", "03.00.00.0468"),
    };
    let component = format!("{product} Command Line Interface");
    if format == Format::Text {
        return Ok(format!("{component} Version {number}\n"));
    }
    let records = vec![Record::new().with("Component", component).with("Version", number)];
    let display = DisplayOptions { format, ..DisplayOptions::default() };
    print(
        Records { list_tag: "SoftwareList", tag: "Software", part_tag: "", head: None, records },
        &[],
        &display,
    )
}
