//! Requested namespaces on the command line: each option belongs to the request before it.

use crate::size;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use lode_platform::plan::NamespaceRequest;
use lode_platform::{CreateNamespace, MapLocation, Mode, PersistentKind};
use std::collections::{BTreeMap, HashSet};
use std::mem;

/// The size of a namespace as large as possible.
const MAX: &str = "max";
/// The option that requests a namespace by the bytes of its file system.
const USABLE: &str = "usable";
const MODES: [Mode; 4] = [Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw];

/// Requested namespaces, in the order of the command line.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pub(super) namespaces: Vec<NamespaceRequest>,
    /// Sockets that were named without any request.
    pub(super) sockets: Vec<u16>,
}

/// A property that an option gives to a request.
#[derive(Clone)]
enum RequestOption {
    Socket(u16),
    Kind(PersistentKind),
    Map(MapLocation),
    Align(u64),
    SectorSize(u64),
    Name(String),
}

impl RequestOption {
    fn apply(&self, request: &mut NamespaceRequest) {
        let wanted = &mut request.namespace;
        match self {
            RequestOption::Socket(socket) => request.socket = Some(*socket),
            RequestOption::Kind(kind) => request.kind = Some(*kind),
            RequestOption::Map(map) => wanted.map = *map,
            RequestOption::Align(bytes) => wanted.align = Some(*bytes),
            RequestOption::SectorSize(bytes) => wanted.sector_size = Some(*bytes),
            RequestOption::Name(name) => wanted.name.clone_from(name),
        }
    }
}

impl RequestOption {
    /// Returns the error for a request with two options of this kind.
    fn duplicate_error(&self, request: &NamespaceRequest) -> clap::Error {
        let option = match self {
            RequestOption::Socket(_) => "--socket",
            RequestOption::Kind(_) => "--interleaved or --not-interleaved",
            RequestOption::Map(_) => "--map",
            RequestOption::Align(_) => "--align",
            RequestOption::SectorSize(_) => "--sector-size",
            RequestOption::Name(_) => "--name",
        };
        let message =
            format!("{option} is there twice for the request {}; leave one of them out", request.options());
        clap::Error::raw(ErrorKind::ArgumentConflict, message)
    }
}

/// Returns the values of an option with their positions on the command line.
fn option_values<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    option: impl Fn(T) -> Option<RequestOption>,
) -> Vec<(usize, RequestOption)> {
    let indices = matches.indices_of(id).into_iter().flatten();
    let values = matches.get_many::<T>(id).into_iter().flatten().cloned();
    indices.zip(values).filter_map(|(index, value)| option(value).map(|value| (index, value))).collect()
}

impl FromArgMatches for Requests {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Requests, clap::Error> {
        let mut requests: BTreeMap<usize, NamespaceRequest> = BTreeMap::new();
        for mode in MODES {
            let indices = matches.indices_of(mode.as_str()).into_iter().flatten();
            let sizes = matches.get_many::<SizeOrMax>(mode.as_str()).into_iter().flatten();
            requests.extend(indices.zip(sizes).map(|(index, size)| {
                let namespace = CreateNamespace { mode, size: size.0, ..CreateNamespace::default() };
                (index, NamespaceRequest { namespace, ..NamespaceRequest::default() })
            }));
        }
        let indices = matches.indices_of(USABLE).into_iter().flatten();
        let sizes = matches.get_many::<u64>(USABLE).into_iter().flatten();
        requests.extend(indices.zip(sizes).map(|(index, size)| {
            (index, NamespaceRequest { usable: Some(*size), ..NamespaceRequest::default() })
        }));
        let kind = |kind| move |on: bool| on.then_some(RequestOption::Kind(kind));
        let mut all = option_values(matches, "socket", |socket| Some(RequestOption::Socket(socket)));
        all.extend(option_values(matches, "interleaved", kind(PersistentKind::AppDirect)));
        all.extend(option_values(matches, "not-interleaved", kind(PersistentKind::AppDirectNotInterleaved)));
        all.extend(option_values(matches, "map", |word: String| {
            Some(RequestOption::Map(if word == "mem" { MapLocation::Mem } else { MapLocation::Dev }))
        }));
        all.extend(option_values(matches, "align", |bytes| Some(RequestOption::Align(bytes))));
        all.extend(option_values(matches, "sector-size", |bytes| Some(RequestOption::SectorSize(bytes))));
        all.extend(option_values(matches, "name", |name| Some(RequestOption::Name(name))));
        let first = requests.keys().next().copied();
        let is_before = |index: &usize| first.is_none_or(|first| *index < first);
        // An option before the first request applies to each request that does not override it.
        let (leading, trailing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(index, _)| is_before(index));
        for request in requests.values_mut() {
            leading.iter().for_each(|(_, option)| option.apply(request));
        }
        let mut given = HashSet::new();
        for (index, option) in trailing {
            if let Some((of, request)) = requests.range_mut(..index).next_back() {
                if !given.insert((*of, mem::discriminant(&option))) {
                    return Err(option.duplicate_error(request));
                }
                option.apply(request);
            }
        }
        let socket = |(_, option): &(usize, RequestOption)| match option {
            RequestOption::Socket(socket) => Some(*socket),
            _ => None,
        };
        let sockets =
            if requests.is_empty() { leading.iter().filter_map(socket).collect() } else { Vec::new() };
        Ok(Requests { namespaces: requests.into_values().collect(), sockets })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Requests::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Requests {
    fn augment_args(command: Command) -> Command {
        let request = |mode: Mode, what: &'static str| {
            let arg = Arg::new(mode.as_str()).long(mode.as_str()).value_name("SIZE");
            arg.value_parser(SizeOrMax::parse).action(ArgAction::Append).help(what)
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
            .arg(request(Mode::Fsdax, "A namespace for file systems that map files: so many bytes, or max"))
            .arg(request(Mode::Devdax, "A namespace that is a character device"))
            .arg(request(Mode::Sector, "A namespace with atomic sectors"))
            .arg(request(Mode::Raw, "A namespace that is left as it is"))
            .arg(
                option(USABLE, "SIZE", "Like --fsdax, with so many bytes for the file system on it")
                    .value_parser(size::parse),
            )
            .arg(option("socket", "N", "On this socket").value_parser(value_parser!(u16)))
            .arg(flag("interleaved", "Over several modules"))
            .arg(flag("not-interleaved", "On one module"))
            .arg(
                option("map", "PLACE", "Place of its page map: mem for DRAM, dev for the namespace")
                    .value_parser(PossibleValuesParser::new(["mem", "dev"])),
            )
            .arg(option("align", "SIZE", "Alignment of mappings: 4K, 2M or 1G").value_parser(size::parse))
            .arg(option("sector-size", "SIZE", "Bytes of a sector").value_parser(size::parse))
            .arg(option(
                "name",
                "NAME",
                "Its name. An existing namespace that is as requested fulfils the request",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Requests::augment_args(command)
    }
}

/// Bytes, or `None` for as many as possible.
#[derive(Clone, Copy, Debug)]
struct SizeOrMax(Option<u64>);

impl SizeOrMax {
    fn parse(word: &str) -> Result<SizeOrMax, String> {
        if word == MAX {
            return Ok(SizeOrMax(None));
        }
        size::parse(word).map(|bytes| SizeOrMax(Some(bytes)))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn try_parse(line: &str) -> Result<Requests, clap::Error> {
        let command = Requests::augment_args(Command::new("plan"));
        let words = ["plan"].into_iter().chain(line.split_whitespace());
        Requests::from_arg_matches(&command.try_get_matches_from(words).unwrap())
    }

    fn parse(line: &str) -> Requests {
        try_parse(line).unwrap()
    }

    #[test]
    fn duplicate_request_options_are_rejected() {
        for (line, message_part) in [
            (
                "--fsdax 1G --interleaved --not-interleaved",
                "--interleaved or --not-interleaved is there twice",
            ),
            (
                "--raw 1G --socket 0 --sector 1G --socket 0 --socket 1",
                "for the request --sector 1GiB --socket 0;",
            ),
        ] {
            let error = try_parse(line).unwrap_err().to_string();
            assert!(error.contains(message_part), "{error}");
        }
    }

    #[test]
    fn options_apply_to_preceding_request() {
        let parsed = parse(
            "--fsdax 1.5TiB --socket 0 --interleaved --devdax max --socket 1 --name two --usable 1G --name three",
        );
        let options: Vec<String> = parsed.namespaces.iter().map(NamespaceRequest::options).collect();
        let expected = [
            "--fsdax 1536GiB --socket 0 --interleaved",
            "--devdax max --socket 1 --name=two",
            "--usable 1GiB --name=three",
        ];
        assert_eq!(options, expected);
        assert!(parsed.sockets.is_empty());
    }

    #[test]
    fn leading_options_are_defaults_for_requests() {
        let parsed = parse("--socket 1 --not-interleaved --sector 64M --raw 32M --socket 0 --interleaved");
        let options: Vec<String> = parsed.namespaces.iter().map(NamespaceRequest::options).collect();
        assert_eq!(
            options,
            ["--sector 64MiB --socket 1 --not-interleaved", "--raw 32MiB --socket 0 --interleaved"]
        );
        assert_eq!(parse("--socket 1 --socket 3").sockets, [1, 3]);
    }
}
