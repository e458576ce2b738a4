//! A program in Rust on the archives of libpmemobj and libpmem, which declares the calls as the crate pmdk-sys does. Each archive, and the
//! program, has a copy of Rust's library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;

#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool_uuid_lo: u64,
    off: u64,
}

type Constructor = extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;

#[link(name = "pmemobj", kind = "static")]
unsafe extern "C" {
    safe fn pmemobj_create(path: *const c_char, layout: *const c_char, size: usize, mode: u32)
    -> *mut c_void;
    safe fn pmemobj_open(path: *const c_char, layout: *const c_char) -> *mut c_void;
    safe fn pmemobj_close(pool: *mut c_void);
    safe fn pmemobj_alloc(
        pool: *mut c_void,
        oid: *mut Oid,
        size: usize,
        kind: u64,
        constructor: Option<Constructor>,
        argument: *mut c_void,
    ) -> c_int;
    safe fn pmemobj_free(oid: *mut Oid);
    safe fn pmemobj_direct(oid: Oid) -> *mut c_void;
    safe fn pmemobj_memset_persist(pool: *mut c_void, to: *mut c_void, byte: c_int, len: usize);
    safe fn pmemobj_errormsg() -> *const c_char;
}

#[link(name = "pmem", kind = "static")]
unsafe extern "C" {
    safe fn pmem_persist(start: *const c_void, len: usize);
}

extern "C" fn construct(_pool: *mut c_void, start: *mut c_void, argument: *mut c_void) -> c_int {
    // SAFETY: - the object has 100 bytes, and the argument is a byte of `main`.
    unsafe { start.cast::<u8>().copy_from(argument.cast::<u8>(), 1) };
    0
}

fn message() -> String {
    // SAFETY: - the message ends with a zero, and stays until the next failure.
    unsafe { CStr::from_ptr(pmemobj_errormsg()) }.to_string_lossy().into_owned()
}

fn main() {
    let (path, layout) = (c"pool".as_ptr(), c"rust".as_ptr());
    assert!(pmemobj_open(c"missing".as_ptr(), layout).is_null());
    println!("{}", message());
    let pool = pmemobj_create(path, layout, 8 << 20, 0o600);
    assert!(!pool.is_null(), "{}", message());
    let (mut oid, mut first) = (Oid { pool_uuid_lo: 0, off: 0 }, 5_u8);
    assert_eq!(pmemobj_alloc(pool, &mut oid, 100, 1, Some(construct), (&raw mut first).cast()), 0);
    let object = pmemobj_direct(oid);
    pmemobj_memset_persist(pool, object.wrapping_byte_add(1), 7, 99);
    // A panic unwinds with the program's own library.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{}", catch_unwind(|| panic!("the program's own")).is_err());
    pmem_persist(object, 100);
    pmemobj_close(pool);
    let pool = pmemobj_open(path, layout);
    // SAFETY: - the object has these bytes, and nothing stores to them.
    let bytes = unsafe { std::slice::from_raw_parts(pmemobj_direct(oid).cast::<u8>(), 100) };
    println!("{} {}", bytes[0], bytes[99]);
    pmemobj_free(&mut oid);
    pmemobj_close(pool);
}
