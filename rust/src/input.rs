//! From Python arguments to tokens, handles and sizes, with errors that name the field, the value and the fix.
//!
//! Everything is read before the tree is touched, so that a refused argument leaves nothing behind.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyMemoryView, PySequence, PyString, PyTuple};

use crate::list::read_list;

/// Token ids from a buffer of 32-bit unsigned integers or from a sequence of ints.
pub fn read_tokens(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(list) = tokens.cast_exact::<PyList>() {
        return read_list(list);
    }
    if let Ok(tuple) = tokens.cast_exact::<PyTuple>() {
        return read_items(tuple.iter(), tuple.len());
    }
    match PyUntypedBuffer::get(tokens) {
        Ok(buffer) => read_buffer(tokens, &buffer),
        Err(error) if error.is_instance_of::<PyTypeError>(tokens.py()) => read_sequence(tokens),
        // A ctypes array gives no strides, which PyO3 refuses; a memoryview of it fills them in.
        Err(error) if error.is_instance_of::<PyBufferError>(tokens.py()) => {
            let view = PyMemoryView::from(tokens)?;
            let buffer = PyUntypedBuffer::get(&view).map_err(|_| {
                PyValueError::new_err("tokens has no dimension: pass one key, of one dimension")
            })?;
            read_buffer(tokens, &buffer)
        }
        Err(error) => Err(error),
    }
}

fn read_sequence(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if tokens.is_instance_of::<PyString>() || !tokens.is_instance_of::<PySequence>() {
        return Err(PyTypeError::new_err(format!(
            "tokens is a {}: pass a sequence of ints, or a buffer of unsigned 32-bit items such as \
             numpy.asarray(tokens, dtype=numpy.uint32)",
            type_name(tokens)
        )));
    }
    let size = tokens.len()?;
    let items: Vec<Bound<'_, PyAny>> = tokens.try_iter()?.collect::<PyResult<_>>()?;
    read_items(items.into_iter(), size)
}

fn read_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    size: usize,
) -> PyResult<Vec<u32>> {
    let mut tokens = Vec::with_capacity(size);
    for (index, item) in items.enumerate() {
        tokens.push(read_item(index, &item)?);
    }
    Ok(tokens)
}

/// One token, from whatever stands for an int; the error names its place.
pub fn read_item(index: usize, item: &Bound<'_, PyAny>) -> PyResult<u32> {
    item.extract::<u32>()
        .map_err(|error| item_error(index, item, error))
}

fn item_error(index: usize, item: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = item.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        PyOverflowError::new_err(format!(
            "tokens[{index}] is {}: token ids are unsigned 32-bit (0..4294967295)",
            shown(item)
        ))
    } else if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!(
            "tokens[{index}] is {} ({}): token ids are ints",
            shown(item),
            type_name(item)
        ))
    } else {
        error
    }
}

fn read_buffer(tokens: &Bound<'_, PyAny>, buffer: &PyUntypedBuffer) -> PyResult<Vec<u32>> {
    // The format is checked here: PyO3's own check takes byte order '>' for native and '<' for foreign.
    let is_u32 = buffer.item_size() == size_of::<u32>()
        && match buffer.format().to_bytes() {
            [b'I' | b'L'] | [b'@' | b'=', b'I' | b'L'] => true,
            [b'<', b'I' | b'L'] => cfg!(target_endian = "little"),
            [b'>' | b'!', b'I' | b'L'] => cfg!(target_endian = "big"),
            _ => false,
        };
    if !is_u32 {
        let held = match tokens.getattr("dtype") {
            Ok(dtype) => format!("dtype {dtype}"),
            Err(_) => format!("items of format {:?}", buffer.format().to_string_lossy()),
        };
        return Err(PyTypeError::new_err(format!(
            "tokens is a {} with {held}: token ids are unsigned 32-bit in native byte order; convert with \
             .astype(numpy.uint32) or array.array('I', tokens)",
            type_name(tokens)
        )));
    }
    if buffer.dimensions() != 1 {
        return Err(PyValueError::new_err(format!(
            "tokens has {} dimensions of shape {:?}: pass one key, of one dimension, at a time",
            buffer.dimensions(),
            buffer.shape()
        )));
    }
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err(
            "tokens is a strided view: make it contiguous with numpy.ascontiguousarray(tokens)",
        ));
    }
    let size = buffer.item_count();
    let mut copy = Vec::<u32>::with_capacity(size);
    // SAFETY: the exporter holds `size` contiguous items of 4 bytes at this address until the buffer is released,
    // which its drop does; copying bytes asks for no alignment, and every bit pattern is a u32. `copy` is new and has
    // room for `size` items, so the two do not overlap and all of them are written, and the interpreter is held, so no
    // Python code writes meanwhile.
    unsafe {
        std::ptr::copy_nonoverlapping(
            buffer.buf_ptr().cast::<u8>(),
            copy.as_mut_ptr().cast::<u8>(),
            size * size_of::<u32>(),
        );
        copy.set_len(size);
    }
    Ok(copy)
}

/// A handle; an int that can be none is an unknown key, like one that was removed.
pub fn read_handle(handle: &Bound<'_, PyAny>) -> PyResult<u64> {
    handle.extract::<u64>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(handle.py()) {
            PyKeyError::new_err(format!(
                "handle {} is not in the index: insert() never returned it",
                shown(handle)
            ))
        } else if error.is_instance_of::<PyTypeError>(handle.py()) {
            PyTypeError::new_err(format!(
                "handle is {} ({}): pass the int that insert() returned",
                shown(handle),
                type_name(handle)
            ))
        } else {
            error
        }
    })
}

/// A namespace; its own type so that a wrong argument is named like the others.
#[derive(Default)]
pub struct Namespace(pub String);

impl FromPyObject<'_, '_> for Namespace {
    type Error = PyErr;

    fn extract(namespace: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Ok(text) = namespace.cast::<PyString>() else {
            return Err(PyTypeError::new_err(format!(
                "namespace is {} ({}): pass a str",
                shown(&namespace),
                type_name(&namespace)
            )));
        };
        // A lone surrogate has no UTF-8 form; the standard UnicodeEncodeError (a ValueError) says where it is.
        Ok(Self(text.to_cow()?.into_owned()))
    }
}

/// A block size, in tokens.
pub struct Granularity(pub usize);

impl FromPyObject<'_, '_> for Granularity {
    type Error = PyErr;

    fn extract(granularity: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match granularity.extract::<i64>() {
            Ok(tokens) if tokens > 0 => Ok(Self(tokens as usize)),
            Err(error) if !error.is_instance_of::<PyOverflowError>(granularity.py()) => {
                Err(PyTypeError::new_err(format!(
                    "granularity is {} ({}): pass an int, the block size in tokens",
                    shown(&granularity),
                    type_name(&granularity)
                )))
            }
            // A block larger than every key is as good as any other such block.
            Err(_) if granularity.is_instance_of::<PyInt>() && granularity.gt(0)? => {
                Ok(Self(usize::MAX))
            }
            _ => Err(PyValueError::new_err(format!(
                "granularity is {}: it must be at least 1 token",
                shown(&granularity)
            ))),
        }
    }
}

/// A value for a message: its repr, unless that fails or is long.
fn shown(value: &Bound<'_, PyAny>) -> String {
    match value.repr().map(|text| text.to_string()) {
        Ok(text) if text.chars().count() <= 60 => text,
        Ok(text) => text.chars().take(57).chain("...".chars()).collect(),
        Err(_) => "a value that cannot be shown".to_owned(),
    }
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "object".to_owned(), |name| name.to_string())
}
