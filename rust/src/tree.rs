//! The tree: a compressed radix tree over token ids, one root for each namespace.
//!
//! A node that no key ends at has at least two children (roots excepted), so every node above a key is a
//! position where some other key parts from it.

use crate::arena::{Arena, NONE};
use crate::handles::Handles;
use crate::label::shared_length;
use crate::namespace::Namespaces;
use crate::node::Node;

/// Prompts that wait, each under a handle. See the module's text.
#[derive(Default)]
pub struct Tree {
    pub(crate) nodes: Arena<Node>,
    pub(crate) spaces: Namespaces,
    pub(crate) handles: Handles,
    pub(crate) tokens: usize,
}

impl Tree {
    /// An empty tree, which owns no memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Live handles.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the handle is live.
    pub fn contains(&self, handle: u64) -> bool {
        self.handles.get(handle).is_some()
    }

    /// Whether the handle was live at some time.
    pub fn was_issued(&self, handle: u64) -> bool {
        self.handles.was_issued(handle)
    }

    /// Adds a key; None for a key without tokens, which has nothing to share.
    pub fn insert(&mut self, namespace: &str, tokens: &[u32]) -> Option<u64> {
        if tokens.is_empty() {
            return None;
        }
        let handle = self.handles.reserve();
        let mut id = self.root(namespace, handle);
        let mut rest = tokens;
        // The new handle is the largest, so no node that exists already gets another first handle.
        let end = loop {
            let node = &mut self.nodes[id];
            node.count += 1;
            node.waiting += 1;
            if rest.is_empty() {
                node.own.insert(handle);
                break id;
            }
            let Some(child) = node.children.get(rest[0]) else {
                break self.grow(id, rest, handle);
            };
            let label = &self.nodes[child].label;
            let shared = shared_length(label, rest);
            id = if shared == label.len() {
                child
            } else {
                self.split(child, shared)
            };
            rest = &rest[shared..];
        };
        self.handles.push(handle, end);
        Some(handle)
    }

    /// Takes a key away; false if the handle is not live.
    pub fn remove(&mut self, handle: u64) -> bool {
        let Some(entry) = self.handles.remove(handle) else {
            return false;
        };
        if self.is_empty() {
            self.clear();
            return true;
        }
        let end = entry.node;
        let found = self.nodes[end].own.remove(handle);
        assert!(found, "handle {handle} is not at its node {end}");
        self.forget(end, handle, entry.retired);
        self.prune(end);
        if self.nodes.is_sparse() {
            self.compact();
        }
        true
    }

    /// Stops counting a key as a peer of others, for good; false if the handle is not live. Everything else about it
    /// stays as it was, and it still covers the keys behind it.
    pub fn retire(&mut self, handle: u64) -> bool {
        let Some(entry) = self.handles.entry(handle) else {
            return false;
        };
        if entry.retired {
            return true;
        }
        self.handles.retire(handle);
        let mut id = entry.node;
        while id != NONE {
            let node = &mut self.nodes[id];
            node.waiting -= 1;
            id = node.parent;
        }
        true
    }

    /// Forgets every key and gives the memory back. Handles are still not used again.
    pub fn clear(&mut self) {
        self.nodes = Arena::new();
        self.spaces = Namespaces::default();
        self.handles.clear();
        self.tokens = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_handles_and_empty_keys_change_nothing() {
        let mut tree = Tree::new();
        assert_eq!(tree.insert("", &[]), None);
        assert!(!tree.remove(1));
        assert_eq!((tree.residual(7, 1), tree.key_length(7)), (None, None));
        assert_eq!(tree.stats(), crate::stats::Stats::default());
    }
}
