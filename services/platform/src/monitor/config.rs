//! Configuration file of `ndctl monitor`.
//!
//! The form is that of `/etc/ndctl.conf.d/monitor.conf` of ndctl 76: lines `KEY = VALUE` in the section `[monitor]`, with
//! comments after a `#` at the start of a line. Files without sections are those of older versions. The section `[core]`, which
//! all commands of ndctl share, may select modules, too. Other sections belong to other commands, and are skipped.

use thiserror::Error;

/// The section of the monitor.
const SECTION: &str = "monitor";
/// The section of all commands, and the keys in it that the monitor takes.
const SHARED_SECTION: &str = "core";
const SHARED_KEYS: [&str; 4] = ["bus", "dimm", "region", "namespace"];

/// Values of a configuration file. Several values of a key stand in one text, with spaces in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Buses.
    pub bus: Option<String>,
    /// Modules.
    pub dimm: Option<String>,
    /// Regions.
    pub region: Option<String>,
    /// Namespaces.
    pub namespace: Option<String>,
    /// Events.
    pub dimm_event: Option<String>,
    /// Place of the notifications.
    pub log: Option<String>,
}

/// A line of a configuration file is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// The line has no key and value.
    #[error("line {line} is not `KEY = VALUE`")]
    Form {
        /// Line, from 1.
        line: usize,
    },
    /// The monitor has no such key.
    #[error("line {line} sets {key}; the keys are bus, dimm, region, namespace, dimm-event and log")]
    Key {
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
}

impl MonitorConfig {
    /// Parses a configuration file.
    ///
    /// # Errors
    /// Fails with the first wrong line.
    pub fn parse(text: &str) -> Result<MonitorConfig, ConfigFault> {
        let mut config = MonitorConfig::default();
        let (mut is_skipped, mut is_shared) = (false, false);
        for (line, words) in (1..).zip(text.lines().map(str::trim)) {
            if words.is_empty() || words.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = words.strip_prefix('[') {
                let section = section.strip_suffix(']').ok_or(ConfigFault::Form { line })?;
                is_shared = section.trim() == SHARED_SECTION;
                is_skipped = section.trim() != SECTION && !is_shared;
                continue;
            }
            if is_skipped {
                continue;
            }
            let pair = words.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            if is_shared && !pair.is_some_and(|(key, _)| SHARED_KEYS.contains(&key)) {
                continue;
            }
            let (key, value) = pair.ok_or(ConfigFault::Form { line })?;
            let field = config.field(key).ok_or_else(|| ConfigFault::Key { line, key: key.to_owned() })?;
            if !value.is_empty() {
                *field = joined(field.take(), value);
            }
        }
        Ok(config)
    }

    /// Adds the values of options. Those of both select; the place of the notifications is that of the option.
    pub fn with_options(mut self, options: MonitorConfig) -> MonitorConfig {
        let both = [
            (&mut self.bus, options.bus),
            (&mut self.dimm, options.dimm),
            (&mut self.region, options.region),
            (&mut self.namespace, options.namespace),
            (&mut self.dimm_event, options.dimm_event),
        ];
        for (field, option) in both {
            if let Some(option) = option {
                *field = joined(field.take(), &option);
            }
        }
        self.log = options.log.or(self.log);
        self
    }

    fn field(&mut self, key: &str) -> Option<&mut Option<String>> {
        Some(match key {
            "bus" => &mut self.bus,
            "dimm" => &mut self.dimm,
            "region" => &mut self.region,
            "namespace" => &mut self.namespace,
            "dimm-event" => &mut self.dimm_event,
            "log" => &mut self.log,
            _ => return None,
        })
    }
}

fn joined(old: Option<String>, value: &str) -> Option<String> {
    Some(old.map_or_else(|| value.to_owned(), |old| format!("{old} {value}")))
}

#[cfg(test)]
mod test {
    use super::{ConfigFault, MonitorConfig};

    #[test]
    fn files_of_ndctl_are_read() {
        let text = "# a comment\n[core]\nkey_path = /x\nno key\nbus = ndbus1\n[monitor]\n  dimm = nmem0 nmem1 \ndimm=nmem2\nlog =\n\
                    dimm-event = all\n";
        let config = MonitorConfig::parse(text).unwrap();
        let expected = MonitorConfig {
            bus: Some("ndbus1".to_owned()),
            dimm: Some("nmem0 nmem1 nmem2".to_owned()),
            dimm_event: Some("all".to_owned()),
            ..MonitorConfig::default()
        };
        assert_eq!(config, expected);
        let options = MonitorConfig {
            dimm: Some("3".to_owned()),
            log: Some("y".to_owned()),
            ..MonitorConfig::default()
        };
        let old = MonitorConfig::parse("bus = all\nlog = x").unwrap();
        assert_eq!(old.bus.as_deref(), Some("all"));
        let both = old.with_options(options.clone());
        assert_eq!((both.log.as_deref(), both.bus.as_deref()), (Some("y"), Some("all")));
        assert_eq!(config.with_options(options).dimm.as_deref(), Some("nmem0 nmem1 nmem2 3"));
    }

    #[test]
    fn wrong_lines_are_located() {
        for (text, fault) in [
            ("[monitor]\ndimm nmem0", ConfigFault::Form { line: 2 }),
            ("[monitor", ConfigFault::Form { line: 1 }),
            ("\ndim = nmem0", ConfigFault::Key { line: 2, key: "dim".to_owned() }),
        ] {
            assert_eq!(MonitorConfig::parse(text), Err(fault));
        }
    }
}
