use lode_heap::CellValue;

#[derive(CellValue, Clone, Copy)]
enum Colour {
    Red = 256,
    Green = -1,
}

#[derive(CellValue, Clone, Copy)]
enum Shade {
    Light = 255,
    Dark,
}

fn main() {}
