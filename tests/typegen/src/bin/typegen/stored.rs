//! Objects as nodes.

use crate::content::{Content, KeyContent};
use lode_typegen::node::Node;
use lodestone::AsKey;
use lodestone::typed::{
    Guard, HeapError, PBox, PCell, PDeque, PHashMap, PMap, PMutex, PString, PVec, Persist, TypedTx,
};

lodestone::typed::brand!(
    /// All pools: each process has one.
    pub(crate) Generated
);

/// A transaction that fills a pool.
pub(crate) type Tx<'a> = TypedTx<'a, Generated>;
/// A guard under which a pool is read.
pub(crate) type Reading<'a> = Guard<'a, Generated>;

/// A persistent type.
pub(crate) trait Stored: Persist<Generated> {
    /// Returns a new value with the numbers and cells of a node.
    fn initial(node: &Node) -> Self;

    /// Stores what the node has beside them: objects and elements.
    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError>;

    /// Returns the node of all that was committed.
    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Stored for $number {
            fn initial(node: &Node) -> Self {
                Content::from_node(node)
            }

            fn fill(&self, _: &Tx<'_>, _: &Node) -> Result<(), HeapError> {
                Ok(())
            }

            fn read_node(&self, _: &Reading<'_>) -> Result<Node, HeapError> {
                Ok(self.to_node())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl<T: Content> Stored for PCell<T, Generated> {
    fn initial(node: &Node) -> Self {
        PCell::new(T::from_node(node))
    }

    fn fill(&self, _: &Tx<'_>, _: &Node) -> Result<(), HeapError> {
        Ok(())
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        self.load(guard).map(T::to_node)
    }
}

impl<T: Content> Stored for PVec<T, Generated> {
    fn initial(_: &Node) -> Self {
        PVec::new()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        let values: Vec<T> = node.list().iter().map(T::from_node).collect();
        self.extend_from_slice(tx, &values)
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        Ok(list(self.load_all(guard)?))
    }
}

impl<T: Content> Stored for PDeque<T, Generated> {
    fn initial(_: &Node) -> Self {
        PDeque::new()
    }

    /// Stores the second half first, so that the elements do not begin where their buffer does.
    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        let (first, second) = node.list().split_at(node.list().len() / 2);
        second.iter().try_for_each(|node| self.push_back(tx, T::from_node(node)))?;
        first.iter().rev().try_for_each(|node| self.push_front(tx, T::from_node(node)))
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        Ok(list(self.load_all(guard)?))
    }
}

fn list<T: Content>(values: Vec<T>) -> Node {
    Node::List(values.into_iter().map(T::to_node).collect())
}

impl Stored for PString<Generated> {
    fn initial(_: &Node) -> Self {
        PString::new()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        self.set(tx, node.text())
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        self.load(guard).map(Node::Leaf)
    }
}

impl<K: Content, V: Content> Stored for PHashMap<K, V, Generated> {
    fn initial(_: &Node) -> Self {
        PHashMap::new()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        node.list().iter().try_for_each(|entry| {
            let [key, value] = [0, 1].map(|index| &entry.list()[index]);
            self.insert(tx, K::from_node(key), V::from_node(value)).map(drop)
        })
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        let entries = self.load_all(guard)?.into_iter();
        let entries: Vec<Node> = entries.map(|(key, value)| pair(key.to_node(), value.to_node())).collect();
        for entry in &entries {
            let found = self.load(guard, K::from_node(&entry.list()[0]))?;
            assert_eq!(
                found.map(V::to_node).as_ref(),
                Some(&entry.list()[1]),
                "a search finds what a walk does"
            );
        }
        Ok(Node::sorted(entries))
    }
}

impl<K: KeyContent + AsKey<K>, V: Content> Stored for PMap<K, V, Generated> {
    fn initial(_: &Node) -> Self {
        PMap::new()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        node.list().iter().try_for_each(|entry| {
            let [key, value] = [0, 1].map(|index| &entry.list()[index]);
            self.insert(tx, K::key_of(key), V::from_node(value)).map(drop)
        })
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        let entry =
            |entry: Result<(K, V), HeapError>| entry.map(|(key, value)| pair(key.node_of(), value.to_node()));
        let entries: Vec<Node> = self.load_range(guard, ..).map(entry).collect::<Result<_, _>>()?;
        Ok(Node::sorted(entries))
    }
}

fn pair(key: Node, value: Node) -> Node {
    Node::List(vec![key, value])
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn initial(node: &Node) -> Self {
        std::array::from_fn(|index| T::initial(&node.list()[index]))
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        self.iter().zip(node.list()).try_for_each(|(part, node)| part.fill(tx, node))
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        self.iter().map(|part| part.read_node(guard)).collect::<Result<_, _>>().map(Node::List)
    }
}

impl<T: Stored> Stored for PMutex<T, Generated> {
    fn initial(node: &Node) -> Self {
        PMutex::new(T::initial(node))
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        self.lock(tx)?.fill(tx, node)
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        self.read(guard, |part| part.read_node(guard))
    }
}

impl<T: Stored> Stored for PBox<T, Generated> {
    fn initial(_: &Node) -> Self {
        PBox::null()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        let Some(node) = node.list().first() else { return Ok(()) };
        let new = tx.alloc(T::initial(node))?;
        new.fill(tx, node)?;
        self.set(tx, new)
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        let target = self.load(guard)?.map(|target| target.read_node(guard)).transpose()?;
        Ok(Node::List(target.into_iter().collect()))
    }
}

impl<T: Stored> Stored for PVec<PBox<T, Generated>, Generated> {
    fn initial(_: &Node) -> Self {
        PVec::new()
    }

    fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {
        node.list().iter().try_for_each(|node| {
            let new = tx.alloc(T::initial(node))?;
            new.fill(tx, node)?;
            self.push(tx, new).map(drop)
        })
    }

    fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {
        let targets = self.load_all(guard)?.into_iter();
        targets.map(|target| target.read_node(guard)).collect::<Result<_, _>>().map(Node::List)
    }
}
