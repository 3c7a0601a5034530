//! From handles to the nodes where their keys end.
//!
//! Handles count up and mostly leave in order, so they sit in pages of consecutive numbers: about 5 bytes each, where
//! a hash map takes up to 30. A page packs those that are live, so that a few old ones cost little.

use std::collections::VecDeque;

use crate::arena::NodeId;
use crate::page::{Entry, Page, WIDTH};

/// Hands out handles, counting up from 1, and never one twice: a handle is also the order of its insertion.
pub struct Handles {
    /// Ascending by number; neither the first nor the last is empty.
    pages: VecDeque<Page>,
    empty: usize,
    live: usize,
    next: u64,
}

impl Handles {
    /// No handles.
    pub fn new() -> Self {
        Self {
            pages: VecDeque::new(),
            empty: 0,
            live: 0,
            next: 1,
        }
    }

    /// Live handles.
    pub fn len(&self) -> usize {
        self.live
    }

    /// The handle that the next key gets; it counts as handed out.
    pub fn reserve(&mut self) -> u64 {
        // The nodes count handles in 32 bits.
        assert!(self.live < u32::MAX as usize, "the index is out of handles");
        self.next += 1;
        self.next - 1
    }

    /// Where the handle's key ends.
    pub fn get(&self, handle: u64) -> Option<NodeId> {
        self.entry(handle).map(|entry| entry.node)
    }

    /// What is known of a handle.
    pub fn entry(&self, handle: u64) -> Option<Entry> {
        let (page, bit) = self.find(handle)?;
        Some(self.pages[page].entry(bit))
    }

    /// Adds the handle that was reserved last, whose key ends at `node`.
    pub fn push(&mut self, handle: u64, node: NodeId) {
        let number = handle / WIDTH;
        if self.pages.back().is_none_or(|page| page.number != number) {
            self.pages.push_back(Page::new(number));
        }
        let page = self.pages.back_mut().expect("there is a last page");
        page.push(1 << (handle % WIDTH), node);
        self.live += 1;
    }

    /// Changes where a live handle's key ends.
    pub fn relocate(&mut self, handle: u64, node: NodeId) {
        let (page, bit) = self.find(handle).expect("a handle that moves is live");
        self.pages[page].relocate(bit, node);
    }

    /// Marks a handle as retired.
    pub fn retire(&mut self, handle: u64) {
        if let Some((page, bit)) = self.find(handle) {
            self.pages[page].retire(bit);
        }
    }

    /// Forgets a handle.
    pub fn remove(&mut self, handle: u64) -> Option<Entry> {
        let (index, bit) = self.find(handle)?;
        let page = &mut self.pages[index];
        let entry = page.remove(bit);
        self.live -= 1;
        if page.is_empty() {
            self.empty += 1;
            self.drop_empty_pages();
        }
        Some(entry)
    }

    /// Forgets all handles and gives the memory back; the numbers go on.
    pub fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::new()
        };
    }

    /// Whether the handle was handed out at some time.
    pub fn was_issued(&self, handle: u64) -> bool {
        (1..self.next).contains(&handle)
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        let nodes: usize = self.pages.iter().map(Page::bytes).sum();
        self.pages.capacity() * size_of::<Page>() + nodes
    }

    /// Whether the pages are in order and their counts right.
    pub fn is_consistent(&self) -> bool {
        let numbers = self.pages.iter().map(|page| page.number);
        let live: usize = self.pages.iter().map(Page::len).sum();
        let empty = self.pages.iter().filter(|page| page.is_empty()).count();
        self.pages.iter().all(Page::is_consistent)
            && numbers.is_sorted_by(|a, b| a < b)
            && (live, empty) == (self.live, self.empty)
    }

    /// The page and the bit of a live handle.
    fn find(&self, handle: u64) -> Option<(usize, u64)> {
        let (number, bit) = (handle / WIDTH, 1 << (handle % WIDTH));
        let ahead = number.checked_sub(self.pages.front()?.number)?;
        // Where no page between is missing, as is usual, this is the place.
        let guess = usize::try_from(ahead).ok()?;
        let index = match self.pages.get(guess) {
            Some(page) if page.number == number => guess,
            _ => self
                .pages
                .binary_search_by_key(&number, |page| page.number)
                .ok()?,
        };
        self.pages[index].contains(bit).then_some((index, bit))
    }

    /// At either end at once, elsewhere when they are the most; so a removal costs a constant on average.
    fn drop_empty_pages(&mut self) {
        while self.pages.front().is_some_and(Page::is_empty) {
            self.pages.pop_front();
            self.empty -= 1;
        }
        while self.pages.back().is_some_and(Page::is_empty) {
            self.pages.pop_back();
            self.empty -= 1;
        }
        if self.empty * 2 > self.pages.len() {
            self.pages.retain(|page| !page.is_empty());
            self.empty = 0;
        }
        if self.pages.len() * 4 <= self.pages.capacity() {
            self.pages.shrink_to(self.pages.len() * 2);
        }
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

    fn many(count: u64) -> Handles {
        let mut handles = Handles::new();
        for number in 1..=count {
            assert_eq!(handles.reserve(), number);
            handles.push(number, number as NodeId * 2);
        }
        handles
    }

    #[test]
    fn a_handle_is_never_handed_out_twice() {
        let mut handles = many(1);
        assert_eq!(handles.get(1), Some(2));
        assert_eq!(handles.remove(1).map(|entry| entry.node), Some(2));
        assert_eq!(handles.remove(1), None);
        handles.clear();
        assert_eq!((handles.reserve(), handles.get(1)), (2, None));
        assert!(handles.was_issued(2) && !handles.was_issued(3) && !handles.was_issued(0));
    }

    #[test]
    fn a_retired_handle_stays_so_when_its_node_moves() {
        let mut handles = many(3);
        handles.retire(2);
        handles.relocate(2, 9);
        let entry = Entry {
            node: 9,
            retired: true,
        };
        assert_eq!(handles.remove(2), Some(entry));
        assert!(!handles.entry(1).unwrap().retired && !handles.entry(3).unwrap().retired);
    }

    #[test]
    fn every_order_of_leaving_finds_the_others_and_gives_the_memory_back() {
        // A prime, so that every stride visits everybody; 1 is first in, first out.
        let count = 10_007;
        for stride in [1, 64, 5_000, count - 1] {
            let mut handles = many(count);
            assert!(handles.bytes() <= 6 * count as usize);
            let order: Vec<u64> = (0..count).map(|i| i * stride % count + 1).collect();
            for pair in order.windows(2) {
                let (handle, next) = (pair[0], pair[1]);
                assert_eq!(handles.remove(handle).unwrap().node, handle as NodeId * 2);
                assert_eq!((handles.get(handle), handles.remove(handle)), (None, None));
                assert_eq!(handles.get(next), Some(next as NodeId * 2));
                assert!(handles.empty * 2 <= handles.pages.len());
            }
            handles.remove(order[order.len() - 1]).unwrap();
            assert_eq!((handles.len(), handles.bytes()), (0, 0));
        }
    }

    #[test]
    fn a_few_old_handles_keep_little_memory() {
        let mut handles = many(100_000);
        for handle in (1..=100_000).filter(|handle| handle % 1_000 != 0) {
            handles.remove(handle);
        }
        assert!(handles.bytes() < 20_000, "{}", handles.bytes());
        assert!((1..=100).all(|i| handles.get(i * 1_000) == Some(i as NodeId * 2_000)));
    }
}
