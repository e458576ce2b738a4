//! Pools of typed data: a type table, and what it says about the objects, are read without a panic and in bounded time.

use lode_fsck::{TypedRepair, check_pool, repair_pool};
use lode_heap::{HeapError, TypedDamage, TypedPlace, TypedSurvey, TypedVisitor};
use lode_index::{IndexError, StoreLayout, Tree, Trees, visit_map};
use lode_layout::{
    AsKey, NumberKind, Place, PoolOffset, PoolType, ProgramTypes, Shape, TYPE_TREE, TYPE_TYPE_TABLE,
    TYPE_TYPED_ROOT, TypeComparison, TypeField, TypeId, TypeTable, TypeTableBuilder, TypeVariant, TypedRoot,
};
use lode_pmem::{Mapping, Medium};
use lode_testing::{kv, memory};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Bytes of the pool: what its superblocks take.
const POOL_LEN: u64 = 320 << 10;
/// Bytes of one change of the pool: where, and the new word.
const CHANGE: usize = 10;
/// Bytes of a table before and including its checksum.
const CRC_END: usize = 20;
// The type numbers of the objects.
const ROOT: u64 = 1;
const ITEM: u64 = 2;
const NUMBERS: u64 = 3;
const WISHES: u64 = 4;
const TEXT: u64 = 5;

/// Reads the bytes as a type table, and as changes of a pool.
pub fn run(data: &[u8]) {
    read_table(data);
    read_table(&with_checksum(data.to_vec()));
    change_pool(data);
}

/// Uses a table in every way, if the bytes are one.
fn read_table(bytes: &[u8]) {
    let Ok(table) = TypeTable::decode(bytes) else { return };
    // Names that are cut may differ, nothing else.
    let again = table.encode().map(|bytes| TypeTable::decode(&bytes));
    assert_eq!(again, Ok(Ok(table.clone())));
    let program = ProgramTypes { table: table.clone(), older: HashMap::new() };
    assert_eq!(table.compare(&program), TypeComparison::Same);
    if let TypeComparison::Different(difference) = types().compare(&program) {
        assert!(!difference.to_string().is_empty());
    }
    for (id, ty) in table.types() {
        let _ = (table.name(id).len(), table.rows(id).len(), table.step(id, ty.size / 2).len());
        if table.is_value_type(id) {
            let text = table.value_text(id, bytes);
            assert_eq!(text.is_some(), table.is_value(id, bytes));
        }
        assert!(table.key_text(id, bytes).is_none() || table.is_key_type(id));
    }
}

/// Returns the bytes with the checksum of a table, as a hostile writer could leave them.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 40 {
        bytes[..8].copy_from_slice(&TYPE_TYPE_TABLE.to_le_bytes());
        let len = (bytes.len() as u32).to_le_bytes();
        bytes[24..28].copy_from_slice(&len);
        let crc = crc32c::crc32c(&bytes[CRC_END..]).to_le_bytes();
        bytes[CRC_END - 4..CRC_END].copy_from_slice(&crc);
    }
    bytes
}

/// Changes words of the objects of a sound pool, and then reads it. Each change has the number of a word (2 bytes), and a word.
fn change_pool(data: &[u8]) {
    let (medium, objects) = sound_pool();
    let words: Vec<PoolOffset> =
        objects.iter().flat_map(|(at, len)| (0..len / 8).map(|word| at.plus(word * 8))).collect();
    for change in data.chunks_exact(CHANGE) {
        let (word, value) = change.split_at(CHANGE - 8);
        let word = usize::from(u16::from_le_bytes(word.try_into().unwrap_or_default()));
        let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
        medium.store8(words[word % words.len()], value);
    }
    let report = check_pool(Arc::new(memory::from_bytes(&memory::bytes(&medium))), &[&StoreLayout]);
    assert!(!report.to_string().is_empty());
    repair(&Arc::new(memory::from_bytes(&memory::bytes(&medium))));
    let Ok(heap) = kv::open(&medium, [9, 9]) else { return };
    if let Ok(Some(survey)) = TypedSurvey::open(&heap) {
        survey.with_maps(visit_map).visit(&mut Reader::default());
    }
}

/// Repairs the pool, after which another repair finds nothing to do.
fn repair(medium: &Arc<Mapping>) {
    let Ok(repair) = repair_pool(medium, [7, 7], &[&StoreLayout]) else { return };
    let again = repair_pool(medium, [8, 8], &[&StoreLayout]).expect("it was repaired before");
    assert_eq!((again.repaired, again.typed.clone()), (0, TypedRepair::default()), "after {repair:?}");
    assert_eq!(again.after, repair.after);
}

/// Reads all that a survey finds.
#[derive(Default)]
struct Reader {
    seen: HashSet<PoolOffset>,
}

impl TypedVisitor for Reader {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.seen.insert(place.at())
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        assert!(!place.path().is_empty() && !text().is_empty());
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        assert!(!place.path().is_empty() && !damage.means().is_empty());
    }
}

/// Returns the types of the pool: a root with a list, a vector, a queue, a text and a map.
fn types() -> TypeTable {
    let mut types = TypeTableBuilder::default();
    let mut add = |number, size, shape| types.add(PoolType { number, size, shape });
    let field = |name: &str, offset, id: TypeId| TypeField { name: name.to_owned(), offset, id };
    let short = add(10, 2, Shape::Number(NumberKind::U16));
    let letter = add(11, 4, Shape::Char);
    let truth = add(12, 1, Shape::Bool);
    let variants = vec![
        TypeVariant { name: "Free".to_owned(), tag: 0, fields: Vec::new() },
        TypeVariant {
            name: "Sold".to_owned(),
            tag: 1,
            fields: vec![field("0", 1, truth), field("1", 2, short)],
        },
    ];
    let state = add(13, 4, Shape::Enum { name: "State".to_owned(), variants });
    let state = add(14, 8, Shape::Cell(state));
    let numbers = add(15, 16, Shape::Vec { element: short, buffer: NUMBERS });
    let wishes = add(16, 32, Shape::Deque { element: letter, buffer: WISHES });
    let text = add(17, 16, Shape::String { buffer: TEXT });
    let (name, byte) = (add(19, 0, Shape::Text), add(20, 1, Shape::Number(NumberKind::U8)));
    let key = Shape::Struct {
        name: "(String, u8)".to_owned(),
        fields: vec![field("0", 0, name), field("1", 0, byte)],
    };
    let key = add(21, 1, key);
    let map = add(22, 8, Shape::Map { key, value: truth, root: TYPE_TREE });
    let item = types.reserve("Item".to_owned());
    let next = types.add(PoolType { number: 18, size: 8, shape: Shape::Box(item) });
    let fields = vec![field("state", 0, state), field("next", 8, next)];
    types.fill(
        item,
        PoolType { number: ITEM, size: 16, shape: Shape::Struct { name: "Item".to_owned(), fields } },
    );
    let fields = vec![
        field("first", 0, next),
        field("numbers", 8, numbers),
        field("wishes", 24, wishes),
        field("text", 56, text),
        field("map", 72, map),
    ];
    let root = types.add(PoolType {
        number: ROOT,
        size: 80,
        shape: Shape::Struct { name: "Root".to_owned(), fields },
    });
    types.finish(root).expect("the types keep the rules")
}

/// Makes a pool with some typed data, and a tree. Returns its medium, and its objects with their lengths, those of the table first.
fn sound_pool() -> (Arc<Mapping>, Vec<(PoolOffset, u64)>) {
    let heap = kv::create_empty(POOL_LEN, "typed");
    let medium = Arc::clone(heap.medium());
    let objects = heap.run(|tx| {
        let mut objects = Vec::new();
        let mut make = |words: &[u64], number| {
            let at = tx.alloc_with(words, 16, number)?;
            objects.push((at, words.len() as u64 * 8));
            Ok::<_, HeapError>(at)
        };
        let mut table = types().encode().expect("a short table");
        table.resize(table.len().next_multiple_of(8), 0);
        let words: Vec<u64> = table.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let types = make(&words, TYPE_TYPE_TABLE)?;
        let last = make(&[0x0007_0101, 0], ITEM)?;
        let first = make(&[0, last.get()], ITEM)?;
        let numbers = make(&[0x0004_0003_0002_0001, 5], NUMBERS)?;
        let wishes = make(&[u64::from('a') | u64::from('b') << 32, 0], WISHES)?;
        let text = make(&[u64::from_le_bytes(*b"magnetit")], TEXT)?;
        let map = Tree::create(tx)?;
        let tree = Tree::open_in(tx.heap(), tx, map)?;
        for (name, number) in [("north", 1), ("north", 2), ("south", 1)] {
            let mut key = Vec::new();
            AsKey::<(String, u8)>::encode_key(&(name, number), Place::Last, &mut key);
            tree.insert_in(tx, &key, &[number % 2])?;
        }
        let root = [first.get(), numbers.get(), 5, wishes.get(), 4, 0, 2, text.get(), 8, map.get()];
        let root = make(&root, ROOT)?;
        let trees = Tree::create(tx)?;
        let names = Trees::open_in(tx.heap(), tx, trees)?.create_in(tx, "names", "u8", "bytes")?;
        let names = Tree::open_in(tx.heap(), tx, names.root)?;
        for number in [1, 2] {
            names.insert_in(tx, &[number], &[number; 9])?;
        }
        let typed = TypedRoot { root, types, from: PoolOffset::NULL, trees };
        let typed = make(&typed.encode(), TYPE_TYPED_ROOT)?;
        tx.set_root(typed);
        Ok::<_, IndexError>(objects)
    });
    let mut objects = objects.expect("the pool has room");
    let all = heap.objects().map(|object| object.expect("a sound heap"));
    let of_map = all.filter(|object| objects.iter().all(|(at, _)| *at != object.at));
    let of_map: Vec<(PoolOffset, u64)> = of_map.map(|object| (object.at, object.size)).collect();
    objects.extend(of_map);
    heap.close().expect("memory keeps all");
    (medium, objects)
}

/// Returns a table, and changes of the table, of pointers, lengths and values.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let change = |word: u16, value: u64| [&word.to_le_bytes()[..], &value.to_le_bytes()].concat();
    let table = types().encode().expect("a short table");
    let first = table.len().div_ceil(8) as u16;
    vec![
        ("sound", Vec::new()),
        ("table", table),
        ("in_table", change(5, u64::MAX)),
        ("value", change(first, 9)),
        ("pointer", change(first + 1, 8)),
        ("length", change(first + 11, 1 << 40)),
        ("root", [change(first + 9, u64::MAX), change(first + 19, 1 << 30)].concat()),
        ("map", change(first + 18, 64)),
        ("in_map", change(first + 25, u64::MAX)),
        ("trees", change(first + 22, 1 << 30)),
        ("in_trees", change(first + 160, u64::MAX)),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sound_pools_have_no_damage() {
        let (medium, objects) = sound_pool();
        let report = check_pool(Arc::new(memory::from_bytes(&memory::bytes(&medium))), &[&StoreLayout]);
        assert!(report.is_clean() && report.traced, "{report}");
        // The map has a root object, two nodes and three leaves, the table of trees a root object and a leaf, and the tree a root
        // object, a node and two leaves.
        assert_eq!((report.counts.objects, objects.len()), (20, 20));
    }

    #[test]
    fn hostile_tables_end() {
        let table = types().encode().unwrap();
        crate::run_mixed_seeds(&seeds(), 2000, run);
        // Each byte of the table, with the checksum of a hostile writer.
        for (at, value) in (28..table.len()).flat_map(|at| [0, 1, 0x7F, 0xFF].map(|value| (at, value))) {
            let mut changed = table.clone();
            changed[at] = value;
            read_table(&with_checksum(changed));
        }
    }
}
