//! A plain map of keys beside the tree, and everything the two have to agree on.

use std::collections::{BTreeMap, BTreeSet};

use _index::{Stats, Tree};

use crate::heap::charge;

/// A live key.
pub struct Key {
    pub space: &'static str,
    pub tokens: Vec<u32>,
    pub retired: bool,
}

/// The tree, the map, and what the tree has on the heap.
pub struct Pair {
    pub tree: Tree,
    pub keys: BTreeMap<u64, Key>,
    pub last: u64,
    pub owned: isize,
    /// Whose answers are compared next.
    turn: u64,
}

/// Handles whose answers are compared after each operation; everybody's, if there are no more.
const ASKED: usize = 12;

fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Pair {
    pub fn new() -> Self {
        Self {
            tree: Tree::new(),
            keys: BTreeMap::new(),
            last: 0,
            owned: 0,
            turn: 0,
        }
    }

    pub fn insert(&mut self, space: &'static str, tokens: Vec<u32>) {
        let handle = charge(&mut self.owned, || self.tree.insert(space, &tokens));
        if tokens.is_empty() {
            assert_eq!(handle, None, "a key without tokens got a handle");
        } else {
            let handle = handle.expect("a key with tokens gets a handle");
            assert_eq!(handle, self.last + 1, "handles count up by one");
            self.last = handle;
            let retired = false;
            let key = Key {
                space,
                tokens,
                retired,
            };
            self.keys.insert(handle, key);
        }
        self.compare();
    }

    pub fn remove(&mut self, handle: u64) {
        let found = charge(&mut self.owned, || self.tree.remove(handle));
        assert_eq!(
            found,
            self.keys.remove(&handle).is_some(),
            "remove({handle})"
        );
        self.compare();
    }

    pub fn retire(&mut self, handle: u64) {
        let before = self.tree.stats();
        let found = charge(&mut self.owned, || self.tree.retire(handle));
        let key = self.keys.get_mut(&handle);
        assert_eq!(found, key.is_some(), "retire({handle})");
        if let Some(key) = key {
            key.retired = true;
        }
        assert_eq!(self.tree.stats(), before, "retire() keeps the shape");
        self.compare();
    }

    pub fn clear(&mut self) {
        charge(&mut self.owned, || self.tree.clear());
        self.keys.clear();
        self.compare();
    }

    pub fn query(&self, space: &str, tokens: &[u32]) {
        let same = self.keys.values().filter(|key| key.space == space);
        let longest = same.map(|key| shared(&key.tokens, tokens)).max();
        let found = self.tree.match_prefix(space, tokens);
        assert_eq!(found, longest.unwrap_or(0), "match_prefix({tokens:?})");
    }

    /// What is asked of a handle, live or not.
    pub fn ask(&self, handle: u64, unit: usize) {
        let tree = &self.tree;
        assert_eq!(
            tree.was_issued(handle),
            (1..=self.last).contains(&handle),
            "was_issued({handle})"
        );
        let key = self.keys.get(&handle);
        assert_eq!(tree.contains(handle), key.is_some(), "contains({handle})");
        let length = key.map(|key| key.tokens.len());
        assert_eq!(tree.key_length(handle), length, "key_length({handle})");
        let expected = key.map(|key| self.answers(handle, key, unit));
        let (junctions, residual) = expected.unzip();
        assert_eq!(
            tree.shared_with_peers(handle),
            junctions,
            "shared_with_peers({handle})"
        );
        assert_eq!(
            tree.residual(handle, unit),
            residual,
            "residual({handle}, {unit})"
        );
    }

    /// Junctions and residual of a live key, by looking at every other one.
    fn answers(&self, handle: u64, key: &Key, unit: usize) -> (Vec<(usize, usize)>, usize) {
        let others = self.keys.iter();
        let peers: Vec<(u64, usize, bool)> = others
            .filter(|(&other, peer)| other != handle && peer.space == key.space)
            .map(|(&other, peer)| (other, shared(&peer.tokens, &key.tokens), peer.retired))
            .collect();
        let waiting = || peers.iter().filter(|peer| !peer.2).map(|peer| peer.1);
        let positions: BTreeSet<usize> = waiting().filter(|&position| position > 0).collect();
        let fan_out = |position| waiting().filter(|&other| other >= position).count();
        let junctions = positions.into_iter().map(|p| (p, fan_out(p))).collect();
        let ahead = peers.iter().filter(|peer| peer.0 < handle);
        let covered = ahead.map(|peer| peer.1).max().unwrap_or(0);
        (junctions, key.tokens.len() - covered / unit * unit)
    }

    /// The handles, nodes, namespaces and tokens that these keys must have: a node is where a key ends or two part.
    fn expected(&self) -> Stats {
        let keys = self.keys.values();
        let mut sorted: Vec<(&str, &[u32])> =
            keys.map(|key| (key.space, &key.tokens[..])).collect();
        sorted.sort_unstable();
        let mut stats = Stats {
            handles: sorted.len(),
            ..Stats::default()
        };
        // The depths of the nodes from the root to the key before, the root's first.
        let mut path = Vec::new();
        let mut before: (&str, &[u32]) = ("", &[]);
        for (space, key) in sorted {
            if path.is_empty() || space != before.0 {
                path = vec![0];
                (stats.namespaces, stats.nodes) = (stats.namespaces + 1, stats.nodes + 1);
                before = (space, &[]);
            }
            let parting = shared(key, before.1);
            path.retain(|&depth| depth <= parting);
            for depth in [parting, key.len()] {
                if path.last() != Some(&depth) {
                    path.push(depth);
                    stats.nodes += 1;
                }
            }
            stats.unique_tokens += key.len() - parting;
            before = (space, key);
        }
        stats
    }

    fn compare(&mut self) {
        self.tree
            .check_integrity()
            .unwrap_or_else(|fault| panic!("{fault}"));
        let stats = self.tree.stats();
        let memory_bytes = stats.memory_bytes;
        let expected = Stats {
            memory_bytes,
            ..self.expected()
        };
        assert_eq!(stats, expected, "counts");
        assert_eq!(self.tree.len(), self.keys.len(), "len()");
        assert_eq!(self.tree.is_empty(), self.keys.is_empty(), "is_empty()");
        self.compare_memory(memory_bytes as isize);
        let later = self.keys.range(self.turn..);
        let asked: Vec<u64> = later.map(|(&handle, _)| handle).take(ASKED).collect();
        self.turn = if asked.len() == ASKED {
            asked[ASKED - 1] + 1
        } else {
            0
        };
        for handle in asked {
            self.ask(handle, 1 + handle as usize % 20);
        }
    }

    /// An empty tree owns nothing, to the byte; otherwise the figure is what is held, but for what its ordered sets'
    /// nodes can't be asked (`terminals.rs`).
    fn compare_memory(&self, told: isize) {
        let owned = self.owned;
        if self.keys.is_empty() {
            assert_eq!((owned, told), (0, 0), "an empty tree owns heap");
        }
        let slack = owned / 4 + 1024;
        assert!(
            (owned - told).abs() <= slack,
            "memory_bytes says {told}, {owned} are held"
        );
    }
}
