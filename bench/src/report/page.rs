use crate::run::Laps;
use anyhow::Result;
pub(super) fn render(_laps: &Laps) -> Result<String> {
    Ok(String::new())
}
