//! Operands: what the bytes behind an operation choose.

use crate::program::Machine;

const SPACES: [&str; 4] = ["", "a", "salt", "another, longer name"];

impl Machine<'_> {
    /// The next byte; zeros behind the last.
    pub fn byte(&mut self) -> usize {
        let Some((&byte, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        usize::from(byte)
    }

    /// A live handle.
    pub fn live(&mut self) -> Option<u64> {
        let place = self.byte() % self.pair.keys.len().max(1);
        self.pair.keys.keys().nth(place).copied()
    }

    /// A namespace and a key: how much of a live one, if any, and a tail.
    pub fn key(&mut self) -> (&'static str, Vec<u32>) {
        let choice = self.byte();
        if choice % 4 == 0 {
            return (SPACES[choice / 4 % 4], self.tail());
        }
        let Some(handle) = self.live() else {
            return (SPACES[choice / 4 % 4], self.tail());
        };
        let base = &self.pair.keys[&handle];
        let (mut space, mut key) = (base.space, base.tokens.clone());
        if choice >= 224 {
            space = SPACES[choice % 4];
        }
        let cut = self.byte();
        // Near the start, or near the end.
        key.truncate(if cut < 200 {
            cut
        } else {
            key.len().saturating_sub(cut - 200)
        });
        key.extend(self.tail());
        (space, key)
    }

    /// Tokens that repeat, alternate, count up from small numbers or down from the largest. Some lengths are those at
    /// which the comparison of tokens changes its stride.
    fn tail(&mut self) -> Vec<u32> {
        let (kind, length, seed) = (self.byte(), self.byte(), self.byte() as u32);
        let length = match kind >> 6 {
            0 => length % 8,
            1 => length % 40,
            2 => 16 * (length % 20) + length / 86,
            _ => 250 + length % 16,
        } as u32;
        let token = |place| match kind % 4 {
            0 => seed % 4,
            1 => seed >> (place % 8) & 1,
            2 => seed + place,
            _ => u32::MAX - seed - place,
        };
        (0..length).map(token).collect()
    }
}
