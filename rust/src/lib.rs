//! A radix tree over the prompts that wait in a scheduler, and its Python class `radixflow._index.PrefixIndex`.
//!
//! The tree knows nothing of Python and is tested without it; the feature `python` adds the extension module,
//! and this file is all of its surface.

mod arena;
mod children;
mod handles;
mod hashing;
#[cfg(feature = "python")]
mod input;
mod integrity;
mod label;
#[cfg(feature = "python")]
mod list;
#[cfg(test)]
mod model;
mod namespace;
mod node;
mod page;
mod queries;
mod shape;
mod stats;
mod terminals;
mod tree;

pub use stats::Stats;
pub use tree::Tree;

/// A private part of radixflow; use `radixflow.index`.
#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _index {
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::{Mutex, MutexGuard};

    use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    use crate::input::{read_handle, read_tokens, Granularity, Namespace};
    use crate::Tree;

    /// A radix tree over the prompts of waiting requests; see radixflow.index.
    // The lock is held only while no Python code can run, so it never waits for the interpreter. It also
    // remembers a panic: a tree that was left half changed is refused until it is cleared.
    #[pyclass(frozen, module = "radixflow._index")]
    struct PrefixIndex {
        tree: Mutex<Tree>,
    }

    impl PrefixIndex {
        fn lock(&self) -> PyResult<MutexGuard<'_, Tree>> {
            self.tree.lock().map_err(|_| {
                PyRuntimeError::new_err(
                    "the prefix index failed earlier and is unusable: call clear(), then insert again",
                )
            })
        }
    }

    /// Runs one entry point. A panic would reach Python as a BaseException, which `except Exception` lets through.
    fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            let text = payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("unknown cause");
            Err(PyRuntimeError::new_err(format!(
                "the prefix index failed: {text}. It is unusable until clear()"
            )))
        })
    }

    fn known<T>(tree: &Tree, handle: u64, answer: Option<T>) -> PyResult<T> {
        answer.ok_or_else(|| {
            let history = if tree.was_issued(handle) {
                "it was removed"
            } else {
                "insert() never returned it"
            };
            PyKeyError::new_err(format!("handle {handle} is not in the index: {history}"))
        })
    }

    #[pymethods]
    impl PrefixIndex {
        #[new]
        fn new() -> Self {
            Self {
                tree: Mutex::new(Tree::new()),
            }
        }

        /// Add a key and return its handle.
        #[pyo3(signature = (tokens, namespace = Namespace::default()), text_signature = "($self, tokens, namespace='')")]
        fn insert(&self, tokens: &Bound<'_, PyAny>, namespace: Namespace) -> PyResult<u64> {
            guarded(|| {
                let tokens = read_tokens(tokens)?;
                self.lock()?.insert(&namespace.0, &tokens).ok_or_else(|| {
                    PyValueError::new_err("tokens is empty: a key needs at least one token")
                })
            })
        }

        /// Take a key away.
        fn remove(&self, handle: &Bound<'_, PyAny>) -> PyResult<()> {
            guarded(|| {
                let handle = read_handle(handle)?;
                let mut tree = self.lock()?;
                let found = tree.remove(handle).then_some(());
                known(&tree, handle, found)
            })
        }

        /// Stop counting a key as a peer of others.
        fn retire(&self, handle: &Bound<'_, PyAny>) -> PyResult<()> {
            guarded(|| {
                let handle = read_handle(handle)?;
                let mut tree = self.lock()?;
                let found = tree.retire(handle).then_some(());
                known(&tree, handle, found)
            })
        }

        /// Return how many leading tokens some live key shares.
        #[pyo3(signature = (tokens, namespace = Namespace::default()), text_signature = "($self, tokens, namespace='')")]
        fn match_prefix(&self, tokens: &Bound<'_, PyAny>, namespace: Namespace) -> PyResult<usize> {
            guarded(|| {
                let tokens = read_tokens(tokens)?;
                Ok(self.lock()?.match_prefix(&namespace.0, &tokens))
            })
        }

        /// Return where other live keys part from this one, and how many go on to there.
        fn shared_with_peers(&self, handle: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, usize)>> {
            guarded(|| {
                let handle = read_handle(handle)?;
                let tree = self.lock()?;
                known(&tree, handle, tree.shared_with_peers(handle))
            })
        }

        /// Return how many tokens of this key no earlier live key covers.
        #[pyo3(signature = (handle, granularity = Granularity(1)), text_signature = "($self, handle, granularity=1)")]
        fn residual(&self, handle: &Bound<'_, PyAny>, granularity: Granularity) -> PyResult<usize> {
            guarded(|| {
                let handle = read_handle(handle)?;
                let tree = self.lock()?;
                known(&tree, handle, tree.residual(handle, granularity.0))
            })
        }

        /// Return the number of tokens of a key.
        fn key_length(&self, handle: &Bound<'_, PyAny>) -> PyResult<usize> {
            guarded(|| {
                let handle = read_handle(handle)?;
                let tree = self.lock()?;
                known(&tree, handle, tree.key_length(handle))
            })
        }

        /// Return what the index holds and what it costs.
        fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            guarded(|| {
                let stats = self.lock()?.stats();
                let dict = PyDict::new(py);
                dict.set_item("handles", stats.handles)?;
                dict.set_item("nodes", stats.nodes)?;
                dict.set_item("namespaces", stats.namespaces)?;
                dict.set_item("unique_tokens", stats.unique_tokens)?;
                dict.set_item("memory_bytes", stats.memory_bytes)?;
                Ok(dict)
            })
        }

        /// Raise RuntimeError if the index contradicts itself.
        fn check_integrity(&self) -> PyResult<()> {
            guarded(|| {
                let fault = self.lock()?.check_integrity().err();
                fault.map_or(Ok(()), |fault| {
                    Err(PyRuntimeError::new_err(format!(
                        "the prefix index is damaged: {fault}"
                    )))
                })
            })
        }

        /// Remove every key, and recover from a failure.
        fn clear(&self) -> PyResult<()> {
            guarded(|| {
                let mut tree = self
                    .tree
                    .lock()
                    .unwrap_or_else(|failed| failed.into_inner());
                tree.clear();
                self.tree.clear_poison();
                Ok(())
            })
        }

        fn __len__(&self) -> PyResult<usize> {
            guarded(|| Ok(self.lock()?.len()))
        }

        fn __contains__(&self, handle: &Bound<'_, PyAny>) -> PyResult<bool> {
            guarded(|| {
                let handle = handle.extract::<u64>().ok();
                let tree = self.lock()?;
                Ok(handle.is_some_and(|handle| tree.contains(handle)))
            })
        }

        fn __repr__(&self) -> PyResult<String> {
            guarded(|| {
                Ok(match self.tree.lock() {
                    Ok(tree) => format!("<PrefixIndex: {} handles>", tree.len()),
                    Err(_) => "<PrefixIndex: failed, needs clear()>".to_owned(),
                })
            })
        }

        /// Fail as a bug in the tree would; for tests of what happens then.
        fn _panic_for_tests(&self) -> PyResult<()> {
            guarded(|| {
                let _tree = self.lock()?;
                panic!("asked to by a test")
            })
        }
    }
}
