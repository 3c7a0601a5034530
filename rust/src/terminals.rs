//! The handles whose keys end at one node: usually one, many when identical prompts wait.

use std::collections::BTreeSet;

/// Larger than every handle: "none" where a smallest handle is asked for.
pub const NO_HANDLE: u64 = u64::MAX;

/// Handles in the order of their insertion, which is the order of their numbers.
#[derive(Default)]
pub enum Terminals {
    /// No key ends here.
    #[default]
    None,
    /// One key.
    One(u64),
    /// Two or more identical keys. Boxed: this is rare, and every node would pay for the set's size.
    #[allow(clippy::box_collection)]
    Many(Box<BTreeSet<u64>>),
}

impl Terminals {
    /// Number of handles.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(set) => set.len(),
        }
    }

    /// The smallest handle, or [`NO_HANDLE`].
    pub fn first(&self) -> u64 {
        match self {
            Self::None => NO_HANDLE,
            Self::One(handle) => *handle,
            Self::Many(set) => set.first().copied().unwrap_or(NO_HANDLE),
        }
    }

    /// Adds a handle.
    pub fn insert(&mut self, handle: u64) {
        match self {
            Self::None => *self = Self::One(handle),
            Self::One(other) => *self = Self::Many(Box::new(BTreeSet::from([*other, handle]))),
            Self::Many(set) => {
                set.insert(handle);
            }
        }
    }

    /// Takes a handle away; false if it was not there.
    pub fn remove(&mut self, handle: u64) -> bool {
        match self {
            Self::One(other) if *other == handle => {
                *self = Self::None;
                true
            }
            Self::None | Self::One(_) => false,
            Self::Many(set) => {
                let found = set.remove(&handle);
                if let (1, Some(&last)) = (set.len(), set.first()) {
                    *self = Self::One(last);
                }
                found
            }
        }
    }

    /// The handles, ascending.
    pub fn handles(&self) -> Vec<u64> {
        match self {
            Self::None => Vec::new(),
            Self::One(handle) => vec![*handle],
            Self::Many(set) => set.iter().copied().collect(),
        }
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None | Self::One(_) => 0,
            Self::Many(set) => size_of::<BTreeSet<u64>>() + set_bytes(set.len()),
        }
    }
}

/// Estimated heap bytes of a `BTreeSet<u64>` (its capacity is not observable): leaves of 104 bytes hold 11
/// handles, about 7 after insertion in ascending order, and one leaf in 7 has an inner node of 200 bytes above.
pub fn set_bytes(len: usize) -> usize {
    match len {
        0 => 0,
        1..=11 => 104,
        _ => {
            let leaves = len.div_ceil(7);
            leaves * 104 + leaves.div_ceil(7) * 200
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_come_and_go_in_any_order() {
        let mut own = Terminals::default();
        assert_eq!((own.len(), own.first()), (0, NO_HANDLE));
        for handle in [4, 7, 9] {
            own.insert(handle);
        }
        assert_eq!(own.handles(), [4, 7, 9]);
        assert!(own.remove(4));
        assert!(!own.remove(4));
        assert_eq!(own.first(), 7);
        assert!(own.remove(9));
        assert!(matches!(own, Terminals::One(7)));
        assert!(!own.remove(8));
        assert!(own.remove(7));
        assert_eq!((own.len(), own.bytes()), (0, 0));
    }
}
