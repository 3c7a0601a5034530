//! Values behind small stable ids, in pages, with a free list threaded through the empty slots.
//!
//! Pages, not one vector: growth copies nothing and wastes less than a page. A burst leaves holes; the owner may
//! move values into them ([`Arena::moves`], [`Arena::relocate`]) and give the tail back ([`Arena::trim`]).

use std::ops::{Index, IndexMut};

/// The id of a value in an [`Arena`].
pub type NodeId = u32;

/// No node: the parent of a root, the end of the free list.
pub const NONE: NodeId = NodeId::MAX;

const PAGE: usize = 8;

enum Slot<T> {
    Used(T),
    Free(NodeId),
}

/// See the module's text.
pub struct Arena<T> {
    pages: Vec<Box<[Slot<T>; PAGE]>>,
    free: NodeId,
    live: usize,
}

impl<T> Arena<T> {
    /// An empty arena, which owns no memory.
    pub fn new() -> Self {
        Self {
            pages: Vec::new(),
            free: NONE,
            live: 0,
        }
    }

    /// Values held.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Slots allocated, used or free.
    pub fn slots(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// Heap bytes of the slots and of the page table.
    pub fn bytes(&self) -> usize {
        self.slots() * size_of::<Slot<T>>() + self.pages.capacity() * size_of::<usize>()
    }

    /// Stores `value`; its id is valid until it is removed or relocated.
    pub fn insert(&mut self, value: T) -> NodeId {
        if self.free == NONE {
            let base = self.slots();
            assert!(base + PAGE < NONE as usize, "the index is out of node ids");
            self.pages
                .push(Box::new(std::array::from_fn(|_| Slot::Free(NONE))));
            self.link_free(base);
        }
        let id = self.free;
        let slot = self.slot_mut(id);
        let Slot::Free(next) = *slot else {
            panic!("node {id} is used and on the free list")
        };
        *slot = Slot::Used(value);
        self.free = next;
        self.live += 1;
        id
    }

    /// Takes the value at `id` out.
    pub fn remove(&mut self, id: NodeId) -> T {
        let next = self.free;
        match std::mem::replace(self.slot_mut(id), Slot::Free(next)) {
            Slot::Used(value) => {
                self.free = id;
                self.live -= 1;
                value
            }
            Slot::Free(_) => panic!("node {id} was freed twice"),
        }
    }

    /// The ids of all values, ascending.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.slots() as NodeId).filter(|&id| matches!(self.slot(id), Slot::Used(_)))
    }

    /// All values, in the order of their ids.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.pages
            .iter()
            .flat_map(|page| page.iter())
            .filter_map(|slot| match slot {
                Slot::Used(value) => Some(value),
                Slot::Free(_) => None,
            })
    }

    /// Whether more than half of the slots are free, and enough of them to be worth a pass.
    pub fn is_sparse(&self) -> bool {
        self.slots() > 8 * PAGE && self.live * 2 < self.slots()
    }

    /// The relocations `(from, to)` that would leave every value below [`Arena::len`].
    pub fn moves(&self) -> Vec<(NodeId, NodeId)> {
        let end = self.live as NodeId;
        let holes = (0..end).filter(|&id| matches!(self.slot(id), Slot::Free(_)));
        self.ids().filter(|&id| id >= end).zip(holes).collect()
    }

    /// Moves one value to a free slot. The free list is broken until [`Arena::trim`].
    pub fn relocate(&mut self, from: NodeId, to: NodeId) {
        let value = std::mem::replace(self.slot_mut(from), Slot::Free(NONE));
        *self.slot_mut(to) = value;
    }

    /// Gives back the pages above the values, after every one of [`Arena::moves`] was made.
    pub fn trim(&mut self) {
        self.pages.truncate(self.live.div_ceil(PAGE));
        self.pages.shrink_to_fit();
        self.free = NONE;
        self.link_free(self.live);
    }

    /// The length of the free list, or what is wrong with it.
    pub fn check_free_list(&self) -> Result<usize, String> {
        let (mut length, mut id) = (0, self.free);
        while id != NONE {
            if id as usize >= self.slots() {
                return Err(format!(
                    "the free list leads to slot {id} of {}",
                    self.slots()
                ));
            }
            let Slot::Free(next) = *self.slot(id) else {
                return Err(format!("node {id} is used and on the free list"));
            };
            length += 1;
            if length > self.slots() {
                return Err("the free list has a cycle".to_owned());
            }
            id = next;
        }
        Ok(length)
    }

    /// Puts the slots from `base` on, all of them empty, in front of the free list, lowest id first.
    fn link_free(&mut self, base: usize) {
        for id in (base as NodeId..self.slots() as NodeId).rev() {
            *self.slot_mut(id) = Slot::Free(self.free);
            self.free = id;
        }
    }

    fn slot(&self, id: NodeId) -> &Slot<T> {
        &self.pages[id as usize / PAGE][id as usize % PAGE]
    }

    fn slot_mut(&mut self, id: NodeId) -> &mut Slot<T> {
        &mut self.pages[id as usize / PAGE][id as usize % PAGE]
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Index<NodeId> for Arena<T> {
    type Output = T;

    fn index(&self, id: NodeId) -> &T {
        match self.slot(id) {
            Slot::Used(value) => value,
            Slot::Free(_) => panic!("node {id} is free"),
        }
    }
}

impl<T> IndexMut<NodeId> for Arena<T> {
    fn index_mut(&mut self, id: NodeId) -> &mut T {
        match self.slot_mut(id) {
            Slot::Used(value) => value,
            Slot::Free(_) => panic!("node {id} is free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slots_are_used_again_before_new_pages() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..PAGE).map(|i| arena.insert(i)).collect();
        assert_eq!(arena.remove(ids[3]), 3);
        assert_eq!(arena.insert(99), ids[3]);
        assert_eq!((arena.len(), arena.slots()), (PAGE, PAGE));
        assert_eq!(arena.check_free_list(), Ok(0));
    }

    #[test]
    fn compaction_keeps_the_values_and_gives_pages_back() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..100 * PAGE).map(|i| arena.insert(i)).collect();
        for (i, id) in ids.iter().enumerate() {
            if i % 5 != 4 {
                arena.remove(*id);
            }
        }
        assert!(arena.is_sparse());
        for (from, to) in arena.moves() {
            arena.relocate(from, to);
        }
        arena.trim();
        let mut values: Vec<_> = arena.values().copied().collect();
        values.sort_unstable();
        assert!(values
            .iter()
            .copied()
            .eq((0..100 * PAGE).filter(|i| i % 5 == 4)));
        assert_eq!(arena.slots(), 20 * PAGE);
        assert_eq!(arena.check_free_list(), Ok(0));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_refused() {
        let mut arena = Arena::new();
        let id = arena.insert(1);
        arena.remove(id);
        arena.remove(id);
    }
}
