//! Wishes on the command line: each option belongs to the wish before it.

use crate::size;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use lode_platform::plan::Wish;
use lode_platform::{CreateNamespace, MapPlace, Mode, PersistentKind};
use std::collections::{BTreeMap, HashSet};
use std::mem;

/// The word for a namespace as large as possible.
const MAX: &str = "max";
const MODES: [Mode; 4] = [Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw];

/// Requested namespaces, in the order of the command line.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    pub(super) wishes: Vec<Wish>,
    /// Sockets that were named without any wish.
    pub(super) sockets: Vec<u16>,
}

/// A property that an option gives to a wish.
#[derive(Clone)]
enum Said {
    Socket(u16),
    Kind(PersistentKind),
    Map(MapPlace),
    Align(u64),
    SectorSize(u64),
    Name(String),
}

impl Said {
    fn apply(&self, wish: &mut Wish) {
        let wanted = &mut wish.namespace;
        match self {
            Said::Socket(socket) => wish.socket = Some(*socket),
            Said::Kind(kind) => wish.kind = Some(*kind),
            Said::Map(place) => wanted.map = *place,
            Said::Align(bytes) => wanted.align = Some(*bytes),
            Said::SectorSize(bytes) => wanted.sector_size = Some(*bytes),
            Said::Name(name) => wanted.name.clone_from(name),
        }
    }
}

impl Said {
    /// Returns the error for a wish with two options of this kind.
    fn told_twice(&self, wish: &Wish) -> clap::Error {
        let option = match self {
            Said::Socket(_) => "--socket",
            Said::Kind(_) => "--interleaved or --not-interleaved",
            Said::Map(_) => "--map",
            Said::Align(_) => "--align",
            Said::SectorSize(_) => "--sector-size",
            Said::Name(_) => "--name",
        };
        let message =
            format!("{option} is there twice for the wish {}; leave one of them out", wish.options());
        clap::Error::raw(ErrorKind::ArgumentConflict, message)
    }
}

/// Returns the values of an option with their positions on the command line.
fn said<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    said: impl Fn(T) -> Option<Said>,
) -> Vec<(usize, Said)> {
    let places = matches.indices_of(id).into_iter().flatten();
    let values = matches.get_many::<T>(id).into_iter().flatten().cloned();
    places.zip(values).filter_map(|(place, value)| said(value).map(|value| (place, value))).collect()
}

impl FromArgMatches for Wishes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Wishes, clap::Error> {
        let mut wishes: BTreeMap<usize, Wish> = BTreeMap::new();
        for mode in MODES {
            let places = matches.indices_of(mode.word()).into_iter().flatten();
            let sizes = matches.get_many::<Amount>(mode.word()).into_iter().flatten();
            wishes.extend(places.zip(sizes).map(|(place, size)| {
                let namespace = CreateNamespace { mode, size: size.0, ..CreateNamespace::default() };
                (place, Wish { namespace, ..Wish::default() })
            }));
        }
        let kind = |kind| move |on: bool| on.then_some(Said::Kind(kind));
        let mut all = said(matches, "socket", |socket| Some(Said::Socket(socket)));
        all.extend(said(matches, "interleaved", kind(PersistentKind::AppDirect)));
        all.extend(said(matches, "not-interleaved", kind(PersistentKind::AppDirectNotInterleaved)));
        all.extend(said(matches, "map", |word: String| {
            Some(Said::Map(if word == "mem" { MapPlace::Mem } else { MapPlace::Dev }))
        }));
        all.extend(said(matches, "align", |bytes| Some(Said::Align(bytes))));
        all.extend(said(matches, "sector-size", |bytes| Some(Said::SectorSize(bytes))));
        all.extend(said(matches, "name", |name| Some(Said::Name(name))));
        let first = wishes.keys().next().copied();
        let is_before = |place: &usize| first.is_none_or(|first| *place < first);
        // An option before the first wish applies to each wish that does not override it.
        let (before, behind): (Vec<_>, Vec<_>) = all.into_iter().partition(|(place, _)| is_before(place));
        for wish in wishes.values_mut() {
            before.iter().for_each(|(_, said)| said.apply(wish));
        }
        let mut told = HashSet::new();
        for (place, said) in behind {
            if let Some((of, wish)) = wishes.range_mut(..place).next_back() {
                if !told.insert((*of, mem::discriminant(&said))) {
                    return Err(said.told_twice(wish));
                }
                said.apply(wish);
            }
        }
        let socket = |(_, said): &(usize, Said)| match said {
            Said::Socket(socket) => Some(*socket),
            _ => None,
        };
        let sockets = if wishes.is_empty() { before.iter().filter_map(socket).collect() } else { Vec::new() };
        Ok(Wishes { wishes: wishes.into_values().collect(), sockets })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Wishes::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Wishes {
    fn augment_args(command: Command) -> Command {
        let wish = |mode: Mode, what: &'static str| {
            let arg = Arg::new(mode.word()).long(mode.word()).value_name("SIZE");
            arg.value_parser(Amount::parse).action(ArgAction::Append).help(what)
        };
        let option = |name: &'static str, value: &'static str, what: &'static str| {
            Arg::new(name).long(name).value_name(value).action(ArgAction::Append).help(what)
        };
        // Flags have no positions of their own, so these are options without a value.
        let flag = |name: &'static str, what: &'static str| {
            let arg = Arg::new(name).long(name).num_args(0).default_missing_value("true");
            arg.value_parser(value_parser!(bool)).action(ArgAction::Append).help(what)
        };
        command
            .arg(wish(Mode::Fsdax, "A namespace for file systems that map files: so many bytes, or max"))
            .arg(wish(Mode::Devdax, "A namespace that is a character device"))
            .arg(wish(Mode::Sector, "A namespace with atomic sectors"))
            .arg(wish(Mode::Raw, "A namespace that is left as it is"))
            .arg(option("socket", "N", "On this socket").value_parser(value_parser!(u16)))
            .arg(flag("interleaved", "Over several modules"))
            .arg(flag("not-interleaved", "On one module"))
            .arg(
                option("map", "PLACE", "Place of its page map: mem for DRAM, dev for the namespace")
                    .value_parser(PossibleValuesParser::new(["mem", "dev"])),
            )
            .arg(option("align", "SIZE", "Alignment of mappings: 4K, 2M or 1G").value_parser(size::parse))
            .arg(option("sector-size", "SIZE", "Bytes of a sector").value_parser(size::parse))
            .arg(option("name", "NAME", "Its name"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Wishes::augment_args(command)
    }
}

/// Bytes, or `None` for as many as possible.
#[derive(Clone, Copy, Debug)]
struct Amount(Option<u64>);

impl Amount {
    fn parse(word: &str) -> Result<Amount, String> {
        if word == MAX {
            return Ok(Amount(None));
        }
        size::parse(word).map(|bytes| Amount(Some(bytes)))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn read(line: &str) -> Result<Wishes, clap::Error> {
        let command = Wishes::augment_args(Command::new("plan"));
        let words = ["plan"].into_iter().chain(line.split_whitespace());
        Wishes::from_arg_matches(&command.try_get_matches_from(words).unwrap())
    }

    fn wishes(line: &str) -> Wishes {
        read(line).unwrap()
    }

    #[test]
    fn a_wish_is_told_each_thing_once() {
        for (line, twice) in [
            (
                "--fsdax 1G --interleaved --not-interleaved",
                "--interleaved or --not-interleaved is there twice",
            ),
            (
                "--raw 1G --socket 0 --sector 1G --socket 0 --socket 1",
                "for the wish --sector 1GiB --socket 0;",
            ),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(twice), "{error}");
        }
    }

    #[test]
    fn options_belong_to_the_wish_before_them() {
        let said =
            wishes("--fsdax 1.5TiB --socket 0 --interleaved --devdax max --socket 1 --name two --fsdax 1G");
        let options: Vec<String> = said.wishes.iter().map(Wish::options).collect();
        let expected = [
            "--fsdax 1536GiB --socket 0 --interleaved",
            "--devdax max --socket 1 --name=two",
            "--fsdax 1GiB",
        ];
        assert_eq!(options, expected);
        assert!(said.sockets.is_empty());
    }

    #[test]
    fn options_before_all_wishes_are_for_each_that_does_not_say_otherwise() {
        let said = wishes("--socket 1 --not-interleaved --sector 64M --raw 32M --socket 0 --interleaved");
        let options: Vec<String> = said.wishes.iter().map(Wish::options).collect();
        assert_eq!(
            options,
            ["--sector 64MiB --socket 1 --not-interleaved", "--raw 32MiB --socket 0 --interleaved"]
        );
        assert_eq!(wishes("--socket 1 --socket 3").sockets, [1, 3]);
    }
}
