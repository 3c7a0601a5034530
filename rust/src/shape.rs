//! The changes of the tree's shape: growing, splitting, merging, pruning, compacting.

use crate::arena::{NodeId, NONE};
use crate::children::Children;
use crate::label::{cut, join};
use crate::node::Node;
use crate::terminals::Terminals;
use crate::tree::Tree;

impl Tree {
    /// The root of a namespace, made for `handle` if there is none.
    pub(crate) fn root(&mut self, namespace: &str, handle: u64) -> NodeId {
        if let Some(root) = self.spaces.get(namespace) {
            return root;
        }
        let mut node = Node::root();
        node.first = handle;
        let root = self.nodes.insert(node);
        self.spaces.insert(namespace, root);
        root
    }

    /// Adds a leaf for the rest of a key under a node with no child for it.
    pub(crate) fn grow(&mut self, parent: NodeId, rest: &[u32], handle: u64) -> NodeId {
        let leaf = self.nodes.insert(Node::leaf(rest.into(), parent, handle));
        self.tokens += rest.len();
        let mut children = std::mem::take(&mut self.nodes[parent].children);
        children.insert(rest[0], leaf, handle, |id| self.nodes[id].first);
        self.nodes[parent].children = children;
        leaf
    }

    /// Cuts the edge into `id` after `length` tokens and returns the new node there. The lower part keeps its id:
    /// handles and children refer to it. Its entry above is replaced under the same first token, and it gets a
    /// new one below, under the first token of what is left of its label.
    pub(crate) fn split(&mut self, id: NodeId, length: usize) -> NodeId {
        let lower = &mut self.nodes[id];
        let (head, tail) = cut(std::mem::take(&mut lower.label), length);
        let (token, below) = (head[0], tail[0]);
        let (parent, first) = (lower.parent, lower.first);
        let (count, waiting) = (lower.count, lower.waiting);
        lower.label = tail;
        let upper = self.nodes.insert(Node {
            label: head,
            children: Children::one(below, id),
            own: Terminals::None,
            first,
            parent,
            count,
            waiting,
        });
        self.nodes[id].parent = upper;
        self.nodes[parent].children.replace(token, upper);
        upper
    }

    /// Updates counts and first handles from `id` upwards after `handle` left it; `retired` handles
    /// were no longer counted as waiting.
    pub(crate) fn forget(&mut self, mut id: NodeId, handle: u64, retired: bool) {
        while id != NONE {
            let node = &self.nodes[id];
            let (parent, first) = (node.parent, node.first);
            if first == handle {
                let below = node.children.first(|child| self.nodes[child].first);
                let first = node.own.first().min(below);
                self.nodes[id].first = first;
                if parent != NONE {
                    self.nodes[parent].children.first_changed(handle, first);
                }
            }
            let node = &mut self.nodes[id];
            node.count -= 1;
            node.waiting -= u32::from(!retired);
            id = parent;
        }
    }

    /// Removes what is no longer needed at and above a node that lost a key.
    pub(crate) fn prune(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if node.count > 0 {
            self.merge(id);
            return;
        }
        let (parent, token) = (node.parent, node.label[0]);
        self.tokens -= node.label.len();
        self.nodes.remove(id);
        self.nodes[parent].children.remove(token);
        let above = &self.nodes[parent];
        if above.is_root() && above.count == 0 {
            self.spaces.remove(parent);
            self.nodes.remove(parent);
        } else {
            self.merge(parent);
        }
    }

    /// Joins a node that marks nothing any more with its only child, which keeps its id.
    fn merge(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        let Some(child) = node.children.only() else {
            return;
        };
        if node.is_root() || node.own.len() > 0 {
            return;
        }
        let gone = self.nodes.remove(id);
        let token = gone.label[0];
        let child_node = &mut self.nodes[child];
        child_node.label = join(gone.label, &child_node.label);
        child_node.parent = gone.parent;
        self.nodes[gone.parent].children.replace(token, child);
    }

    /// Moves the nodes together and gives the rest of the arena back. Amortised over the removals that made the
    /// holes, a constant number of steps each.
    pub(crate) fn compact(&mut self) {
        for (from, to) in self.nodes.moves() {
            self.nodes.relocate(from, to);
            let node = &self.nodes[to];
            let (parent, token) = (node.parent, node.label.first().copied());
            let (children, own) = (node.children.entries(), node.own.handles());
            match token {
                Some(token) => self.nodes[parent].children.replace(token, to),
                None => self.spaces.relocate(from, to),
            }
            for (_, child) in children {
                self.nodes[child].parent = to;
            }
            for handle in own {
                self.handles.relocate(handle, to);
            }
        }
        self.nodes.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_node_is_found_under_its_new_key_only() {
        let mut tree = Tree::new();
        let a = tree.insert("", &[1, 2, 3, 4]).unwrap();
        let b = tree.insert("", &[1, 2, 7]).unwrap();
        assert_eq!(tree.match_prefix("", &[1, 2, 3, 4]), 4);
        assert_eq!(tree.match_prefix("", &[3, 4]), 0);
        assert_eq!(tree.stats().nodes, 4);
        tree.check_integrity().unwrap();
        assert!(tree.remove(b));
        assert_eq!((tree.stats().nodes, tree.stats().unique_tokens), (2, 4));
        assert_eq!(tree.match_prefix("", &[1, 2, 7]), 2);
        assert!(tree.contains(a));
        tree.check_integrity().unwrap();
    }

    #[test]
    fn compaction_after_a_burst_keeps_the_survivors() {
        let mut tree = Tree::new();
        let handles: Vec<u64> = (0..3_000_u32)
            .map(|i| {
                let key = [i % 7, i % 31, i, 5];
                tree.insert(if i % 3 == 0 { "a" } else { "b" }, &key)
                    .unwrap()
            })
            .collect();
        let full = tree.nodes.slots();
        for (i, &handle) in handles.iter().enumerate() {
            if i % 100 != 99 {
                assert!(tree.remove(handle));
            }
        }
        tree.check_integrity().unwrap();
        assert!(tree.nodes.slots() * 8 < full);
        for i in (99..3_000_u32).step_by(100) {
            let space = if i % 3 == 0 { "a" } else { "b" };
            assert_eq!(tree.match_prefix(space, &[i % 7, i % 31, i, 5]), 4);
        }
    }

    #[test]
    fn the_last_key_of_a_namespace_takes_its_root_along() {
        let mut tree = Tree::new();
        let a = tree.insert("a", &[1]).unwrap();
        let b = tree.insert("b", &[1]).unwrap();
        tree.remove(a);
        assert_eq!((tree.stats().namespaces, tree.stats().nodes), (1, 2));
        tree.check_integrity().unwrap();
        tree.remove(b);
        assert_eq!(tree.stats(), crate::stats::Stats::default());
        tree.check_integrity().unwrap();
    }
}
