//! Values as nodes.

use lode_typegen::node::Node;
use lodestone::typed::{CellValue, MapKey};

/// A value of a cell.
pub(crate) trait Content: CellValue {
    /// Returns the value that a node is.
    fn from_node(node: &Node) -> Self;

    /// Returns the node of the value.
    fn to_node(self) -> Node;
}

/// A key of a sorted map.
pub(crate) trait KeyContent: MapKey {
    /// Returns the key that a node is.
    fn key_of(node: &Node) -> Self;

    /// Returns the node of the key.
    fn node_of(&self) -> Node;
}

macro_rules! leaves {
    ($content:ident, $key:ident: $($leaf:ty),*) => {
        leaves!($content: $($leaf),*);
        $(
            impl $key for $leaf {
                fn key_of(node: &Node) -> Self {
                    Content::from_node(node)
                }

                fn node_of(&self) -> Node {
                    Node::leaf(self)
                }
            }
        )*
    };
    ($content:ident: $($leaf:ty),*) => {$(
        impl $content for $leaf {
            fn from_node(node: &Node) -> Self {
                node.text().parse().expect("a value of the type")
            }

            fn to_node(self) -> Node {
                Node::leaf(self)
            }
        }
    )*};
}

leaves!(Content, KeyContent: u8, u16, u32, u64, i8, i16, i32, i64, bool, char);
leaves!(Content: f32, f64);

impl<T: Content> Content for Option<T> {
    fn from_node(node: &Node) -> Self {
        node.list().first().map(T::from_node)
    }

    fn to_node(self) -> Node {
        Node::List(self.into_iter().map(T::to_node).collect())
    }
}

impl<T: Content, const N: usize> Content for [T; N] {
    fn from_node(node: &Node) -> Self {
        std::array::from_fn(|index| T::from_node(&node.list()[index]))
    }

    fn to_node(self) -> Node {
        Node::List(self.into_iter().map(T::to_node).collect())
    }
}

impl Content for () {
    fn from_node(_: &Node) -> Self {}

    fn to_node(self) -> Node {
        Node::List(Vec::new())
    }
}

macro_rules! tuples {
    ($($value:ident: $index:tt),+) => {
        impl<$($value: Content),+> Content for ($($value,)+) {
            fn from_node(node: &Node) -> Self {
                ($($value::from_node(&node.list()[$index]),)+)
            }

            fn to_node(self) -> Node {
                Node::List(vec![$(self.$index.to_node()),+])
            }
        }
    };
}

tuples!(A: 0);
tuples!(A: 0, B: 1);
tuples!(A: 0, B: 1, C: 2);
tuples!(A: 0, B: 1, C: 2, D: 3);
tuples!(A: 0, B: 1, C: 2, D: 3, E: 4);
tuples!(A: 0, B: 1, C: 2, D: 3, E: 4, F: 5);

impl KeyContent for String {
    fn key_of(node: &Node) -> Self {
        node.text().to_owned()
    }

    fn node_of(&self) -> Node {
        Node::leaf(self)
    }
}

impl KeyContent for Vec<u8> {
    fn key_of(node: &Node) -> Self {
        node.list().iter().map(Content::from_node).collect()
    }

    fn node_of(&self) -> Node {
        Node::List(self.iter().map(Node::leaf).collect())
    }
}

impl<const N: usize> KeyContent for [u8; N] {
    fn key_of(node: &Node) -> Self {
        Content::from_node(node)
    }

    fn node_of(&self) -> Node {
        self.to_node()
    }
}

macro_rules! tuple_keys {
    ($($key:ident: $index:tt),+) => {
        impl<$($key: KeyContent),+> KeyContent for ($($key,)+) {
            fn key_of(node: &Node) -> Self {
                ($($key::key_of(&node.list()[$index]),)+)
            }

            fn node_of(&self) -> Node {
                Node::List(vec![$(self.$index.node_of()),+])
            }
        }
    };
}

tuple_keys!(A: 0, B: 1);
tuple_keys!(A: 0, B: 1, C: 2);
