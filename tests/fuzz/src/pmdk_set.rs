//! A set file of PMDK: any text is refused with a line, or describes a set that survives a round trip.

use lode_pmdk::{SetFile, parse_size};

/// Reads the bytes as they are, and again after the line that all set files begin with. Then their start as a size.
pub fn run(data: &[u8]) {
    check(data);
    check(&[b"PMEMPOOLSET\n", data].concat());
    if let Some(size) = parse_size(&data[..data.len().min(24)]) {
        assert_eq!(parse_size(size.to_string().as_bytes()), Some(size));
    }
}

fn check(text: &[u8]) {
    match SetFile::parse(text) {
        Ok(set) => {
            assert!(!set.replicas.is_empty() && set.replicas.iter().all(|parts| !parts.is_empty()));
            assert!(
                set.replicas.iter().flatten().all(|part| part.path.is_absolute() && part.size != Some(0))
            );
            assert_eq!(SetFile::parse(&set.to_text()), Ok(set));
        }
        Err(error) => {
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            assert!(error.line >= 1 && error.line <= lines + 2, "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Returns a set of each shape: parts, a replica, options, a device, a remote replica.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "parts",
            text("PMEMPOOLSET\n100G /mountpoint0/myfile.part0\n200GiB /mountpoint1/myfile.part1\n400GB /c\n"),
        ),
        ("replica", text("PMEMPOOLSET\n20M /a\n\n# local replica\nREPLICA\n5M /b # first\n20M /c\n")),
        ("single_header", text("PMEMPOOLSET\nOPTION SINGLEHDR\nAUTO /dev/dax0.0\nAUTO /dev/dax1.0\n")),
        ("no_headers", text("PMEMPOOLSET\nOPTION NOHDRS\n2097152 /a")),
        ("remote", text("PMEMPOOLSET\n20M /a\nREPLICA user@example.com remote-objpool.set\n")),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_set_files() {
        for (name, text) in seeds() {
            assert_eq!(SetFile::parse(&text).is_ok(), name != "remote", "{name}");
        }
    }
}
