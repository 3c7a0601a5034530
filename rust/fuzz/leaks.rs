//! What is put in comes out of memory again, by the allocator's own count.

use _index::Tree;

use crate::heap::{charge, held};

const SPACES: [&str; 3] = ["", "salt", "a name of some length"];

/// Keys of decisions: a long state, branches, some equal ones.
fn key(number: u32) -> Vec<u32> {
    let state = number / 8 % 40;
    let shared = (0..200).map(|place| state * 1_000 + place);
    shared.chain([number % 5, number, 3]).collect()
}

#[test]
fn the_allocator_counts_what_is_held() {
    let mut owned = 0;
    let block = charge(&mut owned, || vec![0_u8; 1000]);
    assert_eq!(owned, 1000);
    charge(&mut owned, || drop(block));
    assert_eq!(owned, 0);
}

#[test]
fn after_a_hundred_thousand_inserts_and_removals_nothing_is_held() {
    let before = held();
    let mut tree = Tree::new();
    let mut waiting = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..100_000_u32 {
        waiting.push_back(
            tree.insert(SPACES[number as usize % 3], &key(number))
                .unwrap(),
        );
        if waiting.len() > 300 {
            let handle = match number % 3 {
                0 => waiting.pop_back(),
                _ => waiting.pop_front(),
            };
            assert!(tree.remove(handle.unwrap()));
        }
        if number == 20_000 {
            most = held() - before;
        }
    }
    // Flat in between: as many keys wait as at the beginning.
    assert!(
        held() - before < most * 5 / 4,
        "{} after {most}",
        held() - before
    );
    for handle in waiting.drain(..) {
        assert!(tree.remove(handle));
    }
    drop(waiting);
    assert_eq!(held(), before, "the empty tree holds nothing");
    drop(tree);
    assert_eq!(held(), before);
}

#[test]
fn a_tree_that_is_dropped_full_gives_everything_back() {
    let before = held();
    for _ in 0..20 {
        let mut tree = Tree::new();
        for number in 0..2_000 {
            let handle = tree
                .insert(SPACES[number as usize % 3], &key(number))
                .unwrap();
            if number % 4 == 0 {
                tree.retire(handle);
            }
        }
        assert!(held() > before);
    }
    assert_eq!(held(), before);
}

#[test]
fn the_bytes_it_tells_are_the_bytes_it_holds() {
    let before = held();
    let mut tree = Tree::new();
    let handles: Vec<u64> = (0..5_000)
        .map(|i| tree.insert("", &key(i * 7)).unwrap())
        .collect();
    let list = (handles.capacity() * size_of::<u64>()) as isize;
    for (number, handle) in handles.iter().enumerate() {
        if number % 50 == 0 {
            let owned = held() - before - list;
            let told = tree.stats().memory_bytes as isize;
            // Ordered sets can't be asked for their size; see terminals.rs.
            assert!(
                (owned - told).abs() < owned / 5 + 1024,
                "{told} told, {owned} held"
            );
        }
        assert!(tree.remove(*handle));
    }
}
