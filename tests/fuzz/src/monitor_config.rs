//! Configuration files of `ndctl monitor`: any text parses to an error with its line, or to values without line ends.

use lode_platform::monitor::MonitorConfig;

/// Parses the bytes as a configuration file.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match MonitorConfig::parse(text) {
        Ok(config) => {
            let values = [
                &config.bus,
                &config.dimm,
                &config.region,
                &config.namespace,
                &config.dimm_event,
                &config.log,
            ];
            for value in values.into_iter().flatten() {
                assert!(!value.is_empty() && !value.contains('\n'));
            }
            assert_eq!(config.clone().with_options(MonitorConfig::default()), config);
        }
        Err(fault) => assert!(fault.to_string().starts_with("line ")),
    }
}

/// Returns the file of ndctl 76 with each key set, and one of an older version.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let sections = "[core]\nkey_path = /etc/ndctl/keys\n\n[monitor]\n# dimm = all\ndimm = nmem0 nmem1\nbus = ACPI.NFIT\n\
                    region = region0\nnamespace = namespace0.0\ndimm-event = all\nlog = standard\n";
    vec![("sections", sections.into()), ("old", b"dimm=all\ndimm = 1\n".to_vec())]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn mixed_seeds_never_panic() {
        crate::run_mixed_seeds(&seeds(), 300, run);
    }
}
