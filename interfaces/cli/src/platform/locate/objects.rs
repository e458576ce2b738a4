//! The objects of a pool that lie in ranges of its file.

use crate::pool::dump::type_name;
use crate::pool::pmdk::{PmdkPart, pieces_in};
use crate::pool::typed_trees::named;
use crate::pool::types::survey;
use lode_heap::{Heap, MapPart, Object, Pool, TypedDamage, TypedPlace, TypedVisitor};
use lode_index::{Trees, visit_map};
use lode_kv::{LAYOUT_NAME, NamedTrees};
use lode_layout::{Geometry, Header, LayoutName, PoolOffset, TYPE_LEAF};
use lode_pmem::Medium;
use lode_pool::{Access, HeaderCopy, OpenOptions, map_unchecked};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use uuid::Uuid;

/// A pool, of which a range of its file has a part.
pub(super) enum HeldPool {
    Lodestone(PoolPart),
    Pmdk(PmdkPart),
}

/// The part of a pool of Lodestone in a range of its file.
pub(super) struct PoolPart {
    pub(super) uuid: Uuid,
    pub(super) layout: LayoutName,
    /// The parts, or why they can't be told.
    pub(super) parts: Result<Vec<Part>, String>,
}

/// A part of a pool: its first byte in the pool, its length, and what it is.
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Headers and slots.
    Header,
    Log,
    /// The chunk table of an extent.
    ChunkTable,
    /// An object: the text of its type, and its owner if it is known.
    Object(String, Option<Owner>),
}

/// The reference that leads to an object.
#[derive(Clone)]
pub(super) enum Owner {
    /// The entry of a key. The tree has a name unless it is the only one.
    Key { tree: Option<String>, key: Vec<u8> },
    /// An entry whose key can't be read: the keys before and after it.
    Lost { tree: Option<String>, after: Option<Vec<u8>>, before: Option<Vec<u8>> },
    /// A node, or the root object, of a tree.
    Node { tree: Option<String> },
    /// The way from the root of typed data.
    Way(String),
}

/// Returns what of the pool at `path` lies in `range` of its file; `None` if it is no pool.
pub(super) fn in_range(path: &Path, range: &Range<u64>) -> Option<HeldPool> {
    let Some(header) = header(path) else { return pieces_in(path, range).map(HeldPool::Pmdk) };
    let parts = match Pool::open(path, &OpenOptions::new(Access::ReadOnly)) {
        Ok(pool) => parts(pool.heap(), &pool.header().geometry, header.layout, range),
        Err(error) => Err(format!("its objects can't be read: {error}")),
    };
    Some(HeldPool::Lodestone(PoolPart { uuid: header.uuid, layout: header.layout, parts }))
}

/// Reads the header of the pool at `path`, which a process may have open for writing.
fn header(path: &Path) -> Option<Header> {
    if let Ok(mapping) = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)) {
        return HeaderCopy::A.read(&mapping).or_else(|_| HeaderCopy::B.read(&mapping)).ok();
    }
    let is_file = path.metadata().is_ok_and(|status| status.is_file());
    let file = File::open(path).ok().filter(|_| is_file)?;
    [HeaderCopy::A, HeaderCopy::B].iter().find_map(|copy| {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, copy.at().get()).ok()?;
        Header::decode(&bytes).ok()
    })
}

fn parts<M: Medium>(
    heap: &Heap<M>,
    geometry: &Geometry,
    layout: LayoutName,
    range: &Range<u64>,
) -> Result<Vec<Part>, String> {
    let overlaps = |at: u64, len: u64| at < range.end && range.start < at.saturating_add(len);
    let first =
        geometry.log_off().get().min(geometry.extents().first().map_or(0, |extent| extent.start.get()));
    let mut parts = Vec::new();
    let mut add = |at: u64, len: u64, kind: Kind| {
        if overlaps(at, len) {
            parts.push(Part { at, len, kind });
        }
    };
    add(0, first, Kind::Header);
    add(geometry.log_off().get(), geometry.log_len(), Kind::Log);
    for extent in geometry.extents() {
        add(extent.start.get(), extent.table_len, Kind::ChunkTable);
    }
    let mut objects = Vec::new();
    for object in heap.objects() {
        let object = object.map_err(|error| error.to_string())?;
        if overlaps(object.at.get(), object.size) {
            objects.push(object);
        }
    }
    let owners = owners(heap, layout, &objects)?;
    for Object { at, size, type_number } in objects {
        let kind = Kind::Object(type_name(type_number), owners.get(&at).cloned());
        parts.push(Part { at: at.get(), len: size, kind });
    }
    Ok(parts)
}

/// Returns the owners of these objects, as far as a walk over the pool finds them.
fn owners<M: Medium>(
    heap: &Heap<M>,
    layout: LayoutName,
    objects: &[Object],
) -> Result<HashMap<PoolOffset, Owner>, String> {
    let mut owners = Owners { wanted: objects, seen: HashSet::new(), found: HashMap::new() };
    if objects.is_empty() {
        return Ok(owners.found);
    }
    let root = heap.root().map_err(|error| error.to_string())?;
    if layout.as_str() == LAYOUT_NAME {
        owners.visit_tree(heap, None, root);
    } else if layout == NamedTrees::layout_name() {
        let trees = Trees::open(heap, root).map_err(|error| error.to_string())?;
        owners.visit_tree(heap, Some("the table of trees"), root);
        let names = heap.run(|tx| trees.names_in(tx)).map_err(|error| error.to_string())?;
        for name in names {
            if let Some(tree) = trees.get(&name).map_err(|error| error.to_string())? {
                owners.visit_tree(heap, Some(&name), tree.root);
            }
        }
    } else if let Ok(mut survey) = survey(heap) {
        survey.visit(&mut owners);
        for (name, tree) in named(heap).map_err(|error| error.to_string())? {
            owners.visit_tree(heap, Some(&name), tree.root);
        }
    }
    Ok(owners.found)
}

struct Owners<'a> {
    /// The objects, in the order of their offsets.
    wanted: &'a [Object],
    /// The objects of typed data that were visited: damage may lead to one again.
    seen: HashSet<PoolOffset>,
    found: HashMap<PoolOffset, Owner>,
}

impl Owners<'_> {
    /// Records the owner of the object that has the byte at `at`, if that object is wanted.
    fn add(&mut self, at: PoolOffset, owner: impl FnOnce() -> Owner) {
        if let Some(object) = self.wanted_at(at) {
            self.found.insert(object.at, owner());
        }
    }

    fn wanted_at(&self, at: PoolOffset) -> Option<Object> {
        let after = self.wanted.partition_point(|object| object.at <= at);
        let object = self.wanted.get(after.checked_sub(1)?)?;
        (at.get() - object.at.get() < object.size).then_some(*object)
    }

    fn visit_tree<M: Medium>(&mut self, heap: &Heap<M>, name: Option<&str>, root: PoolOffset) {
        let tree = || name.map(str::to_owned);
        let mut last: Option<Vec<u8>> = None;
        let mut visited = root;
        let mut lost = Vec::new();
        visit_map(heap, root, &mut |part| {
            match part {
                MapPart::Object(at) => {
                    visited = at;
                    self.add(at, || Owner::Node { tree: tree() });
                }
                MapPart::Entry { at, key, .. } => {
                    self.add(at, || Owner::Key { tree: tree(), key: key.to_vec() });
                    self.end_lost(&mut lost, key);
                    last = Some(key.to_vec());
                }
                // A leaf that was visited and has shown no key can't be read.
                MapPart::Damage(_) => {
                    let leaf = self.wanted_at(visited).filter(|object| object.type_number == TYPE_LEAF);
                    if let Some(leaf) = leaf
                        && matches!(self.found.get(&leaf.at), Some(Owner::Node { .. }))
                    {
                        self.found
                            .insert(leaf.at, Owner::Lost { tree: tree(), after: last.clone(), before: None });
                        lost.push(leaf.at);
                    }
                }
                _ => {}
            }
            true
        });
    }
}

impl Owners<'_> {
    /// Gives the lost entries the key after them.
    fn end_lost(&mut self, lost: &mut Vec<PoolOffset>, key: &[u8]) {
        for at in lost.drain(..) {
            if let Some(Owner::Lost { before, .. }) = self.found.get_mut(&at) {
                *before = Some(key.to_vec());
            }
        }
    }
}

impl TypedVisitor for Owners<'_> {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.add(place.at(), || Owner::Way(place.path()));
        self.seen.insert(place.at())
    }

    fn value(&mut self, _: &TypedPlace<'_>, _: &dyn Fn() -> String) {}

    fn damage(&mut self, _: &TypedPlace<'_>, _: TypedDamage) {}
}
