//! Makes inputs from inputs, and small ones from those that fail.

use std::time::{Duration, Instant};

/// The longest input.
pub const LONGEST: usize = 600;

/// xorshift64*: the same on every machine, from a seed that is printed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    /// A place in `bytes`, or at its end.
    fn place(&mut self, bytes: &[u8]) -> usize {
        self.below(bytes.len() + 1)
    }

    /// A random piece of `bytes`, often short.
    fn piece(&mut self, bytes: &[u8]) -> (usize, usize) {
        let start = self.place(bytes);
        let longest = [4, 16, LONGEST][self.below(3)];
        let end = start + self.below(longest) + 1;
        (start, end.min(bytes.len()))
    }
}

/// A new input: one of the pool, changed in one to eight ways.
pub fn mutate(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    // Half of the time one of the last: what was found lately has been tried least.
    let recent = pool.len().min(16);
    let choice = match random.below(2) {
        0 => random.below(pool.len()),
        _ => pool.len() - 1 - random.below(recent),
    };
    let mut bytes = pool[choice].clone();
    for _ in 0..=random.below(8) {
        change(&mut bytes, pool, random);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Random) {
    let place = random.place(bytes);
    match random.below(7) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte = random.byte();
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let (start, end) = random.piece(bytes);
            bytes.drain(start..end);
        }
        4 => {
            let more: Vec<u8> = (0..=random.below(12)).map(|_| random.byte()).collect();
            bytes.splice(place..place, more);
        }
        5 => {
            let (start, end) = random.piece(bytes);
            let again = bytes[start..end].to_vec();
            bytes.splice(place..place, again);
        }
        _ => {
            let other = &pool[random.below(pool.len())];
            let (start, end) = random.piece(other);
            bytes.splice(place..place, other[start..end].iter().copied());
        }
    }
}

/// The shortest input found that still fails: pieces are left out, then bytes made zero, for at most 20 seconds.
pub fn minimise(mut bytes: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut length = bytes.len().max(1);
    while length > 0 && Instant::now() < until {
        let mut start = 0;
        let mut shorter = false;
        while start + length <= bytes.len() && Instant::now() < until {
            let mut less = bytes.clone();
            less.drain(start..start + length);
            if fails(&less) {
                bytes = less;
                shorter = true;
            } else {
                start += length;
            }
        }
        // As long as single bytes can go, others may be able to go after them.
        if length > 1 || !shorter {
            length /= 2;
        }
    }
    for place in 0..bytes.len() {
        let mut plain = bytes.clone();
        plain[place] = 0;
        if plain != bytes && Instant::now() < until && fails(&plain) {
            bytes = plain;
        }
    }
    bytes
}
