//! From handles to the nodes where their keys end.

use std::hash::{Hash, Hasher};

use crate::arena::NodeId;
use crate::hashing::{map_bytes, shrink, WordMap};

/// A handle as two halves: an entry of the map is then 12 bytes and not, padded, 16.
#[derive(PartialEq, Eq)]
struct Key([u32; 2]);

impl Key {
    fn new(handle: u64) -> Self {
        Self([(handle >> 32) as u32, handle as u32])
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.0[0]) << 32 | u64::from(self.0[1]));
    }
}

/// Hands out handles, counting up from 1, and never one twice: a handle is also the order of its insertion.
pub struct Handles {
    nodes: WordMap<Key, NodeId>,
    next: u64,
}

impl Handles {
    /// No handles.
    pub fn new() -> Self {
        Self {
            nodes: WordMap::default(),
            next: 1,
        }
    }

    /// Live handles.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The handle that the next key gets; it counts as handed out.
    pub fn reserve(&mut self) -> u64 {
        // The nodes count handles in 32 bits.
        assert!(
            self.nodes.len() < u32::MAX as usize,
            "the index is out of handles"
        );
        self.next += 1;
        self.next - 1
    }

    /// Where the handle's key ends.
    pub fn get(&self, handle: u64) -> Option<NodeId> {
        self.nodes.get(&Key::new(handle)).copied()
    }

    /// Sets, or changes, where the handle's key ends.
    pub fn set(&mut self, handle: u64, id: NodeId) {
        self.nodes.insert(Key::new(handle), id);
    }

    /// Forgets a handle.
    pub fn remove(&mut self, handle: u64) -> Option<NodeId> {
        let id = self.nodes.remove(&Key::new(handle));
        shrink(&mut self.nodes);
        id
    }

    /// Forgets all handles and gives the memory back; the numbers go on.
    pub fn clear(&mut self) {
        self.nodes = WordMap::default();
    }

    /// Whether the handle was handed out at some time.
    pub fn was_issued(&self, handle: u64) -> bool {
        (1..self.next).contains(&handle)
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        map_bytes(self.nodes.capacity(), size_of::<(Key, NodeId)>())
    }
}

impl Default for Handles {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_handed_out_twice() {
        let mut handles = Handles::new();
        let first = handles.reserve();
        handles.set(first, 5);
        assert_eq!((first, handles.get(first)), (1, Some(5)));
        assert_eq!(handles.remove(first), Some(5));
        handles.clear();
        assert_eq!(handles.reserve(), 2);
        assert_eq!(handles.get(first), None);
        assert!(handles.was_issued(2) && !handles.was_issued(3) && !handles.was_issued(0));
    }

    #[test]
    fn an_entry_is_twelve_bytes() {
        assert_eq!(size_of::<(Key, NodeId)>(), 12);
    }
}
