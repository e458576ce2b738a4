//! What is fuzzed: everything that reads bytes which may come from a damaged or hostile pool.
//!
//! ```text
//!   fuzz_targets/TARGET.rs    the fuzzer, on nightly --+
//!   tests/corpora.rs          the corpus, on stable ---+--> TARGET::run(bytes)
//!   examples/seeds.rs         writes into the corpus <----- TARGET::seeds()
//! ```
//!
//! Each target is a module with one function that takes any bytes and panics if the code breaks its promise. The
//! fuzzer calls it on nightly; `make test` calls it on stable for every input in `corpus/`, where crashes that
//! were found and mended are committed too.
#![forbid(unsafe_code)]

pub mod check;
pub mod header;
pub mod image;
pub mod info_block;
pub mod label;
pub mod record;

/// The first bytes of `data`, with zeros for those that it lacks.
fn page<const LEN: usize>(data: &[u8]) -> [u8; LEN] {
    let mut page = [0; LEN];
    let len = data.len().min(LEN);
    page[..len].copy_from_slice(&data[..len]);
    page
}

/// Something that takes any bytes.
pub struct Target {
    /// Its name, that of its module, its file in `fuzz_targets/` and its folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the code does not keep its promise for these bytes.
    pub run: fn(&[u8]),
    /// Inputs that reach far, each with its name, from which the fuzzer starts.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "check", run: check::run, seeds: check::seeds },
    Target { name: "header", run: header::run, seeds: header::seeds },
    Target { name: "image", run: image::run, seeds: image::seeds },
    Target { name: "info_block", run: info_block::run, seeds: info_block::seeds },
    Target { name: "label", run: label::run, seeds: label::seeds },
    Target { name: "record", run: record::run, seeds: record::seeds },
];
