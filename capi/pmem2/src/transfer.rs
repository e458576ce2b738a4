//! Accesses to a source whose memory may be lost: pmem2_source_pread_mcsafe(3) and pmem2_source_pwrite_mcsafe(3).

use crate::code;
use crate::failure::Failure;
use crate::functions::flushing;
use crate::plan;
use crate::source::{OpenSource, Source};
use lode_pmem::{
    ProgramAccess, ProgramContent, ProgramView, Sysfs, program_align, reserve_program, unmap_program,
};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;

/// Bytes of a step of an access to a node that may be damaged.
const STEP: usize = 1 << 20;

/// Repeats a system call until `size` bytes are done. It gets the bytes done, and those left.
pub(crate) fn transfer_file(size: usize, mut call: impl FnMut(usize, usize) -> isize) -> io::Result<()> {
    let mut done = 0;
    loop {
        match usize::try_from(call(done, size - done)) {
            // The file was cut meanwhile, or no bytes were asked for.
            Ok(0) => return Ok(()),
            Ok(more) => done += more,
            Err(_) => return Err(io::Error::last_os_error()),
        }
        if done >= size {
            return Ok(());
        }
    }
}

/// Returns the failure of an access to a file.
pub(crate) fn refused_transfer(verb: &str, error: &io::Error) -> Failure {
    if error.raw_os_error() == Some(libc::EIO) {
        let text = format!(
            "physical I/O error occurred on {verb} operation, possible bad block; list the source's bad blocks"
        );
        return Failure::new(code::IO_FAIL, text);
    }
    Failure::of_call(&format!("p{verb}"), error)
}

/// Reads or writes a device-DAX node. The kernel copies between the node's mapping and a file in memory, so lost memory
/// ends the copy with EFAULT, and no signal is sent.
pub(crate) fn transfer_node(
    open: &OpenSource,
    sysfs: &Sysfs,
    buffer: *mut c_void,
    size: usize,
    offset: usize,
    is_write: bool,
) -> Result<(), Failure> {
    if size == 0 {
        return Ok(());
    }
    let source = Source::Open(*open);
    let align = source.alignment(sysfs)?;
    let first = offset / align * align;
    let len = (offset - first + size).next_multiple_of(align);
    let access = ProgramAccess { read: true, write: is_write, execute: false };
    let content = ProgramContent::File { file: open.file, off: first as u64 };
    let view = ProgramView { content, len, access, is_private: false };
    let start = reserve_program(None, len, program_align(len, align))
        .map_err(|error| Failure::of_call("mmap MAP_ANONYMOUS", &error))?;
    // SAFETY: - the addresses are reserved for this view alone.
    let mapped = unsafe { view.map_at(start) };
    let place = start + offset - first;
    let outcome = mapped.map_err(|error| plan::refused(&source, access, &error)).and_then(|_| {
        let all = place..place + size;
        copy_by_kernel(&all, buffer, is_write)?;
        if is_write {
            // SAFETY: - the view is mapped.
            unsafe { flushing().flush(ptr::with_exposed_provenance(place), size) };
            // ORDER: the bytes are durable before the call returns.
            flushing().drain();
        }
        Ok(())
    });
    // SAFETY: - nothing uses the view any more.
    let _ = unsafe { unmap_program(start, len) };
    outcome
}

/// Copies between the mapped addresses and the program's buffer by way of a file in memory.
fn copy_by_kernel(node: &Range<usize>, buffer: *mut c_void, is_write: bool) -> Result<(), Failure> {
    let between = rustix::fs::memfd_create("libpmem2", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|errno| Failure::of_call("memfd_create", &errno.into()))?;
    let fd = between.as_raw_fd();
    let lost = || {
        Failure::new(
            code::IO_FAIL,
            "physical I/O error occurred, possible bad block; list the source's bad blocks",
        )
    };
    for done in (0..node.len()).step_by(STEP) {
        let len = STEP.min(node.len() - done);
        let place: *mut c_void = ptr::with_exposed_provenance_mut(node.start + done);
        let program = buffer.wrapping_byte_add(done);
        let (from, into) = if is_write { (program, place) } else { (place, program) };
        // SAFETY: - the kernel checks the addresses.
        let put = unsafe { libc::pwrite(fd, from, len, 0) };
        if put != len as isize {
            return Err(if is_write {
                Failure::of_call("pwrite", &io::Error::from_raw_os_error(libc::EFAULT))
            } else {
                lost()
            });
        }
        // SAFETY: - as above.
        let got = unsafe { libc::pread(fd, into, len, 0) };
        if got != len as isize {
            return Err(if is_write {
                lost()
            } else {
                Failure::of_call("pread", &io::Error::from_raw_os_error(libc::EFAULT))
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::node_fixture::node;

    /// The node is /dev/zero, whose shared mappings are memory, zeroed for each. One that does not begin at the start of the
    /// node can't be accessed, as if the memory were lost.
    #[test]
    fn nodes_are_read_and_written() {
        let (_root, sysfs, source) = node(&[("size", "8388608\n")]);
        let mut bytes = vec![7u8; (2 << 20) + 5];
        let buffer = bytes.as_mut_ptr().cast();
        for (size, offset) in [(0, 0), (5, (2 << 20) - 2), (bytes.len(), 4000), (1, 0)] {
            let open = source.transfer(size, offset, &sysfs).unwrap();
            for is_write in [true, false] {
                transfer_node(open, &sysfs, buffer, size, offset, is_write).unwrap();
            }
            assert!(bytes[..size].iter().all(|byte| *byte == 0), "{size} at {offset}");
            bytes.fill(7);
        }
        for (size, offset) in [(1, (8 << 20) - 1), (bytes.len(), 3 << 20)] {
            let open = source.transfer(size, offset, &sysfs).unwrap();
            for is_write in [true, false] {
                let lost = transfer_node(open, &sysfs, buffer, size, offset, is_write).unwrap_err();
                assert_eq!(lost.code, code::IO_FAIL, "{size} at {offset}");
            }
        }
        let open = source.transfer(4, 0, &sysfs).unwrap();
        for is_write in [true, false] {
            let refused = transfer_node(open, &sysfs, ptr::null_mut(), 4, 0, is_write).unwrap_err();
            assert_eq!(refused.code, -libc::EFAULT);
        }
        for (size, offset) in [(2, (8 << 20) - 1), (0, (8 << 20) + 1), (usize::MAX, 1)] {
            let refused = source.transfer(size, offset, &sysfs).unwrap_err();
            assert_eq!(refused.code, code::LENGTH_OUT_OF_RANGE, "{size} at {offset}");
        }
    }

    #[test]
    fn files_that_end_earlier_end_the_transfer() {
        let mut answers = [3, 2, 0].into_iter();
        let mut calls = Vec::new();
        transfer_file(9, |done, left| {
            calls.push((done, left));
            answers.next().unwrap()
        })
        .unwrap();
        assert_eq!(calls, [(0, 9), (3, 6), (5, 4)]);
        let error = io::Error::from_raw_os_error(libc::EIO);
        assert_eq!(refused_transfer("read", &error).code, code::IO_FAIL);
    }
}
