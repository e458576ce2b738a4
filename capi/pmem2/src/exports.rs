//! The exported functions: C arguments become checked ones.
//!
//! Objects are boxes of which the program has the addresses. The enums of the header are taken as numbers.

use crate::bad_blocks::BadBlocks;
use crate::code;
use crate::config::Config;
use crate::failure::Failure;
use crate::functions::{
    CopyFunction, DrainFunction, FillFunction, RangeFunction, choose, copy_bytes, copy_lines, copy_pages,
    drain, drain_pages, fill_bytes, fill_lines, fill_pages, flush_bytes, flush_lines, flushing,
    persist_bytes, persist_lines, persist_pages,
};
use crate::future::{Future, Operation};
use crate::granularity::Granularity;
use crate::map::{Deep, Map};
use crate::plan::{self, Plan};
use crate::registry::{Owner, REGISTRY, Registered, Registry, Reservation};
use crate::source::Source;
use crate::transfer::{refused_transfer, transfer_file, transfer_node};
use lode_capi_entry::{errno, instructions, message, set_errno, uncancelled, variable};
use lode_pmem::{
    Sysfs, deep_flush_region, msync_program, program_align, reserve_program, reserve_program_again,
    unmap_program,
};
use std::alloc::{Layout, alloc};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

/// Reads the environment, as libpmem2(7) says, when the library is loaded.
extern "C" fn on_load() {
    let load = || {
        // The library has a copy of Rust's library to itself, so no program loses its messages. The tests keep theirs.
        #[cfg(not(test))]
        std::panic::set_hook(Box::new(|_| {}));
        choose(|| instructions(&variable));
        // SAFETY: - the callbacks take and release a lock, in the thread that forks, and in the child's only one.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    };
    let _ = uncancelled(|| catch_unwind(load));
}

/// Takes the lock, so that a child finds the registry whole.
extern "C" fn before_fork() {
    REGISTRY.before_fork();
}

/// Releases the lock, in the parent and in the child.
extern "C" fn after_fork() {
    REGISTRY.after_fork();
}

/// Runs a call that may fail. A failure sets the thread's message, and the errno of a system call; else errno stays.
fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    uncancelled(|| {
        let before = errno();
        let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Failure::broken()));
        let failure = outcome.err();
        if let Some(failure) = &failure {
            message::set(&failure.text);
        }
        set_errno(
            failure.as_ref().map(|failure| failure.errno).filter(|errno| *errno != 0).unwrap_or(before),
        );
        failure.map_or(0, |failure| failure.code)
    })
}

/// Uses the registry. Fails in a signal handler that interrupted a use in the same thread.
fn with_registry<T>(call: impl FnOnce(&mut Registry) -> Result<T, Failure>) -> Result<T, Failure> {
    REGISTRY.with(call).unwrap_or_else(|| Err(Failure::interrupted()))
}

/// Returns the object at an address that the program passed.
///
/// # Safety
/// `object` is null, or the address of a living object of this type that this library has given.
unsafe fn object<'a, T>(object: *const c_void, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { object.cast::<T>().as_ref() }.ok_or_else(|| Failure::null(name))
}

/// Returns the object at an address that the program passed, to be changed.
///
/// # Safety
/// As [`object`], and no other thread uses the object now.
unsafe fn object_mut<'a, T>(object: *mut c_void, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: - the caller's promise.
    unsafe { object.cast::<T>().as_mut() }.ok_or_else(|| Failure::null(name))
}

/// Stores a result for the program.
///
/// # Safety
/// `place` is null or valid for a store.
unsafe fn give<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null("the place of the result"));
    }
    // SAFETY: - the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Stores the address of a new object for the program.
///
/// # Safety
/// As [`give`].
unsafe fn give_object<T>(place: *mut *mut c_void, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null("the place of the result"));
    }
    // SAFETY: - the caller's promise.
    unsafe { give(place, Box::into_raw(boxed(value)?).cast()) }
}

/// Returns the value in memory of its own. `Box::new` would end the process where there is none.
fn boxed<T>(value: T) -> Result<Box<T>, Failure> {
    const { assert!(size_of::<T>() != 0, "an object needs an address of its own") };
    // SAFETY: - the layout has bytes.
    let place = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
    if place.is_null() {
        return Err(Failure::no_memory());
    }
    // SAFETY: - the new memory is valid for a store of this type.
    unsafe { place.write(value) };
    // SAFETY: - the memory comes from the allocator of boxes, with their layout, and has a value.
    Ok(unsafe { Box::from_raw(place) })
}

/// Frees the object whose address is at `place`, if there is one, and stores null.
///
/// # Safety
/// `place` is null, or has null or the address of an object of this type that nothing else uses.
unsafe fn take_object<T>(place: *mut *mut c_void) -> Result<(), Failure> {
    // SAFETY: - the caller's promise.
    let place = unsafe { place.as_mut() }.ok_or_else(|| Failure::null("the object's place"))?;
    let object = std::mem::replace(place, ptr::null_mut());
    if !object.is_null() {
        // SAFETY: - `give_object` made the box, and the caller promises that nothing else uses it.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    }
    Ok(())
}

/// See pmem2_source_from_fd(3).
///
/// # Safety
/// `src` is null or valid for a store. The descriptor stays open while the source is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_from_fd(src: *mut *mut c_void, fd: c_int) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        unsafe { give(src, ptr::null_mut()) }?;
        if fd < 0 {
            let text = format!("{fd} is no file descriptor; pass one that open(2) returned");
            return Err(Failure::new(code::INVALID_FILE_HANDLE, text));
        }
        // SAFETY: - the number is not -1, and the kernel refuses one that is not open.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        let source = Source::of_descriptor(file, &Sysfs::default())?;
        // SAFETY: - the caller's promise.
        unsafe { give_object(src, source) }
    })
}

/// See pmem2_source_from_anon(3).
///
/// # Safety
/// `src` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_from_anon(src: *mut *mut c_void, size: usize) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(|| unsafe { give_object(src, Source::Anonymous { len: size }) })
}

/// See pmem2_source_delete(3).
///
/// # Safety
/// `src` is the place of a source, or of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_delete(src: *mut *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(|| unsafe { take_object::<Source>(src) })
}

/// See pmem2_source_get_fd(3).
///
/// # Safety
/// `src` is null or a source, `fd` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_get_fd(src: *const c_void, fd: *mut c_int) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let open = source.open().ok_or_else(|| {
            let text = "File descriptor is not set, source type does not support fd; the source is anonymous";
            Failure::new(code::FILE_DESCRIPTOR_NOT_SET, text)
        })?;
        // SAFETY: - as above.
        unsafe { give(fd, open.file.as_raw_fd()) }
    })
}

/// See pmem2_source_size(3).
///
/// # Safety
/// `src` is null or a source, `size` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_size(src: *const c_void, size: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let len = source.len(&Sysfs::default())?;
        // SAFETY: - as above.
        unsafe { give(size, len) }
    })
}

/// See pmem2_source_alignment(3).
///
/// # Safety
/// `src` is null or a source, `alignment` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_alignment(src: *const c_void, alignment: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let found = source.alignment(&Sysfs::default())?;
        // SAFETY: - as above.
        unsafe { give(alignment, found) }
    })
}

/// See pmem2_source_device_id(3).
///
/// # Safety
/// `src` is null or a source, `len` null or valid, and `id` null or valid for stores of `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_device_id(
    src: *const c_void,
    id: *mut c_char,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let found = source.device_id(&Sysfs::default())?;
        // SAFETY: - as above.
        let len = unsafe { len.as_mut() }.ok_or_else(|| Failure::null("the length"))?;
        let needed = found.len() + 1;
        if id.is_null() {
            *len = needed;
            return Ok(());
        }
        if needed > *len {
            let text = format!("the device's identity needs {needed} bytes, and the buffer has {}", *len);
            return Err(Failure::new(code::BUFFER_TOO_SMALL, text));
        }
        // SAFETY: - the caller's promise, and the buffer is long enough.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), id.cast(), found.len()) };
        // SAFETY: - as above.
        unsafe { id.wrapping_add(found.len()).write(0) };
        Ok(())
    })
}

/// See pmem2_source_device_usc(3).
///
/// # Safety
/// `src` is null or a source, `usc` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_device_usc(src: *const c_void, usc: *mut u64) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let count = source.dirty_shutdowns(&Sysfs::default());
        if source.open().is_some() {
            // SAFETY: - as above.
            unsafe { give(usc, *count.as_ref().unwrap_or(&0)) }?;
        }
        count.map(drop)
    })
}

/// See pmem2_source_numa_node(3).
///
/// # Safety
/// `src` is null or a source, `numa_node` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_numa_node(src: *const c_void, numa_node: *mut c_int) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let node = source.numa_node(&Sysfs::default())?;
        // SAFETY: - as above.
        unsafe { give(numa_node, node) }
    })
}

/// Reads from a source whose memory may be lost, or writes to it.
///
/// # Safety
/// `src` is null or a source. The kernel checks the buffer.
unsafe fn transfer(src: *mut c_void, buf: *mut c_void, size: usize, offset: usize, is_write: bool) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let sysfs = Sysfs::default();
        let open = source.transfer(size, offset, &sysfs)?;
        if open.is_node {
            return transfer_node(open, &sysfs, buf, size, offset, is_write);
        }
        let file = open.file.as_raw_fd();
        let call = |done, left| {
            let (bytes, place) = (buf.wrapping_byte_add(done), (offset + done) as i64);
            if is_write {
                // SAFETY: - the kernel checks the buffer.
                unsafe { libc::pwrite(file, bytes, left, place) }
            } else {
                // SAFETY: - as above.
                unsafe { libc::pread(file, bytes, left, place) }
            }
        };
        let verb = if is_write { "write" } else { "read" };
        transfer_file(size, call).map_err(|error| refused_transfer(verb, &error))
    })
}

/// See pmem2_source_pread_mcsafe(3).
///
/// # Safety
/// `src` is null or a source. The kernel checks the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_pread_mcsafe(
    src: *mut c_void,
    buf: *mut c_void,
    size: usize,
    offset: usize,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { transfer(src, buf, size, offset, false) }
}

/// See pmem2_source_pwrite_mcsafe(3).
///
/// # Safety
/// `src` is null or a source. The kernel checks the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_source_pwrite_mcsafe(
    src: *mut c_void,
    buf: *mut c_void,
    size: usize,
    offset: usize,
) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { transfer(src, buf, size, offset, true) }
}

/// See pmem2_config_new(3).
///
/// # Safety
/// `cfg` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_new(cfg: *mut *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(|| unsafe { give_object(cfg, Config::new()) })
}

/// See pmem2_config_delete(3).
///
/// # Safety
/// `cfg` is the place of a configuration, or of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_delete(cfg: *mut *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(|| unsafe { take_object::<Config>(cfg) })
}

/// Changes a configuration.
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
unsafe fn configure(cfg: *mut c_void, change: impl FnOnce(&mut Config) -> Result<(), Failure>) -> c_int {
    // SAFETY: - the caller's promise.
    guarded(|| change(unsafe { object_mut(cfg, "the configuration") }?))
}

/// See pmem2_config_set_required_store_granularity(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_required_store_granularity(cfg: *mut c_void, g: c_int) -> c_int {
    let change = |config: &mut Config| {
        config.required = Some(Granularity::numbered(g)?);
        Ok(())
    };
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, change) }
}

/// See pmem2_config_set_offset(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_offset(cfg: *mut c_void, offset: usize) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, |config| config.set_offset(offset)) }
}

/// See pmem2_config_set_length(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_length(cfg: *mut c_void, length: usize) -> c_int {
    let change = |config: &mut Config| {
        config.len = length;
        Ok(())
    };
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, change) }
}

/// See pmem2_config_set_sharing(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_sharing(cfg: *mut c_void, sharing: c_int) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, |config| config.set_sharing(sharing)) }
}

/// See pmem2_config_set_protection(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_protection(cfg: *mut c_void, prot: c_uint) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, |config| config.set_protection(prot)) }
}

/// See pmem2_config_set_vm_reservation(3).
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_vm_reservation(
    cfg: *mut c_void,
    rsv: *mut c_void,
    offset: usize,
) -> c_int {
    let change = |config: &mut Config| {
        config.place = (!rsv.is_null()).then(|| (rsv.addr(), offset));
        Ok(())
    };
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, change) }
}

/// See pmem2_config_set_vdm(3). The data mover has no effect: operations are complete when their calls return.
///
/// # Safety
/// `cfg` is null or a configuration that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_config_set_vdm(cfg: *mut c_void, _vdm: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { configure(cfg, |_| Ok(())) }
}

/// See pmem2_map_new(3).
///
/// # Safety
/// `map_ptr` is null or valid for a store, `cfg` null or a configuration, `src` null or a source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_new(
    map_ptr: *mut *mut c_void,
    cfg: *const c_void,
    src: *const c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        unsafe { give(map_ptr, ptr::null_mut()) }?;
        // SAFETY: - as above.
        let config: &Config = unsafe { object(cfg, "the configuration") }?;
        // SAFETY: - as above.
        let source: &Source = unsafe { object(src, "the source") }?;
        let sysfs = Sysfs::default();
        let plan = Plan::of(config, source, &sysfs)?;
        let forced = variable("PMEM2_FORCE_GRANULARITY");
        let forced = Granularity::forced(forced.as_deref());
        let is_flushable = flushing().reaches_persistence();
        // What the kernel tells about the device is read before the registry is locked.
        let [paged, direct] = [false, true]
            .map(|is_direct| plan::granularity(&plan, source, forced, is_direct, is_flushable, &sysfs));
        let mut new = boxed(Map::new(0, plan.view.len, paged, Deep::of(source, &sysfs)))?;
        with_registry(|registry| map_new(registry, config, source, &plan, direct, &mut new))?;
        // SAFETY: - as above.
        unsafe { give(map_ptr, Box::into_raw(new).cast()) }
    })
}

/// Maps, and enters the mapping in the registry, which is locked so that no other thread takes the same place. `direct` is
/// the granularity if the kernel accepts MAP_SYNC, `map` has the other one.
fn map_new(
    registry: &mut Registry,
    config: &Config,
    source: &Source,
    plan: &Plan,
    direct: Granularity,
    map: &mut Map,
) -> Result<(), Failure> {
    let start = match config.place {
        Some((handle, offset)) => {
            // Only a node asks for more than a page.
            registry.place(handle, offset, plan.held_len, plan.align)?
        }
        None => reserve_program(None, plan.held_len, program_align(plan.view.len, plan.align))
            .map_err(|error| Failure::of_call("mmap MAP_ANONYMOUS", &error))?,
    };
    let owner = match config.place {
        Some((handle, _)) => Owner::Reservation { handle, len: plan.held_len },
        None => Owner::Mapping { len: plan.held_len },
    };
    // SAFETY: - the addresses are reserved, and no mapping has them.
    let mapped = unsafe { plan.view.map_at(start) };
    let outcome = mapped.map_err(|error| plan::refused(source, config.access, &error)).and_then(|is_direct| {
        map.place(start, if is_direct { direct } else { map.granularity() });
        map.granularity().check(plan.required)?;
        let registered = Registered { start, end: start + plan.view.len, handle: handle_of(map), owner };
        if registry.insert(registered) {
            return Ok(());
        }
        Err(Failure::exists(
            -libc::EEXIST,
            format!(
                "the addresses from {start:#x} on belong to a mapping of pmem2_map_from_existing that the program has \
                 unmapped; delete the mapping first"
            ),
        ))
    });
    if outcome.is_err() {
        // Report the first error. A reservation that can't be restored keeps the view.
        // SAFETY: - no one has got the addresses.
        let _ = unsafe { release(start, owner) };
    }
    outcome
}

/// Removes the view at `start`: a reservation keeps the addresses, and so does the program those that it has mapped.
///
/// # Safety
/// The program uses none of these bytes any more.
unsafe fn release(start: usize, owner: Owner) -> io::Result<()> {
    match owner {
        Owner::Program => Ok(()),
        // SAFETY: - the caller's promise, and the library has mapped these bytes.
        Owner::Mapping { len } => unsafe { unmap_program(start, len) },
        // SAFETY: - the caller's promise, and the reservation has these addresses.
        Owner::Reservation { len, .. } => unsafe { reserve_program_again(start, len) },
    }
}

fn handle_of(map: &Map) -> usize {
    ptr::from_ref(map).addr()
}

/// See pmem2_map_from_existing(3).
///
/// # Safety
/// `map` is null or valid for a store, `src` null or a source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_from_existing(
    map: *mut *mut c_void,
    src: *const c_void,
    addr: *mut c_void,
    len: usize,
    gran: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let granularity = Granularity::numbered(gran)?;
        let start = addr.addr();
        let end = start.checked_add(len).ok_or_else(|| {
            let text = format!("{len} bytes at {start:#x} are more than the process has addresses for");
            Failure::new(code::LENGTH_OUT_OF_RANGE, text)
        })?;
        if map.is_null() {
            return Err(Failure::null("the place of the result"));
        }
        let new = boxed(Map::new(start, len, granularity, Deep::of(source, &Sysfs::default())))?;
        let registered = Registered { start, end, handle: handle_of(&new), owner: Owner::Program };
        if !with_registry(|registry| Ok(registry.insert(registered)))? {
            let text = format!(
                "Provided mapping(addr {start:#x} len {len}) is already registered by libpmem2; delete that mapping \
                 first"
            );
            return Err(Failure::exists(code::MAP_EXISTS, text));
        }
        // SAFETY: - the caller's promise.
        unsafe { give(map, Box::into_raw(new).cast()) }
    })
}

/// See pmem2_map_delete(3).
///
/// # Safety
/// `map_ptr` is the place of a mapping whose bytes the program uses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_delete(map_ptr: *mut *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let place = unsafe { map_ptr.as_mut() }.ok_or_else(|| Failure::null("the mapping's place"))?;
        // SAFETY: - as above.
        let map: &Map = unsafe { object(*place, "the mapping") }?;
        with_registry(|registry| {
            let removed = registry.remove(map.start(), map.len(), handle_of(map))?;
            // SAFETY: - the caller's promise.
            unsafe { release(removed.start, removed.owner) }.map_err(|error| {
                // All is still mapped.
                registry.insert(removed);
                Failure::of_call("munmap", &error)
            })
        })?;
        // SAFETY: - the registry had the mapping once, and has forgotten it.
        unsafe { take_object::<Map>(place) }
    })
}

/// See pmem2_map_get_address(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_get_address(map: *mut c_void) -> *mut c_void {
    // SAFETY: - the caller's promise.
    let start = unsafe { object::<Map>(map, "") }.map_or(0, Map::start);
    ptr::with_exposed_provenance_mut(start)
}

/// See pmem2_map_get_size(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_get_size(map: *mut c_void) -> usize {
    // SAFETY: - the caller's promise.
    unsafe { object::<Map>(map, "") }.map_or(0, Map::len)
}

/// Returns the granularity of a mapping; the one that needs most work for null.
///
/// # Safety
/// `map` is null or a mapping.
unsafe fn granularity_of(map: *mut c_void) -> Granularity {
    // SAFETY: - the caller's promise.
    unsafe { object::<Map>(map, "") }.map_or(Granularity::Page, Map::granularity)
}

/// See pmem2_map_get_store_granularity(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_map_get_store_granularity(map: *mut c_void) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { granularity_of(map) as c_int }
}

/// See pmem2_get_persist_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_persist_fn(map: *mut c_void) -> RangeFunction {
    // SAFETY: - the caller's promise.
    match unsafe { granularity_of(map) } {
        Granularity::Byte => persist_bytes,
        Granularity::CacheLine => persist_lines,
        Granularity::Page => persist_pages,
    }
}

/// See pmem2_get_flush_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_flush_fn(map: *mut c_void) -> RangeFunction {
    // SAFETY: - the caller's promise.
    match unsafe { granularity_of(map) } {
        Granularity::Byte => flush_bytes,
        Granularity::CacheLine => flush_lines,
        Granularity::Page => persist_pages,
    }
}

/// See pmem2_get_drain_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_drain_fn(map: *mut c_void) -> DrainFunction {
    // SAFETY: - the caller's promise.
    match unsafe { granularity_of(map) } {
        Granularity::Byte | Granularity::CacheLine => drain,
        Granularity::Page => drain_pages,
    }
}

/// See pmem2_get_memmove_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_memmove_fn(map: *mut c_void) -> CopyFunction {
    // SAFETY: - the caller's promise.
    match unsafe { granularity_of(map) } {
        Granularity::Byte => copy_bytes,
        Granularity::CacheLine => copy_lines,
        Granularity::Page => copy_pages,
    }
}

/// See pmem2_get_memcpy_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_memcpy_fn(map: *mut c_void) -> CopyFunction {
    // SAFETY: - the caller's promise.
    unsafe { pmem2_get_memmove_fn(map) }
}

/// See pmem2_get_memset_fn(3).
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_get_memset_fn(map: *mut c_void) -> FillFunction {
    // SAFETY: - the caller's promise.
    match unsafe { granularity_of(map) } {
        Granularity::Byte => fill_bytes,
        Granularity::CacheLine => fill_lines,
        Granularity::Page => fill_pages,
    }
}

/// See pmem2_memcpy_async(3) of 1.12: the copy is durable when the call returns, and the future complete.
///
/// # Safety
/// `map` is null or a mapping that has `len` bytes at `pmemdest`; `src` is valid for loads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_memcpy_async(
    map: *mut c_void,
    pmemdest: *mut c_void,
    src: *const c_void,
    len: usize,
    _flags: c_uint,
) -> Future {
    // SAFETY: - the caller's promise.
    let copy = unsafe { pmem2_get_memcpy_fn(map) };
    // SAFETY: - as above.
    unsafe { copy(pmemdest, src, len, 0) };
    Future::complete(Operation::Copy, pmemdest, len)
}

/// See pmem2_memmove_async(3) of 1.12: the copy is durable when the call returns, and the future complete.
///
/// # Safety
/// `map` is null or a mapping that has `len` bytes at `pmemdest`; `src` is valid for loads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_memmove_async(
    map: *mut c_void,
    pmemdest: *mut c_void,
    src: *const c_void,
    len: usize,
    _flags: c_uint,
) -> Future {
    // SAFETY: - the caller's promise.
    let copy = unsafe { pmem2_get_memmove_fn(map) };
    // SAFETY: - as above.
    unsafe { copy(pmemdest, src, len, 0) };
    Future::complete(Operation::Move, pmemdest, len)
}

/// See pmem2_memset_async(3) of 1.12: the bytes are durable when the call returns, and the future complete.
///
/// # Safety
/// `map` is null or a mapping that has `n` bytes at `str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_memset_async(
    map: *mut c_void,
    str: *mut c_void,
    c: c_int,
    n: usize,
    _flags: c_uint,
) -> Future {
    // SAFETY: - the caller's promise.
    let fill = unsafe { pmem2_get_memset_fn(map) };
    // SAFETY: - as above.
    unsafe { fill(str, c, n, 0) };
    Future::complete(Operation::Set, str, n)
}

/// See pmem2_deep_flush(3).
///
/// # Durability
/// On return, in the most reliable domain that the medium has.
///
/// # Safety
/// `map` is null or a mapping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_deep_flush(map: *mut c_void, ptr: *mut c_void, size: usize) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let map: &Map = unsafe { object(map, "the mapping") }?;
        let range = map.range(ptr.addr(), size)?;
        match map.deep() {
            Deep::Unsupported => Err(Failure::new(
                code::NOSUPP,
                "Anonymous source does not support deep flush; map a file or a device-DAX node",
            )),
            Deep::Sync => {
                msync_program(range.start, range.len()).map_err(|error| Failure::of_call("msync", &error))
            }
            Deep::Region(None) => Err(Failure::new(
                code::DAX_REGION_NOT_FOUND,
                "unknown region: the memory of the device-DAX node is not persistent",
            )),
            Deep::Region(Some(attribute)) => {
                // SAFETY: - the range lies in the mapping.
                unsafe { flushing().deep_flush(ptr.cast(), size) };
                // ORDER: the bytes have left the caches before the region empties its queues.
                flushing().drain();
                deep_flush_region(attribute);
                Ok(())
            }
        }
    })
}

/// See pmem2_vm_reservation_new(3).
///
/// # Safety
/// `rsv_ptr` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_new(
    rsv_ptr: *mut *mut c_void,
    addr: *mut c_void,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        unsafe { give(rsv_ptr, ptr::null_mut()) }?;
        // The handle is the address of a byte, which stays the program's until the reservation is deleted.
        let handle = boxed(0u8)?;
        let reservation = Reservation::new(addr.addr(), size)?;
        let (start, held) = (reservation.start, reservation.held_end - reservation.start);
        let entered = with_registry(|registry| {
            registry.insert_reservation(ptr::from_ref(&*handle).addr(), reservation);
            Ok(())
        });
        if let Err(failure) = entered {
            // SAFETY: - no one has got the addresses.
            let _ = unsafe { unmap_program(start, held) };
            return Err(failure);
        }
        // SAFETY: - the caller's promise.
        unsafe { give(rsv_ptr, Box::into_raw(handle).cast()) }
    })
}

/// See pmem2_vm_reservation_delete(3).
///
/// # Safety
/// `rsv_ptr` is the place of a reservation that no thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_delete(rsv_ptr: *mut *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let place = unsafe { rsv_ptr.as_mut() }.ok_or_else(|| Failure::null("the reservation's place"))?;
        let handle = place.addr();
        with_registry(|registry| {
            let removed = registry.remove_reservation(handle)?;
            // SAFETY: - the addresses belong to the reservation, which has no mapping.
            unsafe { unmap_program(removed.start, removed.held_end - removed.start) }.map_err(|error| {
                registry.insert_reservation(handle, removed);
                Failure::of_call("munmap", &error)
            })
        })?;
        // SAFETY: - the registry had the handle once, and has forgotten it.
        unsafe { take_object::<u8>(place) }
    })
}

/// Answers a question about a reservation; 0 if there is none.
fn of_reservation(rsv: *mut c_void, question: impl Fn(&Reservation) -> usize) -> usize {
    let ask = || with_registry(|registry| registry.reservation(rsv.addr()).map(&question));
    uncancelled(|| catch_unwind(AssertUnwindSafe(ask)).ok().and_then(Result::ok).unwrap_or(0))
}

/// See pmem2_vm_reservation_get_address(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem2_vm_reservation_get_address(rsv: *mut c_void) -> *mut c_void {
    ptr::with_exposed_provenance_mut(of_reservation(rsv, |reservation| reservation.start))
}

/// See pmem2_vm_reservation_get_size(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem2_vm_reservation_get_size(rsv: *mut c_void) -> usize {
    of_reservation(rsv, |reservation| reservation.len)
}

/// See pmem2_vm_reservation_extend(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem2_vm_reservation_extend(rsv: *mut c_void, size: usize) -> c_int {
    guarded(|| with_registry(|registry| registry.reservation_mut(rsv.addr())?.extend(size)))
}

/// See pmem2_vm_reservation_shrink(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem2_vm_reservation_shrink(rsv: *mut c_void, offset: usize, size: usize) -> c_int {
    guarded(|| {
        with_registry(|registry| {
            registry.check_shrink(rsv.addr(), offset, size)?;
            let old = registry.reservation(rsv.addr())?;
            let mut new = old.without(offset, size);
            let (front, tail) = (old.start..new.start, new.held_end..old.held_end);
            if !front.is_empty() {
                // SAFETY: - the addresses belong to the reservation, and no mapping has them.
                unsafe { unmap_program(front.start, front.len()) }
                    .map_err(|error| Failure::of_call("munmap", &error))?;
            }
            // The end may stay held: no part of the reservation is there.
            // SAFETY: - as above.
            if !tail.is_empty() && unsafe { unmap_program(tail.start, tail.len()) }.is_err() {
                new.held_end = tail.end;
            }
            *registry.reservation_mut(rsv.addr())? = new;
            Ok(())
        })
    })
}

/// Finds a mapping, and stores its handle.
///
/// # Safety
/// `found` is null or valid for a store.
unsafe fn find(
    found: *mut *mut c_void,
    search: impl FnOnce(&mut Registry) -> Result<usize, Failure>,
) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        unsafe { give(found, ptr::null_mut()) }?;
        let handle = with_registry(search)?;
        // SAFETY: - as above.
        unsafe { give(found, ptr::with_exposed_provenance_mut(handle)) }
    })
}

/// Returns the failure of a walk that has found no mapping.
fn none(text: String) -> Failure {
    Failure::new(code::MAPPING_NOT_FOUND, text)
}

/// See pmem2_vm_reservation_map_find(3).
///
/// # Safety
/// `map` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_map_find(
    rsv: *mut c_void,
    reserv_offset: usize,
    len: usize,
    map: *mut *mut c_void,
) -> c_int {
    let search = |registry: &mut Registry| {
        let start = registry.reservation(rsv.addr())?.start.saturating_add(reserv_offset);
        let addresses = start..start.saturating_add(len);
        let found = registry.first_in(rsv.addr(), &addresses).map(|map| map.handle);
        found.ok_or_else(|| {
            none(format!(
                "mapping not found at the range (offset {reserv_offset}, size {len}) in reservation {rsv:p}; none of \
                 its mappings has a byte there"
            ))
        })
    };
    // SAFETY: - the caller's promise.
    unsafe { find(map, search) }
}

/// See pmem2_vm_reservation_map_find_prev(3).
///
/// # Safety
/// `map` is null or a mapping, `prev_map` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_map_find_prev(
    rsv: *mut c_void,
    map: *mut c_void,
    prev_map: *mut *mut c_void,
) -> c_int {
    let search = |registry: &mut Registry| {
        // SAFETY: - the caller's promise.
        let from: &Map = unsafe { object(map, "the mapping") }?;
        let found = registry.last_before(rsv.addr(), from.start()).map(|map| map.handle);
        found.ok_or_else(|| none(format!("mapping previous to mapping {map:p} not found; it is the first")))
    };
    // SAFETY: - the caller's promise.
    unsafe { find(prev_map, search) }
}

/// See pmem2_vm_reservation_map_find_next(3).
///
/// # Safety
/// `map` is null or a mapping, `next_map` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_map_find_next(
    rsv: *mut c_void,
    map: *mut c_void,
    next_map: *mut *mut c_void,
) -> c_int {
    let search = |registry: &mut Registry| {
        // SAFETY: - the caller's promise.
        let from: &Map = unsafe { object(map, "the mapping") }?;
        let found = registry.first_after(rsv.addr(), from.start() + from.len()).map(|map| map.handle);
        found.ok_or_else(|| none(format!("mapping next to mapping {map:p} not found; it is the last")))
    };
    // SAFETY: - the caller's promise.
    unsafe { find(next_map, search) }
}

/// See pmem2_vm_reservation_map_find_first(3).
///
/// # Safety
/// `map` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_map_find_first(
    rsv: *mut c_void,
    map: *mut *mut c_void,
) -> c_int {
    let search = |registry: &mut Registry| {
        let found = registry.first_after(rsv.addr(), 0).map(|map| map.handle);
        found.ok_or_else(|| none(format!("reservation {rsv:p} stores no mapping; place one in it first")))
    };
    // SAFETY: - the caller's promise.
    unsafe { find(map, search) }
}

/// See pmem2_vm_reservation_map_find_last(3).
///
/// # Safety
/// `map` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_vm_reservation_map_find_last(
    rsv: *mut c_void,
    map: *mut *mut c_void,
) -> c_int {
    let search = |registry: &mut Registry| {
        let found = registry.last_before(rsv.addr(), usize::MAX).map(|map| map.handle);
        found.ok_or_else(|| none(format!("reservation {rsv:p} stores no mapping; place one in it first")))
    };
    // SAFETY: - the caller's promise.
    unsafe { find(map, search) }
}

/// See pmem2_badblock_context_new(3).
///
/// # Safety
/// `bbctx` is null or valid for a store, `src` null or a source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_badblock_context_new(bbctx: *mut *mut c_void, src: *const c_void) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let source: &Source = unsafe { object(src, "the source") }?;
        let blocks = BadBlocks::of(source, &Sysfs::default())?;
        // SAFETY: - as above.
        unsafe { give_object(bbctx, blocks) }
    })
}

/// See pmem2_badblock_context_delete(3).
///
/// # Safety
/// `bbctx` is the place of a context, or of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_badblock_context_delete(bbctx: *mut *mut c_void) {
    // SAFETY: - the caller's promise.
    guarded(|| unsafe { take_object::<BadBlocks>(bbctx) });
}

/// `struct pmem2_badblock`: a range of the source, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BadBlock {
    offset: usize,
    length: usize,
}

/// See pmem2_badblock_next(3).
///
/// # Safety
/// `bbctx` is null or a context that no other thread uses now, `bb` null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_badblock_next(bbctx: *mut c_void, bb: *mut BadBlock) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let blocks: &mut BadBlocks = unsafe { object_mut(bbctx, "the context") }?;
        let next = blocks.next()?;
        // SAFETY: - as above.
        unsafe { give(bb, BadBlock { offset: next.start, length: next.len() }) }
    })
}

/// See pmem2_badblock_clear(3).
///
/// # Safety
/// `bbctx` is null or a context, `bb` null or valid for a load.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_badblock_clear(bbctx: *mut c_void, bb: *const BadBlock) -> c_int {
    guarded(|| {
        // SAFETY: - the caller's promise.
        let blocks: &BadBlocks = unsafe { object(bbctx, "the context") }?;
        // SAFETY: - as above.
        let block: &BadBlock = unsafe { object(bb.cast(), "the bad block") }?;
        blocks.clear(block.offset, block.length)
    })
}

/// See pmem2_errormsg(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem2_errormsg() -> *const c_char {
    message::get()
}

unsafe extern "C" {
    /// See stderr(3).
    static mut stderr: *mut libc::FILE;
    /// See vfprintf(3). The list of arguments is an array, or a structure that is passed by its address.
    fn vfprintf(stream: *mut libc::FILE, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// Prints the program's text and the thread's message to standard error.
///
/// # Safety
/// The arguments are those of the format.
unsafe extern "C" fn print_error(format: *const c_char, arguments: *mut c_void) {
    // SAFETY: - the C library's variable, which a program may change before it starts threads.
    let stream = unsafe { stderr };
    // SAFETY: - the caller's promise.
    unsafe { vfprintf(stream, format, arguments) };
    // SAFETY: - the message ends with a zero.
    unsafe { libc::fprintf(stream, c": %s\n".as_ptr(), message::get()) };
}

/// See pmem2_perror(3), which takes the arguments of its format: the registers and the stack become a `va_list`.
///
/// # Safety
/// As printf(3).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_perror(format: *const c_char) {
    std::arch::naked_asm!(
        "sub rsp, 216",
        // The save area, at 32: six registers, then eight of 16 bytes, if the caller has used any.
        "mov [rsp + 40], rsi",
        "mov [rsp + 48], rdx",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        // The list: offsets of the next registers, the arguments on the stack, the save area.
        "mov dword ptr [rsp], 8",
        "mov dword ptr [rsp + 4], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 8], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 16], rax",
        "mov rsi, rsp",
        "call {print}",
        "add rsp, 216",
        "ret",
        print = sym print_error,
    )
}

/// See pmem2_perror(3), which takes the arguments of its format: the registers and the stack become a `va_list`.
///
/// # Safety
/// As printf(3).
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem2_perror(format: *const c_char) {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "sub sp, sp, #224",
        // The save areas: eight registers at 32, then eight of 16 bytes.
        "str x1, [sp, #40]",
        "stp x2, x3, [sp, #48]",
        "stp x4, x5, [sp, #64]",
        "stp x6, x7, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        // The list: the arguments on the stack, the ends of the save areas, and the offsets of the next registers.
        "add x9, x29, #16",
        "str x9, [sp]",
        "add x9, sp, #96",
        "str x9, [sp, #8]",
        "add x9, sp, #224",
        "str x9, [sp, #16]",
        "mov w9, #-56",
        "str w9, [sp, #24]",
        "mov w9, #-128",
        "str w9, [sp, #28]",
        "mov x1, sp",
        "bl {print}",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
        print = sym print_error,
    )
}

#[cfg(test)]
mod test {
    use super::*;

    /// Calls with null in place of each object.
    #[test]
    fn null_objects_are_refused() {
        let null = ptr::null_mut::<c_void>();
        let none = ptr::null_mut();
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_source_from_fd(none, 0) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_config_set_length(null, 1) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_map_new(none, null, null) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_map_delete(none) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_deep_flush(null, null, 1) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_vm_reservation_delete(none) }, -libc::EINVAL);
        assert_eq!(pmem2_vm_reservation_extend(null, 4096), -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_badblock_next(null, ptr::null_mut()) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_source_pread_mcsafe(null, null, 1, 0) }, -libc::EINVAL);
        // SAFETY: - null is allowed.
        assert_eq!(unsafe { pmem2_map_get_size(null) }, 0);
        assert_eq!(pmem2_vm_reservation_get_size(null), 0);
    }

    /// A failed call leaves errno alone, unless a system call has failed or a mapping is there.
    #[test]
    fn errno_is_that_of_a_system_call() {
        set_errno(libc::EXDEV);
        let mut source = ptr::null_mut();
        // SAFETY: - the place is valid for a store.
        assert_eq!(unsafe { pmem2_source_from_fd(&raw mut source, -1) }, code::INVALID_FILE_HANDLE);
        assert_eq!(errno(), libc::EXDEV);
        // SAFETY: - as above.
        assert_eq!(unsafe { pmem2_source_from_fd(&raw mut source, 1_000_000) }, code::INVALID_FILE_HANDLE);
        assert_eq!((errno(), source), (libc::EBADF, ptr::null_mut()));
    }

    /// A range without a mapping of the library needs no sync.
    #[test]
    fn pages_that_are_not_mapped_are_left_out() {
        // SAFETY: - the kernel checks the address.
        unsafe { persist_pages(ptr::without_provenance(1 << 30), 1 << 20) };
    }
}
