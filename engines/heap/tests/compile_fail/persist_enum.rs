use lode_heap::Persist;

#[derive(Persist)]
#[repr(u64)]
enum Colour {
    Red,
    Green,
}

fn main() {}
