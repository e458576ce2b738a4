//! Loads the platform from the files of a directory.

use super::error::DirectoryError;
use super::paths::{MACHINE, STATE, cxl_labels_path, labels_path, media_path};
use super::pending::Pending;
use super::validate;
use crate::contents::Contents;
use crate::cxl::area_of_text;
use crate::file::error::FileError;
use crate::firmware;
use crate::machine::{Machine, MachineError};
use crate::namespace::info_block_locations;
use crate::platform::Platform;
use crate::security;
use crate::state::{STATE_FORMAT, State};
use serde::Deserialize;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Loads the platform from a directory, as it is after the pending change.
pub(super) fn load(root: &Path, pending: &Pending) -> Result<Platform, DirectoryError> {
    let no_state = || DirectoryError::NoState { path: root.to_owned() };
    let state_text = match pending.text(STATE) {
        Some(text) => text.to_owned(),
        None => read(root, STATE)?.ok_or_else(no_state)?,
    };
    let state = parse_state(root, &state_text)?;
    let text = match pending.text(MACHINE) {
        Some(text) => text.to_owned(),
        None => read(root, MACHINE)?.ok_or_else(no_state)?,
    };
    let path = root.join(MACHINE);
    let machine = Machine::parse(&text).map_err(|error| machine_error(&path, error))?;
    validate::check(&state, &machine, &state_text).map_err(|(line, fault)| DirectoryError::Invalid {
        path: root.join(STATE),
        machine: path,
        line,
        fault,
    })?;
    let mut platform = Platform { machine, state, contents: Contents::default() };
    security::settle_all(&mut platform);
    firmware::settle_all(&mut platform);
    load_areas(root, pending, &mut platform)?;
    load_cxl_areas(root, pending, &mut platform)?;
    load_blocks(root, pending, &mut platform)?;
    Ok(platform)
}

/// Loads the label areas. An area without allocated blocks was never written, and is not read.
fn load_areas(root: &Path, pending: &Pending, platform: &mut Platform) -> Result<(), DirectoryError> {
    for module in &platform.machine.modules {
        let file = labels_path(module.handle);
        let path = pending.path(root, &file);
        let is_written = pending.next_data(&file, 0..u64::MAX).is_some();
        let read = fs::metadata(&path).and_then(|meta| {
            if meta.blocks() == 0 && !is_written { Ok(None) } else { fs::read(&path).map(Some) }
        });
        match read {
            Ok(Some(mut bytes)) => {
                pending.apply(&file, 0, &mut bytes);
                platform.contents.load_area(module.handle, &bytes);
            }
            Ok(None) => {}
            Err(error) => return Err(FileError { what: "reading", path, error }.into()),
        }
    }
    Ok(())
}

/// Loads the label areas of the CXL devices. A damaged one stays unknown, and its device unused: other devices work.
fn load_cxl_areas(root: &Path, pending: &Pending, platform: &mut Platform) -> Result<(), DirectoryError> {
    for (device, hardware) in (0..).zip(&platform.machine.cxl.devices) {
        let file = cxl_labels_path(device);
        let text = match pending.text(&file) {
            Some(text) => text.to_owned(),
            None => read_labels(root, &file)?,
        };
        if let Some(bytes) = area_of_text(&text, hardware.label_area) {
            platform.contents.load_cxl_area(device, bytes);
        }
    }
    Ok(())
}

/// Loads the readable info blocks of the labelled namespaces.
fn load_blocks(root: &Path, pending: &Pending, platform: &mut Platform) -> Result<(), DirectoryError> {
    for (module, off, len) in info_block_locations(platform) {
        // Like the kernel, this ignores an unreadable info block.
        if platform.state.unreadable(module, &(off..off + len)).is_some() {
            continue;
        }
        let file = media_path(module);
        let path = pending.path(root, &file);
        let mut bytes = vec![0; len as usize];
        match File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, off)) {
            // The media of a CXL device are made by the first write.
            Err(error) if error.kind() == io::ErrorKind::NotFound && module.cxl_device().is_some() => {}
            read => read.map_err(|error| FileError { what: "reading", path, error })?,
        }
        pending.apply(&file, off, &mut bytes);
        platform.contents.load_block(module, off, bytes);
    }
    Ok(())
}

/// Makes the error of a machine file.
pub(super) fn machine_error(source: &Path, error: MachineError) -> DirectoryError {
    DirectoryError::Machine { path: source.to_owned(), error }
}

/// Reads a text file of the directory; `None` if there is no such file.
pub(super) fn read(root: &Path, name: &str) -> Result<Option<String>, DirectoryError> {
    let path = root.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError { what: "reading", path, error }.into()),
    }
}

/// Reads the text of a CXL device's label area, with replacements for bytes that are no text; empty if there is no file.
pub(super) fn read_labels(root: &Path, name: &str) -> Result<String, FileError> {
    let path = root.join(name);
    match fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(FileError { what: "reading", path, error }),
    }
}

/// Parses a text file of the directory.
pub(super) fn parse<T: for<'a> Deserialize<'a>>(
    root: &Path,
    name: &str,
    text: &str,
) -> Result<T, DirectoryError> {
    toml::from_str(text).map_err(|error: toml::de::Error| DirectoryError::Corrupt {
        path: root.join(name),
        line: error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1),
        message: error.message().to_owned(),
    })
}

/// Parses a state. Checks the format first, since a newer one may have other fields.
fn parse_state(root: &Path, text: &str) -> Result<State, DirectoryError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = parse(root, STATE, text)?;
    if format > STATE_FORMAT {
        return Err(DirectoryError::Newer { path: root.to_owned(), found: format, known: STATE_FORMAT });
    }
    parse(root, STATE, text)
}
