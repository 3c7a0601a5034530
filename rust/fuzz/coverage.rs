//! Which edges of the code an input ran through, where the build counts them (`make fuzz`); nothing elsewhere.
//!
//! LLVM's coverage pass calls the function below with the place of its counters. That needs no other compiler and no
//! library: only the flags in the Makefile.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static COUNTERS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Called before `main`, by what the compiler put in.
#[no_mangle]
pub extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    COUNTERS.store(start, Ordering::Relaxed);
    COUNT.store(stop as usize - start as usize, Ordering::Relaxed);
}

/// What inputs have reached so far.
pub struct Coverage {
    /// For each edge a bit for each order of magnitude in which it was passed.
    seen: Vec<u8>,
}

impl Coverage {
    pub fn new() -> Self {
        let seen = vec![0; COUNT.load(Ordering::Relaxed)];
        Self { seen }
    }

    /// Edges that the build counts.
    pub fn edges(&self) -> usize {
        self.seen.len()
    }

    /// Edges that were passed.
    pub fn reached(&self) -> usize {
        self.seen.iter().filter(|&&seen| seen != 0).count()
    }

    /// Forgets what ran until now.
    pub fn start(&mut self) {
        for edge in 0..self.seen.len() {
            // SAFETY: within the counters; only this thread runs code that counts. Racing counts would only be wrong.
            unsafe { COUNTERS.load(Ordering::Relaxed).add(edge).write_volatile(0) };
        }
    }

    /// Whether what ran since [`Coverage::start`] passed an edge for the first time, or much oftener than before.
    pub fn is_news(&mut self) -> bool {
        let mut news = false;
        for (edge, seen) in self.seen.iter_mut().enumerate() {
            // SAFETY: as above.
            let count = unsafe { COUNTERS.load(Ordering::Relaxed).add(edge).read_volatile() };
            let magnitude = match count {
                0 => 0,
                1..=7 => 1,
                8..=63 => 3,
                _ => 7,
            };
            news |= *seen & magnitude != magnitude;
            *seen |= magnitude;
        }
        news
    }
}
