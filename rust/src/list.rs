//! Token ids from an exact list of exact ints, which is what the engine has.

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

/// Appends the items of a list from the number of `tokens` on, up to the first that is no exact int in range.
fn read_plain(list: &Bound<'_, PyList>, tokens: &mut Vec<u32>) {
    let start = tokens.len();
    // Filling up first is cheaper than asking for room before each token.
    tokens.resize(list.len().max(start), 0);
    let mut end = start;
    for place in &mut tokens[start..] {
        let Some(token) = plain_token(list, end) else {
            break;
        };
        *place = token;
        end += 1;
    }
    tokens.truncate(end);
}

// What PyLong_AsSize_t returns when it fails must be no token.
const _: () = assert!(usize::BITS > u32::BITS);

/// The token at `index` of a list if it is an exact int in range.
#[inline]
fn plain_token(list: &Bound<'_, PyList>, index: usize) -> Option<u32> {
    // SAFETY: the reference is borrowed from the list. Reading an exact int runs no Python code, and the
    // interpreter is held (the stable ABI we build for has no free-threaded form), so the list keeps the item.
    let value = unsafe {
        let item = ffi::PyList_GetItem(list.as_ptr(), index as ffi::Py_ssize_t);
        if item.is_null() || ffi::PyLong_CheckExact(item) == 0 {
            usize::MAX
        } else {
            ffi::PyLong_AsSize_t(item)
        }
    };
    let token = u32::try_from(value).ok();
    if token.is_none() {
        // Out of range, or the marker of a failure; the caller looks again and says what is wrong.
        drop(PyErr::take(list.py()));
    }
    token
}
