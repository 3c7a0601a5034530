//! What may be asked. Questions about a key walk from its node to the root and never look at tokens.

use crate::arena::NodeId;
use crate::label::shared_length;
use crate::node::Node;
use crate::tree::Tree;

impl Tree {
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

    /// Where other keys that are not retired part from this one: `(position, those that share at least that many
    /// tokens)`, positions from 1 on, ascending. Identical and longer keys part from it at its length.
    pub fn shared_with_peers(&self, handle: u64) -> Option<Vec<(usize, usize)>> {
        let entry = self.handles.entry(handle)?;
        let own = usize::from(!entry.retired);
        let mut junctions = Vec::new();
        let (mut from_end, mut deeper) = (0, 0);
        for node in self.path(entry.node).filter(|node| !node.is_root()) {
            // Where only retired keys part, the node has no more peers than the one below it.
            let fan_out = node.waiting as usize - own;
            if fan_out > deeper {
                junctions.push((from_end, fan_out));
                deeper = fan_out;
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
    fn retired_keys_are_no_peers_but_cover_and_ask() {
        let mut tree = Tree::new();
        let keys: [&[u32]; 4] = [&[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2, 6], &[1, 7]];
        let [a, b, c, d] = keys.map(|key| tree.insert("", key).unwrap());
        assert_eq!(tree.shared_with_peers(a).unwrap(), [(1, 3), (2, 2), (3, 1)]);
        assert!(tree.retire(c) && tree.retire(c));
        tree.check_integrity().unwrap();
        assert_eq!(tree.shared_with_peers(a).unwrap(), [(1, 2), (3, 1)]);
        assert_eq!(tree.shared_with_peers(c).unwrap(), [(1, 3), (2, 2)]);
        tree.retire(b);
        assert_eq!(tree.shared_with_peers(a).unwrap(), [(1, 1)]);
        assert_eq!(tree.shared_with_peers(b).unwrap(), [(1, 2), (3, 1)]);
        assert_eq!(
            (tree.residual(c, 1), tree.match_prefix("", &[1, 2, 6])),
            (Some(1), 3)
        );
        // A split above and below retired keys, and removals of both kinds.
        let e = tree.insert("", &[1, 2, 6]).unwrap();
        let f = tree.insert("", &[1]).unwrap();
        assert_eq!(tree.shared_with_peers(c).unwrap(), [(1, 4), (2, 2), (3, 1)]);
        for handle in [c, d, b, e] {
            assert!(tree.remove(handle) && !tree.retire(handle));
            tree.check_integrity().unwrap();
        }
        assert_eq!(tree.shared_with_peers(f).unwrap(), [(1, 1)]);
    }
}
