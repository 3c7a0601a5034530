//! Bytes as a program: each operation is a byte, its operands the bytes behind it. Every input means something.

use std::collections::BTreeSet;

use crate::oracle::Pair;

/// The most keys at a time, and the most tokens in all of them: what more there is to find is slow to reach.
const MOST_KEYS: usize = 300;
const MOST_TOKENS: usize = 20_000;

/// What a program did.
#[derive(Default)]
pub struct Course {
    /// Insertions, removals, retirements, clearings and questions, each compared with the map.
    pub operations: usize,
    /// Kinds of operations and circumstances that were met.
    pub met: BTreeSet<&'static str>,
}

/// The program, from the next byte on, and what it runs on.
pub struct Machine<'a> {
    pub bytes: &'a [u8],
    pub pair: Pair,
    course: Course,
}

/// Runs a program, then takes every key away. Panics where the tree and the map disagree.
pub fn run(bytes: &[u8]) -> Course {
    let (pair, course) = (Pair::new(), Course::default());
    let mut machine = Machine {
        bytes,
        pair,
        course,
    };
    while let Some((&operation, rest)) = machine.bytes.split_first() {
        machine.bytes = rest;
        machine.step(operation % 16);
    }
    machine.empty();
    machine.course
}

impl Machine<'_> {
    fn meet(&mut self, what: &'static str) {
        self.course.met.insert(what);
    }

    fn step(&mut self, operation: u8) {
        match operation {
            0..=2 => {
                let (space, key) = self.key();
                self.insert(space, key);
            }
            3 => {
                if let Some(handle) = self.live() {
                    let key = &self.pair.keys[&handle];
                    let (space, tokens) = (key.space, key.tokens.clone());
                    self.meet("a key again");
                    self.insert(space, tokens);
                }
            }
            4 => self.fan(),
            5 => self.ladder(),
            6 | 7 => {
                if let Some(handle) = self.live() {
                    self.remove(handle);
                }
            }
            8 => self.remove_some(),
            9 => {
                if let Some(handle) = self.live() {
                    self.retire(handle);
                }
            }
            10 => {
                let handles: Vec<u64> = self.pair.keys.keys().copied().collect();
                let every = 1 + self.byte() % 8;
                for handle in handles.into_iter().step_by(every) {
                    self.retire(handle);
                }
            }
            11 | 12 => {
                let (space, key) = self.key();
                self.course.operations += 1;
                self.meet("match");
                self.pair.query(space, &key);
            }
            13 => {
                let unit = [1, 2, 16, 100, usize::MAX][self.byte() % 5];
                let handles: Vec<u64> = self.pair.keys.keys().copied().collect();
                self.course.operations += handles.len();
                self.meet("ask all");
                handles
                    .iter()
                    .for_each(|&handle| self.pair.ask(handle, unit));
            }
            14 => self.stranger(),
            _ => {
                // Seldom: it ends what was built.
                if self.byte() % 4 == 3 {
                    self.course.operations += 1;
                    self.meet("clear");
                    self.pair.clear();
                }
            }
        }
    }

    fn insert(&mut self, space: &'static str, key: Vec<u32>) {
        let tokens: usize = self.pair.keys.values().map(|key| key.tokens.len()).sum();
        if self.pair.keys.len() < MOST_KEYS && tokens + key.len() <= MOST_TOKENS {
            self.course.operations += 1;
            self.meet(if key.is_empty() {
                "insert nothing"
            } else {
                "insert"
            });
            self.pair.insert(space, key);
            if self.pair.tree.stats().namespaces > 1 {
                self.meet("several namespaces");
            }
        }
    }

    fn remove(&mut self, handle: u64) {
        let owned = self.pair.owned;
        self.course.operations += 1;
        self.meet("remove");
        self.pair.remove(handle);
        if self.pair.owned < owned - 4096 && !self.pair.keys.is_empty() {
            self.meet("compaction");
        }
    }

    fn retire(&mut self, handle: u64) {
        self.course.operations += 1;
        self.meet("retire");
        self.pair.retire(handle);
    }

    /// Siblings of a token each, behind a part of a live key.
    fn fan(&mut self) {
        let (space, key) = self.key();
        let (width, first) = (self.byte() % 80, self.byte() as u32);
        for token in (first..).take(width) {
            let mut sibling = key.clone();
            sibling.push(token.wrapping_mul(0x9e37_79b9));
            self.insert(space, sibling);
        }
        if width > 16 {
            self.meet("a wide fan");
        }
    }

    /// Keys that each go on where the one before ends.
    fn ladder(&mut self) {
        let (space, mut key) = self.key();
        for token in 0..self.byte() % 24 {
            key.push(token as u32 % 3);
            self.insert(space, key.clone());
        }
        self.meet("a ladder");
    }

    /// The oldest, the newest, or every other one.
    fn remove_some(&mut self) {
        let (order, count) = (self.byte(), 1 + self.byte());
        let mut handles: Vec<u64> = self.pair.keys.keys().copied().collect();
        match order % 3 {
            0 => {}
            1 => handles.reverse(),
            _ => handles = handles.into_iter().step_by(2 + order / 64).collect(),
        }
        for handle in handles.into_iter().take(count) {
            self.remove(handle);
        }
    }

    /// A handle that was never handed out, or is gone.
    fn stranger(&mut self) {
        let last = self.pair.last;
        let back = self.byte() as u64;
        let handle = [0, u64::MAX, last + 1, last.saturating_sub(back)][self.byte() % 4];
        if !self.pair.keys.contains_key(&handle) {
            self.course.operations += 3;
            self.meet("a handle that isn't live");
            self.pair.ask(handle, 1);
            self.pair.retire(handle);
            self.pair.remove(handle);
        }
    }

    /// Everybody leaves, in an order that depends on the last handle; nothing may be left.
    fn empty(&mut self) {
        while !self.pair.keys.is_empty() {
            let count = self.pair.keys.len();
            let place = [0, count - 1, count / 2][(self.pair.last % 3) as usize];
            let handle = *self.pair.keys.keys().nth(place).expect("there is one");
            self.remove(handle);
            self.pair.ask(handle, 1);
        }
        assert_eq!(self.pair.tree.stats(), _index::Stats::default(), "empty");
        assert_eq!(self.pair.owned, 0, "heap of an empty tree");
    }
}
