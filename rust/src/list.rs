//! Token ids from an exact list of ints, which is what the engine has.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::input::read_item;

/// An exact list, which is what the engine has: several times as fast as any other sequence.
pub fn read_list(list: &Bound<'_, PyList>) -> PyResult<Vec<u32>> {
    let mut tokens = Vec::with_capacity(list.len());
    // Converting an odd item may run Python code that changes the list, so its length is read again after each.
    loop {
        read_plain(list, &mut tokens);
        let index = tokens.len();
        if index >= list.len() {
            return Ok(tokens);
        }
        tokens.push(read_item(index, &list.get_item(index)?)?);
    }
}

/// How many tokens ahead an int is asked for. A prompt's ints lie about in memory, and fetching them one by one costs
/// several times what reading them does as soon as they have left the processor's caches.
const AHEAD: usize = 32;

/// Appends the items of a list from the number of `tokens` on, up to the first that is no int in range.
fn read_plain(list: &Bound<'_, PyList>, tokens: &mut Vec<u32>) {
    let start = tokens.len();
    let size = list.len().max(start);
    // Filling up first is cheaper than asking for room before each token.
    tokens.resize(size, 0);
    let mut ahead = [std::ptr::null_mut(); AHEAD];
    for index in start..size.min(start + AHEAD) {
        ahead[index % AHEAD] = fetch(list, index);
    }
    let mut end = start;
    for place in &mut tokens[start..] {
        let item = ahead[end % AHEAD];
        if end + AHEAD < size {
            ahead[end % AHEAD] = fetch(list, end + AHEAD);
        }
        // SAFETY: the reference is borrowed from the list, which keeps it: the call runs no Python code (what is no int
        // is refused, not converted), and the interpreter is held (the stable ABI we build for has no free-threaded
        // form).
        let value = unsafe { ffi::PyLong_AsSize_t(item) };
        let Ok(token) = u32::try_from(value) else {
            // Out of range, or the marker of a failure; the caller looks again and says what is wrong.
            drop(PyErr::take(list.py()));
            break;
        };
        *place = token;
        end += 1;
    }
    tokens.truncate(end);
}

// What PyLong_AsSize_t returns when it fails must be no token.
const _: () = assert!(usize::BITS > u32::BITS);

/// Borrows the item at an index below the list's length, and has the processor fetch it.
#[inline]
fn fetch(list: &Bound<'_, PyList>, index: usize) -> *mut ffi::PyObject {
    // SAFETY: it is a list, and a borrowed reference that is only held while no Python code runs.
    let item = unsafe { ffi::PyList_GetItem(list.as_ptr(), index as ffi::Py_ssize_t) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fail.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(item.cast::<i8>());
    }
    item
}
