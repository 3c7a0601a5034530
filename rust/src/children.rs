//! The children of one node, by the first token of their labels.
//!
//! Few children sit in a sorted slice, and their order of arrival is found by looking at each. Above [`FEW`] a
//! hash map takes over, with an ordered set of the children's first handles, so that removal in any order stays
//! logarithmic with 100,000 siblings under one shared state.

use std::collections::BTreeSet;

use crate::arena::NodeId;
use crate::hashing::{map_bytes, shrink, WordMap};
use crate::terminals::{set_bytes, NO_HANDLE};

/// The most children a sorted slice holds.
pub const FEW: usize = 16;

/// A wide fan becomes a slice again only here, so that one request that comes and goes does not rebuild it.
const FEW_AGAIN: usize = 8;

/// Children by first token. `first_of` arguments give the smallest handle at or below a child.
pub enum Children {
    /// Sorted by token.
    Few(Box<[(u32, NodeId)]>),
    /// More than [`FEW`] (at least, more than half of that since then).
    Many(Box<Fan>),
}

/// Many children.
pub struct Fan {
    by_token: WordMap<u32, NodeId>,
    firsts: BTreeSet<u64>,
}

impl Children {
    /// One child.
    pub fn one(token: u32, id: NodeId) -> Self {
        Self::Few([(token, id)].into())
    }

    /// Number of children.
    pub fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(fan) => fan.by_token.len(),
        }
    }

    /// The child whose label begins with `token`.
    pub fn get(&self, token: u32) -> Option<NodeId> {
        match self {
            Self::Few(few) => few
                .iter()
                .find_map(|&(first, id)| (first == token).then_some(id)),
            Self::Many(fan) => fan.by_token.get(&token).copied(),
        }
    }

    /// The only child, if there is exactly one.
    pub fn only(&self) -> Option<NodeId> {
        match self {
            Self::Few(few) if few.len() == 1 => Some(few[0].1),
            _ => None,
        }
    }

    /// Adds a child under a token that has none.
    pub fn insert(&mut self, token: u32, id: NodeId, first: u64, first_of: impl Fn(NodeId) -> u64) {
        match self {
            Self::Few(few) if few.len() < FEW => {
                let place = few.partition_point(|&(other, _)| other < token);
                // Of exactly their number: most nodes have two children, and stay so.
                let mut more = Vec::with_capacity(few.len() + 1);
                more.extend_from_slice(&few[..place]);
                more.push((token, id));
                more.extend_from_slice(&few[place..]);
                *few = more.into_boxed_slice();
            }
            Self::Few(few) => {
                let mut firsts: BTreeSet<u64> = few.iter().map(|&(_, id)| first_of(id)).collect();
                firsts.insert(first);
                let mut by_token: WordMap<u32, NodeId> = few.iter().copied().collect();
                by_token.insert(token, id);
                *self = Self::Many(Box::new(Fan { by_token, firsts }));
            }
            Self::Many(fan) => {
                fan.by_token.insert(token, id);
                fan.firsts.insert(first);
            }
        }
    }

    /// Takes a child away whose first handle was given up by [`Children::first_changed`] before.
    pub fn remove(&mut self, token: u32) {
        match self {
            Self::Few(few) => {
                let rest = few.iter().copied().filter(|&(first, _)| first != token);
                *few = rest.collect();
            }
            Self::Many(fan) => {
                fan.by_token.remove(&token);
                shrink(&mut fan.by_token);
                if fan.by_token.len() <= FEW_AGAIN {
                    let mut few: Vec<_> = fan.by_token.drain().collect();
                    few.sort_unstable();
                    *self = Self::Few(few.into());
                }
            }
        }
    }

    /// Puts another node in a child's place.
    pub fn replace(&mut self, token: u32, id: NodeId) {
        let place = match self {
            Self::Few(few) => few
                .iter_mut()
                .find_map(|(first, id)| (*first == token).then_some(id)),
            Self::Many(fan) => fan.by_token.get_mut(&token),
        };
        *place.expect("a replaced child is there") = id;
    }

    /// Records that a child's first handle was `old` and is now `new` ([`NO_HANDLE`]: it has none left).
    pub fn first_changed(&mut self, old: u64, new: u64) {
        if let Self::Many(fan) = self {
            fan.firsts.remove(&old);
            if new != NO_HANDLE {
                fan.firsts.insert(new);
            }
        }
    }

    /// The smallest handle below, or [`NO_HANDLE`].
    pub fn first(&self, first_of: impl Fn(NodeId) -> u64) -> u64 {
        match self {
            Self::Few(few) => few
                .iter()
                .map(|&(_, id)| first_of(id))
                .min()
                .unwrap_or(NO_HANDLE),
            Self::Many(fan) => fan.firsts.first().copied().unwrap_or(NO_HANDLE),
        }
    }

    /// Every `(first token, child)`, in no particular order.
    pub fn entries(&self) -> Vec<(u32, NodeId)> {
        match self {
            Self::Few(few) => few.to_vec(),
            Self::Many(fan) => fan
                .by_token
                .iter()
                .map(|(&token, &id)| (token, id))
                .collect(),
        }
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Few(few) => size_of_val(&**few),
            Self::Many(fan) => {
                size_of::<Fan>()
                    + map_bytes(fan.by_token.capacity(), size_of::<(u32, NodeId)>())
                    + set_bytes(fan.firsts.len())
            }
        }
    }

    /// What is wrong with the container itself, given each child's true first handle.
    pub fn check(&self, first_of: impl Fn(NodeId) -> u64) -> Result<(), String> {
        match self {
            Self::Few(few) if few.len() > FEW => Err(format!("{} children in a slice", few.len())),
            Self::Few(few) if !few.is_sorted_by(|a, b| a.0 < b.0) => {
                Err("children out of order".to_owned())
            }
            Self::Few(_) => Ok(()),
            Self::Many(fan) if fan.by_token.len() <= FEW_AGAIN => {
                Err(format!("{} children in a map", fan.by_token.len()))
            }
            Self::Many(fan) => {
                let truth: BTreeSet<u64> = fan.by_token.values().map(|&id| first_of(id)).collect();
                if truth != fan.firsts {
                    return Err(
                        "the ordered set differs from the children's first handles".to_owned()
                    );
                }
                Ok(())
            }
        }
    }
}

impl Default for Children {
    fn default() -> Self {
        Self::Few(Box::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn fan(width: u32) -> Children {
        let mut children = Children::default();
        for i in 0..width {
            children.insert(i * 7, i, u64::from(i) + 1, |id| u64::from(id) + 1);
        }
        children
    }

    #[test]
    fn every_child_is_found_on_both_sides_of_the_limit() {
        for width in [1, FEW as u32, FEW as u32 + 1, 500] {
            let children = fan(width);
            assert_eq!(children.len(), width as usize);
            assert!((0..width).all(|i| children.get(i * 7) == Some(i)));
            assert_eq!(children.get(1), None);
            assert_eq!(children.check(|id| u64::from(id) + 1), Ok(()));
        }
    }

    #[test]
    fn fifo_removal_from_a_wide_fan_looks_at_no_sibling() {
        let width = 100_000;
        let mut children = fan(width);
        let looks = Cell::new(0);
        for i in 0..width - FEW as u32 {
            children.first_changed(u64::from(i) + 1, NO_HANDLE);
            children.remove(i * 7);
            let first = children.first(|id| {
                looks.set(looks.get() + 1);
                u64::from(id) + 1
            });
            assert_eq!(first, u64::from(i) + 2);
        }
        assert_eq!(looks.get(), 0);
    }

    #[test]
    fn a_fan_that_shrinks_becomes_a_slice_again() {
        let mut children = fan(100);
        for i in (2..100).rev() {
            children.first_changed(i + 1, NO_HANDLE);
            children.remove(i as u32 * 7);
        }
        assert!(matches!(children, Children::Few(_)));
        assert_eq!(children.first(|id| u64::from(id) + 1), 1);
        children.remove(0);
        assert_eq!(children.only(), Some(1));
    }
}
