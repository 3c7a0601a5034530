//! What the tree holds and what it costs.

use crate::tree::Tree;

/// Counts of a [`Tree`]; all zero when it is empty.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Live handles.
    pub handles: usize,
    /// Nodes, one root for each namespace included.
    pub nodes: usize,
    /// Namespaces with at least one live key.
    pub namespaces: usize,
    /// Tokens stored; a prefix that several keys share counts once.
    pub unique_tokens: usize,
    /// Heap bytes, from the containers' capacities; the allocator's own overhead is not known here.
    pub memory_bytes: usize,
}

impl Tree {
    /// The tree's counts. One pass over the nodes.
    pub fn stats(&self) -> Stats {
        let owned: usize = self.nodes.values().map(|node| node.bytes()).sum();
        Stats {
            handles: self.handles.len(),
            nodes: self.nodes.len(),
            namespaces: self.spaces.len(),
            unique_tokens: self.tokens,
            memory_bytes: owned + self.nodes.bytes() + self.spaces.bytes() + self.handles.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The budget of docs/index.md. The first keys bring the first page of everything, 1 KiB in all.
    fn memory_is_within_budget(stats: Stats) -> bool {
        let budget = stats.unique_tokens * 4 * 13 / 10 + stats.nodes * 128;
        stats.memory_bytes <= budget + 1024
    }

    #[test]
    fn decisions_of_four_branches_stay_within_the_memory_budget() {
        let mut tree = Tree::new();
        for decision in 0..500_u32 {
            for branch in 0..4 {
                let state = (0..1024).map(|i| decision * 31 + i);
                let key: Vec<u32> = state.chain((0..64).map(|i| branch * 99 + i)).collect();
                tree.insert("", &key).unwrap();
            }
        }
        let stats = tree.stats();
        assert_eq!((stats.handles, stats.nodes), (2_000, 2_501));
        assert!(memory_is_within_budget(stats), "{stats:?}");
    }

    #[test]
    fn a_wide_fan_stays_within_the_memory_budget_at_every_width() {
        let mut tree = Tree::new();
        // One token each is the worst case; a hash map is emptiest where it has just grown, at 7/8 of a power of two.
        for width in 1..=230_000_u32 {
            tree.insert("", &[1, 2, 3, width]).unwrap();
            let grown = ((width - 1) * 8 / 7).is_power_of_two();
            if width < 100 || width % 10_000 == 0 || grown {
                let stats = tree.stats();
                assert!(memory_is_within_budget(stats), "{width}: {stats:?}");
            }
        }
    }
}
