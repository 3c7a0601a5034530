//! The tree: a compressed radix tree over token ids, one root for each namespace.
//!
//! A node that no key ends at has at least two children (roots excepted), so every node above a key is a
//! position where some other key parts from it. Questions about a key walk from its node to the root and never
//! look at tokens.

use crate::arena::{Arena, NodeId};
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
        self.handles.set(handle, end);
        Some(handle)
    }

    /// Takes a key away; false if the handle is not live.
    pub fn remove(&mut self, handle: u64) -> bool {
        let Some(end) = self.handles.remove(handle) else {
            return false;
        };
        if self.is_empty() {
            self.clear();
            return true;
        }
        let found = self.nodes[end].own.remove(handle);
        assert!(found, "handle {handle} is not at its node {end}");
        self.forget(end, handle);
        self.prune(end);
        if self.nodes.is_sparse() {
            self.compact();
        }
        true
    }

    /// The length of the longest prefix of `tokens` that some live key of the namespace begins with.
    pub fn match_prefix(&self, namespace: &str, tokens: &[u32]) -> usize {
        let Some(mut id) = self.spaces.get(namespace) else {
            return 0;
        };
        let mut rest = tokens;
        while let Some(&token) = rest.first() {
            let Some(child) = self.nodes[id].children.get(token) else {
                break;
            };
            let label = &self.nodes[child].label;
            let shared = shared_length(label, rest);
            rest = &rest[shared..];
            if shared < label.len() {
                break;
            }
            id = child;
        }
        tokens.len() - rest.len()
    }

    /// The number of tokens of a key.
    pub fn key_length(&self, handle: u64) -> Option<usize> {
        let end = self.handles.get(handle)?;
        Some(self.path(end).map(|node| node.label.len()).sum())
    }

    /// Where other live keys part from this one: `(position, other keys that share at least that many tokens)`,
    /// positions from 1 on, ascending. Identical and longer keys part from it at its length.
    pub fn shared_with_peers(&self, handle: u64) -> Option<Vec<(usize, usize)>> {
        let end = self.handles.get(handle)?;
        let mut junctions = Vec::new();
        let mut from_end = 0;
        for node in self.path(end).filter(|node| !node.is_root()) {
            if node.count > 1 {
                junctions.push((from_end, node.count as usize - 1));
            }
            from_end += node.label.len();
        }
        junctions.reverse();
        for (position, _) in &mut junctions {
            *position = from_end - *position;
        }
        Some(junctions)
    }

    /// Tokens of a key that no live key with a smaller handle shares, where what is shared counts in whole units
    /// of `granularity` tokens.
    pub fn residual(&self, handle: u64, granularity: usize) -> Option<usize> {
        let end = self.handles.get(handle)?;
        let (mut length, mut own) = (0, None);
        for node in self.path(end) {
            if node.first < handle && own.is_none() {
                own = Some(length);
            }
            length += node.label.len();
        }
        let covered = length - own.unwrap_or(length);
        Some(length - covered / granularity * granularity)
    }

    /// Forgets every key and gives the memory back. Handles are still not used again.
    pub fn clear(&mut self) {
        self.nodes = Arena::new();
        self.spaces = Namespaces::default();
        self.handles.clear();
        self.tokens = 0;
    }

    /// A node and everything above it.
    fn path(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        let node = &self.nodes[id];
        std::iter::successors(Some(node), |node| {
            (!node.is_root()).then(|| &self.nodes[node.parent])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[(u32, usize)]) -> Vec<u32> {
        parts
            .iter()
            .flat_map(|&(token, times)| std::iter::repeat_n(token, times))
            .collect()
    }

    #[test]
    fn junctions_are_where_peers_part() {
        let mut tree = Tree::new();
        let a = tree
            .insert("", &key(&[(1, 300), (2, 50), (3, 10)]))
            .unwrap();
        let b = tree
            .insert("", &key(&[(1, 300), (2, 50), (4, 10)]))
            .unwrap();
        let c = tree.insert("", &key(&[(1, 300), (5, 60)])).unwrap();
        tree.insert("", &[9, 9]).unwrap();
        tree.insert("salt", &key(&[(1, 320)])).unwrap();
        assert_eq!(tree.shared_with_peers(a).unwrap(), [(300, 2), (350, 1)]);
        assert_eq!(tree.shared_with_peers(c).unwrap(), [(300, 2)]);
        assert_eq!(tree.residual(a, 1), Some(360));
        assert_eq!(tree.residual(b, 1), Some(10));
        assert_eq!(tree.residual(c, 64), Some(360 - 256));
        tree.remove(a);
        assert_eq!(tree.shared_with_peers(b).unwrap(), [(300, 1)]);
        assert_eq!(tree.residual(b, 1), Some(360));
        tree.check_integrity().unwrap();
    }

    #[test]
    fn identical_longer_and_shorter_keys_are_peers() {
        let mut tree = Tree::new();
        let short = tree.insert("", &[1, 2]).unwrap();
        let long = tree.insert("", &[1, 2, 3]).unwrap();
        let twin = tree.insert("", &[1, 2]).unwrap();
        assert_eq!(tree.shared_with_peers(short).unwrap(), [(2, 2)]);
        assert_eq!(tree.shared_with_peers(long).unwrap(), [(2, 2)]);
        assert_eq!(tree.residual(long, 1), Some(1));
        assert_eq!(tree.residual(twin, 1), Some(0));
        assert_eq!(tree.key_length(long), Some(3));
    }

    #[test]
    fn unknown_handles_and_empty_keys_change_nothing() {
        let mut tree = Tree::new();
        assert_eq!(tree.insert("", &[]), None);
        assert!(!tree.remove(1));
        assert_eq!((tree.residual(7, 1), tree.key_length(7)), (None, None));
        assert_eq!(tree.stats(), crate::stats::Stats::default());
    }
}
