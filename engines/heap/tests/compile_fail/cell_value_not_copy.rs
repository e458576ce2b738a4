use lode_heap::CellValue;

#[derive(CellValue)]
enum Colour {
    Red,
    Green,
}

fn main() {}
