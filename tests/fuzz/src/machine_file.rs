//! Machine files: any text parses to an error with its place, or to a machine that survives a round trip.

use lode_platform::machine::{INCLUDED, Machine, Module, template};

/// A module for `lode platform extend`.
const MODULES: &[u8] =
    b"[[module]]\nhandle = 0x0201\nphysical_id = 9\nlocator = \"A\"\ncapacity = \"1344MiB\"\n\
    id = \"8089-a2-2140-00000009\"\n";

/// Parses the bytes as a machine file, and as the description of new modules.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Machine::parse(text) {
        Ok(machine) => {
            let written = machine.text(&["a note".to_owned()]);
            assert_eq!(Machine::parse(&written).as_ref(), Ok(&machine), "{written}");
        }
        Err(error) => assert!(error.to_string().starts_with("line "), "{error}"),
    }
    if let Err(error) = Module::parse_all(text) {
        assert!(error.to_string().starts_with("line "), "{error}");
    }
}

/// Returns a machine with each field, and an included one.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("template", template().into_bytes()),
        ("lab-pair", INCLUDED[4].1.as_bytes().to_vec()),
        ("modules", MODULES.to_vec()),
    ]
}
