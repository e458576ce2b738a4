//! Carries moves out, in steps that are each one atomic change of the directory.
//!
//! ```text
//!   stage      what is where                          a crash after it: the next command
//!   (none)     the data is at home                    begins
//!   leaving    a namespace was made for the copy      copies
//!   copied     the copy is complete                   reads both back, and destroys the namespace at home
//!   away       the data is in the other place         has nothing to do until the data is to come back
//!   returning  the namespace at home is made again    copies
//!   returned   the copy at home is complete           reads it back, and removes the other one
//! ```
//!
//! A namespace that grows is destroyed and made again in one change, so it goes from `copied` to `returning`.

use super::error::RelocateError;
use super::evacuate::{Evacuation, PlannedMove, destroy_home, find, make_in, regions_of};
use super::origin::parameters_of;
use super::record::{Place, Relocation, Stage, set_away};
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::image::{Source, export_user_data, file_digest, fill_user_data, user_digest};
use crate::namespace::{self, CreateNamespace, Namespace, NamespaceError, largest_free, size_rules, usable};
use crate::platform::Platform;
use crate::region::Region;
use crate::state::NamespaceState;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use uuid::Uuid;

impl Directory {
    /// Begins a move: makes the namespace for the copy, and records the move.
    ///
    /// # Errors
    /// Fails if the machine has changed since the plan was made, or if a system call fails.
    ///
    /// # Durability
    /// The change is atomic, and durable when this returns.
    pub fn begin_move(
        &mut self,
        planned: &PlannedMove,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<(), PlatformError> {
        if planned.begun {
            return Ok(());
        }
        if let Place::File(path) = &planned.relocation.place
            && planned.relocation.is_growth()
            && let Some(folder) = self.root().join(path).parent()
        {
            fs::create_dir_all(folder).map_err(|error| FileError {
                what: "making",
                path: folder.to_owned(),
                error,
            })?;
        }
        self.change(|platform| {
            if let Some(parameters) = &planned.parameters {
                namespace::create(platform, parameters, uuids)?;
            }
            platform.state.relocations.push(planned.relocation.clone());
            Ok::<_, PlatformError>(())
        })
    }

    /// Does the next step of a move. Returns the stage after it, or `None` if there is nothing more to do: the data is
    /// away and stays there, or it is at home again and the record of the move is gone.
    ///
    /// # Errors
    /// Fails if data can't be read or differs from its copy, if there is no room at home, if a system call fails, or if
    /// the user stops. The step can be repeated then.
    ///
    /// # Durability
    /// Each step is atomic, and durable when this returns. Data is destroyed only after its copy is durable and was read
    /// back.
    pub fn advance_move(
        &mut self,
        uuid: Uuid,
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Option<Stage>, PlatformError> {
        let found = self.platform().state.relocations.iter().find(|one| one.uuid == uuid);
        let Some(mut relocation) = found.cloned() else { return Ok(None) };
        if let Place::File(path) = &mut relocation.place {
            // That of a growth is relative to the directory.
            *path = self.root().join(&path);
        }
        let next = match relocation.stage {
            Stage::Leaving => self.copy_out(&relocation, progress)?,
            Stage::Copied => self.free_home(&relocation, uuids, progress)?,
            Stage::Away if !relocation.returns => return Ok(None),
            Stage::Away => {
                self.change(|platform| {
                    make_home(platform, &relocation, None, uuids)?;
                    set_stage(platform, uuid, Stage::Returning, None);
                    Ok::<_, PlatformError>(())
                })?;
                Stage::Returning
            }
            Stage::Returning => self.copy_home(&relocation, progress)?,
            Stage::Returned => {
                self.free_place(&relocation, progress)?;
                return Ok(None);
            }
        };
        Ok(Some(next))
    }

    /// Does all steps of moves that are left, as [`advance_move`](Directory::advance_move) does one. Calls `done` with each
    /// move and the stage that it has reached; `None` if nothing is left to do.
    ///
    /// # Errors
    /// Those of [`advance_move`](Directory::advance_move). What was done stays, and the next call goes on.
    pub fn finish_moves(
        &mut self,
        moves: &[Uuid],
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
        done: &mut dyn FnMut(Uuid, Option<Stage>),
    ) -> Result<(), PlatformError> {
        for uuid in moves {
            while let Some(stage) = self.advance_move(*uuid, uuids, progress)? {
                done(*uuid, Some(stage));
            }
            done(*uuid, None);
        }
        Ok(())
    }

    /// Carries an evacuation out, one namespace after the other.
    ///
    /// # Errors
    /// Those of [`begin_move`](Directory::begin_move) and [`advance_move`](Directory::advance_move). What was done stays; a
    /// new plan has the rest.
    pub fn evacuate(
        &mut self,
        plan: &Evacuation,
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
        done: &mut dyn FnMut(Uuid, Option<Stage>),
    ) -> Result<(), PlatformError> {
        for planned in &plan.moves {
            self.begin_move(planned, uuids)?;
            self.finish_moves(&[planned.relocation.uuid], uuids, progress, done)?;
        }
        Ok(())
    }

    fn copy_out(
        &mut self,
        relocation: &Relocation,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Stage, PlatformError> {
        let (region, home) = at_home(self.platform(), relocation)?;
        self.check_unmapped(&region, &home)?;
        let uuid = relocation.uuid;
        let record = |digest| {
            move |platform: &mut Platform| {
                set_stage(platform, uuid, Stage::Copied, Some(digest));
                Ok::<_, PlatformError>(())
            }
        };
        match &relocation.place {
            Place::Namespace(other) => {
                let (to, copy) = at(self.platform(), relocation, *other)?;
                self.check_unmapped(&to, &copy)?;
                let mut staged = self.stage()?;
                let from = Source::Namespace(&region, &home);
                let digest = fill_user_data(&mut self.media(), from, (&to, &copy), &mut staged, progress)?;
                self.change_media(staged, record(digest))?;
            }
            Place::File(path) => {
                // A file with this name is that of an earlier try: the name was free when the move began.
                remove(path)?;
                let digest = export_user_data(&mut self.media(), (&region, &home), path, progress)?;
                self.change(record(digest))?;
            }
        }
        Ok(Stage::Copied)
    }

    /// Reads the namespace and its copy back, and destroys the namespace.
    fn free_home(
        &mut self,
        relocation: &Relocation,
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Stage, PlatformError> {
        let (region, home) = at_home(self.platform(), relocation)?;
        self.check_unmapped(&region, &home)?;
        let mut media = self.media();
        let original = user_digest(&mut media, (&region, &home), progress)?;
        let copy = match &relocation.place {
            Place::Namespace(other) => {
                let (to, copy) = at(self.platform(), relocation, *other)?;
                Some(user_digest(&mut media, (&to, &copy), progress)?)
            }
            Place::File(path) => match file_digest(path, progress) {
                // The file is gone, or can't be read. The data is at home.
                Err(PlatformError::File(_)) => None,
                digest => Some(digest?),
            },
        };
        let uuid = relocation.uuid;
        if copy.as_ref() != Some(&original) || relocation.digest != copy {
            self.change(|platform| {
                set_stage(platform, uuid, Stage::Leaving, None);
                Ok::<_, PlatformError>(())
            })?;
            return Err(differs(self.platform(), relocation));
        }
        // Reading takes long.
        self.check_unmapped(&region, &home)?;
        self.change(|platform| {
            destroy_home(platform, relocation)?;
            if relocation.is_growth() {
                make_home(platform, relocation, Some(region.number), uuids)?;
                keep_number(platform, &home);
                set_stage(platform, uuid, Stage::Returning, None);
                return Ok(Stage::Returning);
            }
            set_away(&mut platform.state.relocations, relocation);
            Ok::<_, PlatformError>(Stage::Away)
        })
    }

    fn copy_home(
        &mut self,
        relocation: &Relocation,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Stage, PlatformError> {
        let (to, home) = at_home(self.platform(), relocation)?;
        self.check_unmapped(&to, &home)?;
        let mut staged = self.stage()?;
        let mut media = self.media();
        let digest = match &relocation.place {
            Place::Namespace(other) => {
                let (region, copy) = at(self.platform(), relocation, *other)?;
                let from = Source::Namespace(&region, &copy);
                fill_user_data(&mut media, from, (&to, &home), &mut staged, progress)?
            }
            Place::File(path) => {
                check_file(path, relocation)?;
                let digest =
                    fill_user_data(&mut media, Source::File(path), (&to, &home), &mut staged, progress)?;
                if relocation.digest.as_ref().is_some_and(|known| *known != digest) {
                    let (path, device) = (path.clone(), relocation.device.clone());
                    return Err(RelocateError::FileChanged { path, device }.into());
                }
                digest
            }
        };
        let uuid = relocation.uuid;
        self.change_media(staged, |platform| {
            set_stage(platform, uuid, Stage::Returned, Some(digest));
            Ok::<_, PlatformError>(())
        })?;
        Ok(Stage::Returned)
    }

    /// Reads the namespace at home back, and removes the copy and the record.
    fn free_place(
        &mut self,
        relocation: &Relocation,
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        let (region, home) = at_home(self.platform(), relocation)?;
        let mut media = self.media();
        let digest = user_digest(&mut media, (&region, &home), progress)?;
        // Without a digest, the data at home is taken as it is. The copy stays then if it differs.
        let is_same = match (&relocation.digest, &relocation.place) {
            (Some(known), _) if *known == digest => true,
            (Some(_), place) => {
                let place = place_name(self.platform(), place);
                return Err(RelocateError::HomeDiffers { device: home.device(), place }.into());
            }
            (None, Place::File(path)) => path.is_file() && file_digest(path, progress)? == digest,
            (None, Place::Namespace(other)) => match find(self.platform(), *other) {
                Some((to, copy)) => user_digest(&mut media, (&to, &copy), progress)? == digest,
                None => false,
            },
        };
        if let Place::File(path) = &relocation.place
            && is_same
        {
            remove(path)?;
            if let Some(folder) = path.parent().filter(|_| relocation.is_growth()) {
                // It stays while another namespace grows.
                let _ = fs::remove_dir(folder);
            }
        }
        let uuid = relocation.uuid;
        self.change(|platform| {
            if is_same
                && let Place::Namespace(other) = relocation.place
                && let Some((_, copy)) = find(platform, other)
            {
                namespace::destroy(platform, &copy.device(), true)?;
            }
            platform.state.relocations.retain(|one| one.uuid != uuid);
            Ok::<_, PlatformError>(())
        })
    }

    /// Drops the records of moves whose namespace was destroyed, or whose copy was destroyed before it was complete.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn settle_moves(&mut self) -> Result<(), PlatformError> {
        let mut settled = self.platform().clone();
        settle(&mut settled)?;
        if settled.state.relocations == self.platform().state.relocations {
            return Ok(());
        }
        self.change(settle)
    }
}

fn settle(platform: &mut Platform) -> Result<(), PlatformError> {
    for one in platform.state.relocations.clone() {
        let home = find(platform, one.uuid).is_some();
        let copy = match &one.place {
            Place::Namespace(other) => find(platform, *other),
            Place::File(_) => None,
        };
        let is_namespace = matches!(one.place, Place::Namespace(_));
        let uuid = one.uuid;
        match one.stage {
            Stage::Leaving | Stage::Copied if !home => {
                if let Some((_, copy)) = copy.filter(|_| one.stage == Stage::Leaving) {
                    namespace::destroy(platform, &copy.device(), true)?;
                }
                platform.state.relocations.retain(|other| other.uuid != uuid);
            }
            Stage::Leaving | Stage::Copied if is_namespace && copy.is_none() => {
                platform.state.relocations.retain(|other| other.uuid != uuid);
            }
            Stage::Returning | Stage::Returned if !home => {
                set_stage(platform, uuid, Stage::Away, None);
                // A growth has no other command that brings it back.
                let away = platform.state.relocations.iter_mut().find(|other| other.uuid == uuid);
                away.filter(|one| one.is_growth()).into_iter().for_each(|one| one.returns = true);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the namespace at home again, with its UUID: with its former size if that has room for the data. `only` is the
/// number of the one region that is tried.
pub(super) fn make_home(
    platform: &mut Platform,
    relocation: &Relocation,
    only: Option<u32>,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<(), PlatformError> {
    let mut regions = match relocation.module {
        Some(module) => regions_of(platform, &[module]),
        None => platform.module_regions(),
    };
    regions.retain(|region| only.is_none_or(|only| region.number == only));
    regions.retain(|region| region.enabled && namespace::has_labels(platform, region));
    regions.sort_by_key(|region| region.members().len() != relocation.ways);
    let mut largest = 0;
    for region in &regions {
        let wanted = CreateNamespace { uuid: Some(relocation.uuid), ..parameters_of(relocation) };
        let rules = size_rules(platform, region);
        let size = rules.rounded_up(&wanted, relocation.grow_to.unwrap_or(relocation.size))?;
        let has_room = usable(platform, region, &wanted, size).is_ok_and(|bytes| bytes >= relocation.usable);
        let made = if has_room {
            let exact = CreateNamespace { region: Some(region.number), size: Some(size), ..wanted };
            namespace::create(platform, &exact, uuids).map(drop)
        } else if relocation.is_growth() {
            Err(NamespaceError::NoSpace { region: None, want: size, largest: largest_free(platform, region) })
        } else {
            make_in(platform, region, wanted, relocation.usable, uuids).map(drop)
        };
        match made {
            Ok(()) => return Ok(()),
            Err(NamespaceError::NoSpace { largest: here, .. }) => largest = largest.max(here),
            Err(error) => return Err(error.into()),
        }
    }
    let (device, size) = (relocation.device.clone(), relocation.grow_to.unwrap_or(relocation.size));
    let missing = size.saturating_sub(largest);
    Err(match relocation.module {
        Some(module) => RelocateError::NoRoomAtHome { device, module, size, missing }.into(),
        None => NamespaceError::NoSpace { region: None, want: size, largest }.into(),
    })
}

/// Gives a namespace that was made again the number that it had.
fn keep_number(platform: &mut Platform, before: &Namespace) {
    let Some(uuid) = before.uuid else { return };
    platform.state.namespaces.retain(|known| known.uuid != uuid);
    platform.state.namespaces.push(NamespaceState { uuid, number: before.number, disabled: false });
}

fn set_stage(platform: &mut Platform, uuid: Uuid, stage: Stage, digest: Option<String>) {
    if let Some(one) = platform.state.relocations.iter_mut().find(|one| one.uuid == uuid) {
        one.stage = stage;
        if digest.is_some() {
            one.digest = digest;
        }
    }
}

fn at_home(platform: &Platform, relocation: &Relocation) -> Result<(Region, Namespace), PlatformError> {
    let unknown = || NamespaceError::UnknownNamespace { name: relocation.device.clone() };
    let (region, namespace) = find(platform, relocation.uuid).ok_or_else(unknown)?;
    enabled(region, namespace)
}

/// Returns the namespace that holds the data meanwhile.
fn at(
    platform: &Platform,
    relocation: &Relocation,
    other: Uuid,
) -> Result<(Region, Namespace), PlatformError> {
    let gone = || RelocateError::PlaceGone {
        device: relocation.device.clone(),
        place: format!("the namespace {other}"),
    };
    let (region, namespace) = find(platform, other).ok_or_else(gone)?;
    enabled(region, namespace)
}

fn enabled(region: Region, namespace: Namespace) -> Result<(Region, Namespace), PlatformError> {
    if region.enabled {
        Ok((region, namespace))
    } else {
        Err(NamespaceError::RegionDisabled { region: region.number }.into())
    }
}

fn differs(platform: &Platform, relocation: &Relocation) -> PlatformError {
    let place = place_name(platform, &relocation.place);
    RelocateError::CopyDiffers { device: relocation.device.clone(), place }.into()
}

fn place_name(platform: &Platform, place: &Place) -> String {
    match place {
        Place::Namespace(other) => {
            find(platform, *other).map_or_else(|| other.to_string(), |(_, copy)| copy.device())
        }
        Place::File(path) => path.display().to_string(),
    }
}

/// Checks that the place of data that is to come back is there.
pub(super) fn check_place(platform: &Platform, relocation: &Relocation) -> Result<(), PlatformError> {
    match &relocation.place {
        Place::Namespace(other) => at(platform, relocation, *other).map(drop),
        Place::File(path) => Ok(check_file(path, relocation)?),
    }
}

fn check_file(path: &Path, relocation: &Relocation) -> Result<(), RelocateError> {
    if path.is_file() {
        return Ok(());
    }
    let (device, place) = (relocation.device.clone(), path.display().to_string());
    Err(RelocateError::PlaceGone { device, place })
}

/// Removes a file durably. Does nothing if it is missing.
fn remove(path: &Path) -> Result<(), FileError> {
    let failed = |error| FileError { what: "removing", path: path.to_owned(), error };
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(failed)?,
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}
