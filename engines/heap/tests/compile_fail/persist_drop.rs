use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    number: u64,
}

impl Drop for Record {
    fn drop(&mut self) {}
}

fn main() {}
