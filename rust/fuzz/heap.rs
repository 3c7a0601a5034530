//! Counts what a thread holds on the heap: the bytes that were asked for and not given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of this test binary.
pub struct Counting;

thread_local! {
    // Of the thread, because tests run side by side. Without a destructor, so that it can be used at any time.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

/// Bytes that this thread holds.
pub fn held() -> isize {
    HELD.with(Cell::get)
}

/// Runs `body` and adds what it left on the heap to `owned`.
pub fn charge<T>(owned: &mut isize, body: impl FnOnce() -> T) -> T {
    let before = held();
    let result = body();
    *owned += held() - before;
    result
}

// SAFETY: every call is the system allocator's own; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            count(layout.size() as isize);
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) };
        count(-(layout.size() as isize));
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { System.realloc(place, layout, size) };
        if !moved.is_null() {
            count(size as isize - layout.size() as isize);
        }
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
