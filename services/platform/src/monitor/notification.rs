//! The JSON of one notification.

use crate::listing::{Fields, Json};
use crate::ndctl::{Included, NdModule};
use crate::smart::SmartEvent;
use std::time::Duration;

/// A notification of events of a module.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// Time since the start of 1970.
    pub time: Duration,
    /// The process that observed them.
    pub pid: u32,
    /// The observed events with their flags.
    pub events: &'a [(SmartEvent, bool)],
    /// The module, as listings have it.
    pub module: &'a NdModule,
}

impl Notification<'_> {
    /// Formats the notification as ndctl does: in one line, or over several lines for people. Ends with a line feed.
    pub fn print(&self, human: bool) -> String {
        let mut event = Fields::default();
        self.events.iter().for_each(|(name, flag)| event.add(name.as_str(), Json::Flag(*flag)));
        let mut fields = Fields::default();
        let time = format!("{:10}.{:09}", self.time.as_secs(), self.time.subsec_nanos());
        fields.add("timestamp", Json::Text(time));
        fields.add("pid", Json::Number(self.pid.into()));
        fields.add("event", Json::Object(event.into()));
        fields.add("dimm", self.module.json(&Included { health: true, ..Included::default() }));
        let json = Json::Object(fields.into());
        let text = if human { json.print(false) } else { json.print_line() };
        text + "\n"
    }
}
