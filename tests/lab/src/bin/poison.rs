//! Reports to the kernel that a page of a file is lost, as a machine check would: madvise(2), MADV_HWPOISON.
//!
//! It needs root, and a kernel with CONFIG_MEMORY_FAILURE. Every process that maps the file loses the page; the memory
//! under it is not damaged.

use anyhow::{Context, Result};
use clap::Parser;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::path::PathBuf;
use std::ptr;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes to map: device-DAX maps whole multiples of its alignment, and this is the usual one.
const MAPPED_LEN: u64 = 2 << 20;

/// Report to the kernel that a page of a file is lost.
#[derive(Parser)]
#[command(name = "poison")]
struct Arguments {
    /// A file or a device-DAX node
    file: PathBuf,
    /// A byte of the page
    offset: u64,
}

fn main() -> Result<()> {
    let Arguments { file, offset } = Arguments::parse();
    poison(&file, offset).with_context(|| format!("{}, byte {offset}", file.display()))
}

fn poison(path: &PathBuf, offset: u64) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let start = offset / MAPPED_LEN * MAPPED_LEN;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let mapping =
        unsafe { mmap(ptr::null_mut(), MAPPED_LEN as usize, protection, MapFlags::SHARED, &file, start) }?;
    let page = mapping.wrapping_byte_add(((offset - start) / PAGE * PAGE) as usize);
    // SAFETY: the page is in the mapping, which only this function knows, and which is not read any more.
    let advised = unsafe { madvise(page, PAGE as usize, Advice::LinuxHwPoison) };
    // SAFETY: the mapping from above, which is not used any more.
    unsafe { munmap(mapping, MAPPED_LEN as usize) }?;
    advised.context("madvise")
}
