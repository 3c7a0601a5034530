//! The tree against a list of keys and brute force, over long random histories.

use crate::label::shared_length;
use crate::tree::Tree;

/// xorshift64*: enough randomness for a test, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn key(&mut self, alphabet: usize, longest: usize) -> Vec<u32> {
        let length = 1 + self.below(longest);
        (0..length).map(|_| self.below(alphabet) as u32).collect()
    }
}

/// Handle, namespace, key, and whether it is retired.
type Model = Vec<(u64, &'static str, Vec<u32>, bool)>;

fn compare(tree: &Tree, model: &Model, random: &mut Random) {
    let (handle, space, key, _) = &model[random.below(model.len())];
    let peers = model
        .iter()
        .filter(|peer| peer.1 == *space && peer.0 != *handle)
        .map(|peer| (peer.0, shared_length(&peer.2, key), peer.3));
    let peers: Vec<(u64, usize, bool)> = peers.collect();
    let waiting = || peers.iter().filter(|peer| !peer.2);
    let mut positions: Vec<usize> = waiting().map(|peer| peer.1).filter(|&p| p > 0).collect();
    positions.sort_unstable();
    positions.dedup();
    let junctions: Vec<(usize, usize)> = positions
        .iter()
        .map(|&p| (p, waiting().filter(|peer| peer.1 >= p).count()))
        .collect();
    assert_eq!(tree.shared_with_peers(*handle), Some(junctions));
    let ahead = peers.iter().filter(|peer| peer.0 < *handle);
    let covered = ahead.map(|peer| peer.1).max().unwrap_or(0);
    let unit = 1 + random.below(5);
    assert_eq!(
        tree.residual(*handle, unit),
        Some(key.len() - covered / unit * unit)
    );
    assert_eq!(tree.key_length(*handle), Some(key.len()));
}

fn history(seed: u64, alphabet: usize, longest: usize, target: usize, steps: usize) {
    let mut random = Random(seed);
    let mut tree = Tree::new();
    let mut model = Model::new();
    for step in 0..steps {
        // The population swings, so that fans widen and narrow and the arena compacts.
        let target = if step / 500 % 2 == 0 {
            target
        } else {
            target / 10
        };
        let grow = random.below(10) < if model.len() < target { 8 } else { 2 };
        let space = ["", "salt"][random.below(2)];
        if grow || model.is_empty() {
            let key = random.key(alphabet, longest);
            let handle = tree.insert(space, &key).unwrap();
            model.push((handle, space, key, false));
        } else {
            let oldest = random.below(2) == 0;
            let place = if oldest { 0 } else { random.below(model.len()) };
            assert!(tree.remove(model.remove(place).0));
        }
        if random.below(4) == 0 && !model.is_empty() {
            let place = random.below(model.len());
            assert!(tree.retire(model[place].0));
            model[place].3 = true;
        }
        if let Err(fault) = tree.check_integrity() {
            panic!("seed {seed}, step {step}: {fault}");
        }
        let query = random.key(alphabet, longest);
        let same = model.iter().filter(|entry| entry.1 == space);
        let longest = same.map(|entry| shared_length(&entry.2, &query)).max();
        assert_eq!(tree.match_prefix(space, &query), longest.unwrap_or(0));
        if !model.is_empty() {
            compare(&tree, &model, &mut random);
        }
    }
    for (handle, ..) in model {
        assert!(tree.remove(handle));
        assert!(!tree.remove(handle));
    }
    assert_eq!(tree.stats(), crate::stats::Stats::default());
}

#[test]
fn deep_trees_agree_with_brute_force() {
    for seed in 1..=6 {
        history(seed, 2, 14, 60, 2_000);
    }
}

#[test]
fn wide_trees_agree_with_brute_force() {
    for seed in 11..=14 {
        history(seed, 60, 3, 300, 3_000);
    }
}
