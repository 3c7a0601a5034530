//! One node of the tree.

use crate::arena::{NodeId, NONE};
use crate::children::Children;
use crate::terminals::Terminals;

/// A node: the end of a key, a position where keys part, or the root of a namespace.
pub struct Node {
    /// Tokens on the edge from the parent; empty only at a root.
    pub label: Box<[u32]>,
    /// What follows.
    pub children: Children,
    /// The keys that end here.
    pub own: Terminals,
    /// The smallest handle here or below.
    pub first: u64,
    /// The node above, [`NONE`] at a root.
    pub parent: NodeId,
    /// Handles here and below.
    pub count: u32,
    /// Those of them that are not retired, which is those that count as peers.
    pub waiting: u32,
}

impl Node {
    /// A root without keys.
    pub fn root() -> Self {
        Self {
            label: Box::default(),
            children: Children::default(),
            own: Terminals::None,
            first: crate::terminals::NO_HANDLE,
            parent: NONE,
            count: 0,
            waiting: 0,
        }
    }

    /// A node where one key ends and nothing follows.
    pub fn leaf(label: Box<[u32]>, parent: NodeId, handle: u64) -> Self {
        Self {
            label,
            children: Children::default(),
            own: Terminals::One(handle),
            first: handle,
            parent,
            count: 1,
            waiting: 1,
        }
    }

    /// Whether this is the root of a namespace.
    pub fn is_root(&self) -> bool {
        self.parent == NONE
    }

    /// Heap bytes it owns beside its slot.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.label) + self.children.bytes() + self.own.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_small() {
        // 128 bytes a node beside its tokens is the budget, and the maps around it need some of that.
        assert!(size_of::<Node>() <= 72, "{}", size_of::<Node>());
    }
}
