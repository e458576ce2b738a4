//! The fuzz targets: all code that reads bytes that may be damaged or hostile, of pools, modules, saved listings, other
//! processes and clients.
//!
//! ```text
//!   fuzz_targets/TARGET.rs    the fuzzer, on nightly --+
//!   tests/corpora.rs          the corpus, on stable ---+--> TARGET::run(bytes)
//!   examples/seeds.rs         writes into the corpus <----- TARGET::seeds()
//! ```
//!
//! Each target is a module with one function. The function takes any bytes and panics if the code breaks its promise.
//! The fuzzer calls it on nightly. `make test` calls it on stable for every input in `corpus/`, which also keeps the
//! inputs of crashes that were found and fixed.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod btt;
pub mod check;
pub mod configuration;
pub mod ctl_text;
pub mod firmware_image;
pub mod follow;
pub mod header;
pub mod image;
pub mod info_block;
pub mod label;
pub mod listing;
pub mod log;
pub mod machine_file;
pub mod monitor_config;
pub mod nbd_session;
pub mod nfit;
pub mod pmdk_change;
pub mod pmdk_check;
pub mod pmdk_header;
pub mod pmdk_obj;
pub mod pmdk_obj_open;
pub mod pmdk_set;
pub mod program;
pub mod raw_volume;
pub mod record;
pub mod sealed_passphrase;
pub mod smbios;
pub mod store;
pub mod typed;

/// Returns the first bytes of `data`, with zeros for those that it lacks.
fn page<const LEN: usize>(data: &[u8]) -> [u8; LEN] {
    let mut page = [0; LEN];
    let len = data.len().min(LEN);
    page[..len].copy_from_slice(&data[..len]);
    page
}

/// Runs a target on seeds after one another, with a few bits changed.
#[cfg(test)]
fn run_mixed_seeds(seeds: &[(&str, Vec<u8>)], rounds: usize, run: fn(&[u8])) {
    let mut random = 7_u64;
    let mut next = move |end: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % end
    };
    for round in 0..rounds {
        let mut data: Vec<u8> = (0..=next(4)).flat_map(|_| seeds[next(seeds.len())].1.clone()).collect();
        for _ in 0..next(6).min(data.len()) {
            let at = next(data.len());
            data[at] ^= 1 << next(8);
        }
        println!("round {round}");
        run(&data);
    }
}

/// Code under test that takes any bytes.
pub struct Target {
    /// Name of the target, of its module, of its file in `fuzz_targets/` and of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs the code on these bytes, and panics if it breaks its promise.
    pub run: fn(&[u8]),
    /// Returns the inputs from which the fuzzer starts, each with its name.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "blocks", run: blocks::run, seeds: blocks::seeds },
    Target { name: "btt", run: btt::run, seeds: btt::seeds },
    Target { name: "check", run: check::run, seeds: check::seeds },
    Target { name: "configuration", run: configuration::run, seeds: configuration::seeds },
    Target { name: "ctl_text", run: ctl_text::run, seeds: ctl_text::seeds },
    Target { name: "firmware_image", run: firmware_image::run, seeds: firmware_image::seeds },
    Target { name: "follow", run: follow::run, seeds: follow::seeds },
    Target { name: "header", run: header::run, seeds: header::seeds },
    Target { name: "image", run: image::run, seeds: image::seeds },
    Target { name: "info_block", run: info_block::run, seeds: info_block::seeds },
    Target { name: "label", run: label::run, seeds: label::seeds },
    Target { name: "listing", run: listing::run, seeds: listing::seeds },
    Target { name: "log", run: log::run, seeds: log::seeds },
    Target { name: "machine_file", run: machine_file::run, seeds: machine_file::seeds },
    Target { name: "monitor_config", run: monitor_config::run, seeds: monitor_config::seeds },
    Target { name: "nbd_session", run: nbd_session::run, seeds: nbd_session::seeds },
    Target { name: "nfit", run: nfit::run, seeds: nfit::seeds },
    Target { name: "program", run: program::run, seeds: program::seeds },
    Target { name: "pmdk_change", run: pmdk_change::run, seeds: pmdk_change::seeds },
    Target { name: "pmdk_check", run: pmdk_check::run, seeds: pmdk_check::seeds },
    Target { name: "pmdk_header", run: pmdk_header::run, seeds: pmdk_header::seeds },
    Target { name: "pmdk_obj", run: pmdk_obj::run, seeds: pmdk_obj::seeds },
    Target { name: "pmdk_obj_open", run: pmdk_obj_open::run, seeds: pmdk_obj_open::seeds },
    Target { name: "pmdk_set", run: pmdk_set::run, seeds: pmdk_set::seeds },
    Target { name: "raw_volume", run: raw_volume::run, seeds: raw_volume::seeds },
    Target { name: "record", run: record::run, seeds: record::seeds },
    Target { name: "sealed_passphrase", run: sealed_passphrase::run, seeds: sealed_passphrase::seeds },
    Target { name: "smbios", run: smbios::run, seeds: smbios::seeds },
    Target { name: "store", run: store::run, seeds: store::seeds },
    Target { name: "typed", run: typed::run, seeds: typed::seeds },
];
