//! A hash for keys that are one machine word: token ids and handles.
//!
//! SipHash costs more than the rest of a look-up here. Both kinds of key are bounded by the engine (a
//! vocabulary, a counter), so nobody outside can choose keys that collide in bulk; namespaces, which users do
//! choose, keep the standard library's keyed hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from word-sized keys, hashed by [`WordHasher`].
pub type WordMap<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// Folds the 128-bit product of the word and an odd constant, so that every input bit reaches both the bucket
/// number (low bits) and the tag (high bits).
#[derive(Default)]
pub struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

/// Gives back a map's unused capacity once three quarters of it are unused; amortised O(1) a removal.
pub fn shrink<K: Eq + std::hash::Hash, V>(map: &mut WordMap<K, V>) {
    if map.capacity() > 32 && map.len() * 4 < map.capacity() {
        map.shrink_to(map.len() * 2);
    }
}

/// Heap bytes of a standard hash map with `capacity` free-or-used places for `entry` bytes each: a power of two
/// of buckets kept at most 7/8 full, and one control byte a bucket.
pub fn map_bytes(capacity: usize, entry: usize) -> usize {
    let buckets = match capacity {
        0 => return 0,
        1..=3 => 4,
        _ => (capacity * 8 / 7).next_power_of_two(),
    };
    buckets * (entry + 1) + 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    fn hash(word: u32) -> u64 {
        BuildHasherDefault::<WordHasher>::default().hash_one(word)
    }

    #[test]
    fn words_with_equal_low_bits_get_different_buckets() {
        let buckets: HashSet<u64> = (0..1024).map(|i| hash(i << 20) & 0xffff).collect();
        assert!(buckets.len() > 1000, "{} of 1024", buckets.len());
    }

    #[test]
    fn a_shrunk_map_keeps_its_entries() {
        let mut map: WordMap<u32, u32> = (0..1000).map(|i| (i, i)).collect();
        map.retain(|key, _| *key < 10);
        shrink(&mut map);
        assert!(map.capacity() < 100);
        assert!((0..10).all(|i| map[&i] == i));
    }

    #[test]
    fn the_bytes_of_a_map_follow_its_buckets() {
        assert_eq!(map_bytes(0, 8), 0);
        assert_eq!(map_bytes(3, 8), 4 * 9 + 16);
        assert_eq!(map_bytes(112, 8), 128 * 9 + 16);
    }
}
