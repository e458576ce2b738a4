//! Type tables: bytes, rules, values and differences.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_layout::{
    NumberKind, PoolType, ProgramTypes, Shape, TypeComparison, TypeField, TypeId, TypeTable,
    TypeTableBuilder, TypeTableError, TypeVariant, encode_key,
};

fn field(name: &str, offset: u64, id: TypeId) -> TypeField {
    TypeField { name: name.to_owned(), offset, id }
}

fn variant(name: &str, tag: u8, fields: Vec<TypeField>) -> TypeVariant {
    TypeVariant { name: name.to_owned(), tag, fields }
}

use std::collections::HashMap;

/// The types of a shop: a root with a list of items, each with a state, a name and a price.
struct Shop {
    types: TypeTableBuilder,
    number: u64,
}

impl Shop {
    fn new() -> Shop {
        Shop { types: TypeTableBuilder::default(), number: 100 }
    }

    fn add(&mut self, size: u64, shape: Shape) -> TypeId {
        // The number follows from the shape here, as a hash does.
        self.number += 1;
        let number = match &shape {
            Shape::Number(kind) => *kind as u64,
            _ => self.number,
        };
        self.types.add(PoolType { number, size, shape })
    }

    fn number(&mut self, kind: NumberKind) -> TypeId {
        self.add(kind.size(), Shape::Number(kind))
    }

    /// Returns the table. `price` is the type of the price, and `has_stock` says if there is a field more after it.
    fn table(mut self, price: NumberKind, has_stock: bool) -> TypeTable {
        let price = self.number(price);
        let price = self.add(8, Shape::Cell(price));
        let (byte, word) = (self.number(NumberKind::U8), self.number(NumberKind::U32));
        let seat = self.add(
            5,
            Shape::Struct {
                name: "(u8, u32)".to_owned(),
                fields: vec![field("0", 0, byte), field("1", 1, word)],
            },
        );
        let truth = self.add(1, Shape::Bool);
        let letters = self.add(4, Shape::Char);
        let letters = self.add(8, Shape::Array { element: letters, len: 2 });
        let variants = vec![
            variant("Free", 0, vec![]),
            variant("Sold", 3, vec![field("0", 1, seat), field("1", 6, truth)]),
            variant("Marked", 7, vec![field("by", 1, letters)]),
        ];
        let state = self.add(9, Shape::Enum { name: "State".to_owned(), variants });
        let states = self.add(32, Shape::Deque { element: state, buffer: 7 });
        let name = self.add(16, Shape::String { buffer: 9 });
        let item = self.types.reserve("Item".to_owned());
        let next = self.add(8, Shape::Box(item));
        let mut fields = vec![field("name", 0, name), field("price", 16, price), field("states", 24, states)];
        let mut size = 56;
        if has_stock {
            fields.push(field("stock", size, price));
            size += 8;
        }
        fields.push(field("next", size, next));
        self.types.fill(
            item,
            PoolType {
                number: 500 + size,
                size: size + 8,
                shape: Shape::Struct { name: "Item".to_owned(), fields },
            },
        );
        let items = self.add(8, Shape::Mutex(next));
        let prices = self.add(16, Shape::Vec { element: word, buffer: 8 });
        let fields = vec![field("items", 0, items), field("prices", 8, prices)];
        let shop = self.add(24, Shape::Struct { name: "Shop".to_owned(), fields });
        self.types.finish(shop).unwrap()
    }
}

fn shop() -> TypeTable {
    Shop::new().table(NumberKind::U32, false)
}

#[test]
#[cfg_attr(miri, ignore = "hours in the interpreter")]
fn tables_round_trip_and_detect_bit_flips() {
    let (table, bytes) = (shop(), shop().encode().unwrap());
    assert_eq!(TypeTable::decode(&bytes), Ok(table.clone()));
    // An object may be longer than the table in it.
    assert_eq!(TypeTable::decode(&[&bytes[..], &[0; 9]].concat()), Ok(table));
    // The word that leads to an older table has a check of its own.
    let older = TypeTable::OLDER_OFF as usize * 8..(TypeTable::OLDER_OFF as usize + 8) * 8;
    for bit in (0..8 * bytes.len()).filter(|bit| !older.contains(bit)) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(TypeTable::decode(&damaged).is_err(), "bit {bit}");
        assert_eq!(TypeTable::flipped_bit(&damaged), Some(bit));
        let other = if bit / 8 < 40 { bytes.len() - 1 } else { bit / 8 - 1 };
        damaged[other] ^= 0x14;
        assert_eq!(TypeTable::flipped_bit(&damaged), None, "bit {bit} and others");
    }
    assert_eq!(TypeTable::flipped_bit(&bytes), None);
    for len in 0..bytes.len() {
        assert!(TypeTable::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn names_are_those_of_the_program() {
    let table = shop();
    let mut names: Vec<_> = table.types().map(|(id, _)| table.name(id)).collect();
    names.sort();
    let want = [
        "(u8, u32)",
        "Item",
        "PBox<Item>",
        "PCell<u32>",
        "PDeque<State>",
        "PMutex<PBox<Item>>",
        "PString",
        "PVec<u32>",
        "Shop",
        "State",
        "[char; 2]",
        "bool",
        "char",
        "u32",
        "u8",
    ];
    assert_eq!(names, want);
}

/// Types that break a rule each, and are refused.
#[test]
#[cfg_attr(miri, ignore = "minutes in the interpreter")]
fn broken_rules_are_refused() {
    let byte = || PoolType { number: 1, size: 1, shape: Shape::Number(NumberKind::U8) };
    let refused = |types: Vec<PoolType>, root: u32, what: &str| {
        let made = TypeTable::new(types, TypeId::new(root));
        assert!(matches!(made, Err(TypeTableError::Malformed { .. })), "{what}: {made:?}");
    };
    let with = |size, shape| vec![byte(), PoolType { number: 2, size, shape }];
    let [first, second, third] = [0, 1, 2].map(TypeId::new);
    let structure = |fields| Shape::Struct { name: "S".to_owned(), fields };
    let choice = |variants| Shape::Enum { name: "E".to_owned(), variants };
    refused(vec![], 0, "no type");
    refused(vec![byte()], 1, "a root of no type");
    refused(with(2, Shape::Number(NumberKind::U8)), 0, "the size of a number");
    refused(with(8, Shape::Box(third)), 0, "a type that is not there");
    refused(with(8, structure(vec![field("a", 8, first)])), 0, "a field after the end");
    refused(with(8, structure(vec![field("a", u64::MAX, first)])), 0, "a field that wraps");
    refused(with(8, structure(vec![field("a", 0, second)])), 0, "a type in itself");
    refused(with(0, choice(vec![])), 0, "an enum without a tag");
    refused(
        with(1, choice(vec![variant("A", 1, vec![]), variant("B", 1, vec![])])),
        0,
        "two variants with one tag",
    );
    refused(with(1, choice(vec![variant("A", 1, vec![field("0", 1, first)])])), 0, "a variant after the end");
    refused(with(5, Shape::Array { element: first, len: 4 }), 0, "the size of an array");
    refused(with(0, Shape::Array { element: second, len: 0 }), 0, "an array in itself");
    refused(with(7, Shape::Cell(first)), 0, "a cell that is no words");
    refused(with(0, Shape::Cell(first)), 0, "a cell without a word");
    refused(with(8, Shape::Cell(second)), 0, "a cell in itself");
    refused(with(2, Shape::Mutex(first)), 0, "the size of a mutex");
    refused(with(16, Shape::Box(first)), 0, "the size of a box");
    refused(with(8, Shape::Vec { element: first, buffer: 0 }), 0, "the size of a vector");
    refused(with(16, Shape::Vec { element: second, buffer: 0 }), 0, "a vector of vectors");
    refused(with(16, Shape::Deque { element: first, buffer: 0 }), 0, "the size of a queue");
    refused(with(17, Shape::String { buffer: 0 }), 0, "the size of a string");
    let mut deep = vec![byte()];
    for level in 0..64 {
        let element = TypeId::new(level);
        deep.push(PoolType { number: 3, size: 1, shape: Shape::Array { element, len: 1 } });
    }
    refused(deep.clone(), 64, "65 levels");
    deep.pop();
    assert!(TypeTable::new(deep, first).is_ok());
    let mut wide = vec![byte()];
    for level in 0..17 {
        let fields = vec![field("a", 0, TypeId::new(level)), field("b", 0, TypeId::new(level))];
        wide.push(PoolType { number: 3, size: 0, shape: structure(fields) });
    }
    wide[0] = PoolType { number: 1, size: 0, shape: structure(vec![]) };
    refused(wide, 0, "more than 65,536 parts");
    refused(
        with(8, structure(vec![field("a", 0, first), field("b", 0, first)])),
        0,
        "fields over each other",
    );
    refused(
        with(8, structure(vec![field("a", 1, first), field("b", 0, first)])),
        0,
        "fields in another order",
    );
    let long = structure((0..300).map(|index| field(&format!("{index:4096}"), index, first)).collect());
    let long = TypeTable::new(with(300, long), first).unwrap();
    assert!(matches!(long.encode(), Err(TypeTableError::Malformed { .. })));
}

#[test]
fn values_are_checked_and_printed() {
    let table = shop();
    let state = table.types().find(|(id, _)| table.name(*id) == "State").unwrap().0;
    let text = |bytes: &[u8]| table.value_text(state, bytes);
    assert_eq!(text(&[0; 9]).unwrap(), "Free");
    assert_eq!(text(&[3, 9, 1, 2, 0, 0, 1, 0, 0]).unwrap(), "Sold((9, 513), true)");
    assert_eq!(text(&[7, 65, 0, 0, 0, 39, 0, 0, 0]).unwrap(), r"Marked { by: ['A', '\''] }");
    for bytes in [[1; 9], [3, 9, 1, 2, 0, 0, 2, 0, 0], [7, 65, 0, 0, 0, 0, 0xD8, 0, 0]] {
        assert_eq!(text(&bytes), None, "{bytes:?}");
        assert!(!table.is_value(state, &bytes));
    }
    assert_eq!(text(&[0; 8]), None, "too short");
    assert!(table.has_invalid_values(state));
}

fn compare(pool: &TypeTable, table: TypeTable) -> TypeComparison {
    pool.compare(&ProgramTypes { table, older: HashMap::new() })
}

/// A tuple of one value has a comma, as Rust writes it; a struct has none.
#[test]
fn tuples_of_one_value_are_printed_with_a_comma() {
    let of = |name: &str| PoolType {
        number: 3,
        size: 1,
        shape: Shape::Struct { name: name.to_owned(), fields: vec![field("0", 0, TypeId::new(0))] },
    };
    let byte = PoolType { number: 2, size: 1, shape: Shape::Number(NumberKind::U8) };
    let table = TypeTable::new(vec![byte, of("(u8,)"), of("Wrap")], TypeId::new(0)).unwrap();
    assert_eq!(table.value_text(TypeId::new(1), &[7]).unwrap(), format!("{:?}", (7,)));
    assert_eq!(table.value_text(TypeId::new(2), &[7]).unwrap(), "Wrap(7)");
}

/// An array of a nested array, without bytes and with too many elements to print.
#[test]
#[cfg_attr(miri, ignore = "minutes in the interpreter")]
fn long_values_are_cut() {
    let unit =
        PoolType { number: 1, size: 0, shape: Shape::Struct { name: "()".to_owned(), fields: vec![] } };
    let byte = PoolType { number: 2, size: 1, shape: Shape::Number(NumberKind::U8) };
    let array = |element, len, size| PoolType {
        number: 3,
        size,
        shape: Shape::Array { element: TypeId::new(element), len },
    };
    let types = vec![unit, byte, array(0, u64::MAX, 0), array(2, u64::MAX, 0), array(1, 1 << 20, 1 << 20)];
    let table = TypeTable::new(types, TypeId::new(0)).unwrap();
    assert_eq!(table.value_text(TypeId::new(3), &[]).unwrap(), format!("[[(); {0}]; {0}]", u64::MAX));
    let text = table.value_text(TypeId::new(4), &vec![7; 1 << 20]).unwrap();
    assert!(text.ends_with("7, ...]") && text.len() < 70_000, "{} bytes", text.len());
}

/// Types with numbers of their own, whose sizes differ, or whose inner type has changed.
#[test]
fn numbers_hide_no_difference() {
    let of = |size, inner_number, is_older: bool| {
        let mut types = TypeTableBuilder::default();
        let number = types.add(PoolType { number: 3, size: 8, shape: Shape::Number(NumberKind::U64) });
        let mut inner = |number, name: &str| {
            let fields = vec![field(name, 0, TypeId::new(0))];
            types.add(PoolType { number, size: 8, shape: Shape::Struct { name: "Inner".to_owned(), fields } })
        };
        let new = inner(inner_number, if inner_number == 5 { "a" } else { "b" });
        let old = inner(5, "a");
        let fields = vec![field("inner", 0, new), field("number", 8, number)];
        let shape = Shape::Struct { name: "Outer".to_owned(), fields };
        let root = types.add(PoolType { number: 7, size, shape });
        let older = if is_older { HashMap::from([(new, old)]) } else { HashMap::new() };
        ProgramTypes { table: types.finish(root).unwrap(), older }
    };
    let pool = of(16, 5, false).table;
    let differs = |program| assert!(matches!(pool.compare(&program), TypeComparison::Different(_)));
    assert_eq!(pool.compare(&of(16, 5, false)), TypeComparison::Same);
    differs(of(32, 5, false));
    differs(of(16, 6, false));
    // The whole says that it has not changed.
    differs(of(16, 6, true));
}

#[test]
fn differences_show_both_layouts() {
    assert_eq!(compare(&shop(), shop()), TypeComparison::Same);
    let changed = |price, has_stock| match compare(&shop(), Shop::new().table(price, has_stock)) {
        TypeComparison::Different(difference) => difference.to_string(),
        other => panic!("{other:?}"),
    };
    let added = changed(NumberKind::U32, true);
    let want = "\
Shop.items differs
  Item, in the pool          | Item, in the program
      0  name: PString       |     0  name: PString
     16  price: PCell<u32>   |    16  price: PCell<u32>
     24  states: PDeque<State> |    24  states: PDeque<State>
  -                          |    56  stock: PCell<u32>    <- differs
     56  next: PBox<Item>    |    64  next: PBox<Item>     <- differs";
    assert_eq!(squeezed(&added), squeezed(want));
    let other = changed(NumberKind::F32, false);
    assert!(other.contains("16  price: PCell<u32>") && other.contains("16  price: PCell<f32>"), "{other}");
    assert_eq!(other.matches("<- differs").count(), 1, "{other}");
}

/// Returns a text with each run of spaces as one.
fn squeezed(text: &str) -> String {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// Adds the types of a map, and returns its table.
fn map_of(make: impl FnOnce(&mut TypeTableBuilder) -> (TypeId, TypeId)) -> Result<TypeTable, TypeTableError> {
    let mut types = TypeTableBuilder::default();
    let (key, value) = make(&mut types);
    let map = types.add(PoolType { number: 9, size: 8, shape: Shape::Map { key, value, root: 5 } });
    types.finish(map)
}

fn put(types: &mut TypeTableBuilder, size: u64, shape: Shape) -> TypeId {
    types.add(PoolType { number: size, size, shape })
}

fn byte(types: &mut TypeTableBuilder) -> TypeId {
    put(types, 1, Shape::Number(NumberKind::U8))
}

#[test]
#[cfg_attr(miri, ignore = "tens of seconds in the interpreter")]
fn maps_have_types_of_keys_and_values() {
    let table = map_of(|types| {
        let (text, bytes, signed) = (
            put(types, 0, Shape::Text),
            put(types, 0, Shape::Bytes),
            put(types, 2, Shape::Number(NumberKind::I16)),
        );
        let element = byte(types);
        let array = put(types, 2, Shape::Array { element, len: 2 });
        let inner = vec![field("0", 0, bytes), field("1", 0, signed)];
        let inner = put(types, 2, Shape::Struct { name: "(Vec<u8>, i16)".to_owned(), fields: inner });
        let fields = vec![field("0", 0, text), field("1", 0, array), field("2", 2, inner)];
        let name = "(String, [u8; 2], (Vec<u8>, i16))".to_owned();
        (put(types, 4, Shape::Struct { name, fields }), put(types, 1, Shape::Bool))
    })
    .unwrap();
    assert_eq!(TypeTable::decode(&table.encode().unwrap()), Ok(table.clone()));
    assert_eq!(table.name(table.root()), "PMap<(String, [u8; 2], (Vec<u8>, i16)), bool>");
    let Shape::Map { key, value, .. } = table.get(table.root()).shape else { panic!("a map") };
    assert!(table.is_key_type(key) && !table.is_value_type(key) && table.is_value_type(value));
    type Key = (String, [u8; 2], (Vec<u8>, i16));
    let bytes = encode_key::<Key>(&("a\"\0", [1, 2], (b"\0\xFF".as_slice(), -3_i16)));
    assert_eq!(table.key_text(key, &bytes).as_deref(), Some(r#"("a\"\0", [1, 2], (b"\x00\xff", -3))"#));
    // Shorter bytes are none, nor are longer ones.
    for len in 0..bytes.len() {
        assert_eq!(table.key_text(key, &bytes[..len]), None);
    }
    assert_eq!(table.key_text(key, &[&bytes[..], &[0]].concat()), None);
    let mut no_text = bytes;
    no_text[0] = 0xFF;
    assert_eq!(table.key_text(key, &no_text), None);
    // A long key is cut.
    let table = map_of(|types| (put(types, 0, Shape::Text), byte(types))).unwrap();
    let text = table.key_text(TypeId::new(0), "ß".repeat(5000).as_bytes()).unwrap();
    assert!(text.len() < 5000 && text.ends_with("..."));
}

#[test]
fn types_of_no_key_and_no_value_are_refused() {
    type Make = fn(&mut TypeTableBuilder) -> (TypeId, TypeId);
    let wrong: [Make; 7] = [
        |types| (put(types, 4, Shape::Number(NumberKind::F32)), byte(types)),
        |types| {
            let element = put(types, 2, Shape::Number(NumberKind::U16));
            (put(types, 4, Shape::Array { element, len: 2 }), element)
        },
        |types| {
            let value = byte(types);
            let named = Shape::Struct { name: "Named".to_owned(), fields: vec![field("0", 0, value)] };
            (put(types, 3, named), value)
        },
        |types| {
            let value = byte(types);
            (put(types, 8, Shape::Cell(value)), value)
        },
        |types| (byte(types), put(types, 0, Shape::Text)),
        |types| (byte(types), put(types, 16, Shape::String { buffer: 1 })),
        |types| (put(types, 1, Shape::Text), byte(types)),
    ];
    for (index, make) in wrong.into_iter().enumerate() {
        let error = map_of(make).map(|table| table.name(table.root()));
        assert!(matches!(error, Err(TypeTableError::Malformed { .. })), "{index}: {error:?}");
    }
}

/// Maps with other keys or values differ, in the struct that has them.
#[test]
fn maps_of_other_types_differ() {
    let table = |is_text: bool, kind: NumberKind| {
        let mut types = TypeTableBuilder::default();
        let key = match is_text {
            true => put(&mut types, 0, Shape::Text),
            false => byte(&mut types),
        };
        let value = put(&mut types, kind.size(), Shape::Number(kind));
        let shape = Shape::Map { key, value, root: 5 };
        let map = types.add(PoolType { number: u64::from(is_text) << 8 | kind.size(), size: 8, shape });
        let shape = Shape::Struct { name: "Shop".to_owned(), fields: vec![field("stock", 0, map)] };
        let root = types.add(PoolType { number: 77, size: 8, shape });
        types.finish(root).unwrap()
    };
    let pool = table(true, NumberKind::U32);
    for (is_text, kind) in [(true, NumberKind::U64), (false, NumberKind::U32)] {
        let program = ProgramTypes { table: table(is_text, kind), older: HashMap::new() };
        let TypeComparison::Different(difference) = pool.compare(&program) else { panic!("{is_text}") };
        assert_eq!(difference.path, "Shop");
        assert!(difference.to_string().contains("stock: PMap<String, u32>"), "{difference}");
    }
    let same = ProgramTypes { table: pool.clone(), older: HashMap::new() };
    assert_eq!(pool.compare(&same), TypeComparison::Same);
}
