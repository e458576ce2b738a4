use lode_heap::{PBox, PCell};

lode_heap::brand!(Mine);

struct Node {
    next: PBox<u64, Mine>,
}

fn moved(node: &Node) -> PBox<u64, Mine> {
    node.next
}

fn copied(_cell: PCell<PBox<u64, Mine>, Mine>) {}

fn main() {}
