//! A page of handles: those of 64 consecutive numbers that are live, packed.

use crate::arena::NodeId;

/// Handles in a page: the bits of a word.
pub const WIDTH: u64 = u64::BITS as u64;

/// What is known of a live handle.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where its key ends.
    pub node: NodeId,
    /// Whether it no longer counts as a peer.
    pub retired: bool,
}

/// See the module's text. A handle is named by its bit, the one of its number within the page.
pub struct Page {
    /// The handles' number divided by [`WIDTH`].
    pub number: u64,
    live: u64,
    retired: u64,
    /// One for each bit of `live`, in that order.
    nodes: Vec<NodeId>,
}

impl Page {
    /// A page without live handles.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            live: 0,
            retired: 0,
            nodes: Vec::new(),
        }
    }

    /// Whether the handle is live.
    pub fn contains(&self, bit: u64) -> bool {
        self.live & bit != 0
    }

    /// Live handles.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no handle is live.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// What is known of a live handle.
    pub fn entry(&self, bit: u64) -> Entry {
        Entry {
            node: self.nodes[self.place(bit)],
            retired: self.retired & bit != 0,
        }
    }

    /// Adds a handle after all that were added before.
    pub fn push(&mut self, bit: u64, node: NodeId) {
        assert!(self.live < bit, "handles are added in their order");
        self.live |= bit;
        self.nodes.push(node);
    }

    /// Changes where a live handle's key ends.
    pub fn relocate(&mut self, bit: u64, node: NodeId) {
        let place = self.place(bit);
        self.nodes[place] = node;
    }

    /// Marks a live handle as retired.
    pub fn retire(&mut self, bit: u64) {
        self.retired |= bit;
    }

    /// Forgets a live handle.
    pub fn remove(&mut self, bit: u64) -> Entry {
        let entry = self.entry(bit);
        let place = self.place(bit);
        self.nodes.remove(place);
        self.live &= !bit;
        self.retired &= !bit;
        if self.nodes.len() * 4 <= self.nodes.capacity() {
            self.nodes.shrink_to_fit();
        }
        entry
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<NodeId>()
    }

    /// Whether the bits and the nodes agree.
    pub fn is_consistent(&self) -> bool {
        self.nodes.len() == self.live.count_ones() as usize && self.retired & !self.live == 0
    }

    /// The place of a handle's node in `nodes`.
    fn place(&self, bit: u64) -> usize {
        (self.live & (bit - 1)).count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bit_of_a_page_is_like_the_others() {
        let mut page = Page::new(7);
        for number in 0..WIDTH {
            page.push(1 << number, number as NodeId);
        }
        page.retire(1 << 63);
        assert_eq!(page.remove(1).node, 0);
        let last = Entry {
            node: 63,
            retired: true,
        };
        assert_eq!((page.entry(1 << 63), page.entry(2).node), (last, 1));
        assert!(page.is_consistent() && !page.contains(1) && page.len() == 63);
    }
}
