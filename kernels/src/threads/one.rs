//! Stands in for `pool.rs` without the feature for threads.

use tract_core::prelude::multithread::Executor;

/// How many threads share some work: one.
pub fn threads_for(_work: usize) -> usize {
    1
}

/// Calls a function, and says whether it shared work among threads.
pub(crate) fn notes_sharing<R>(function: impl FnOnce() -> R) -> (R, bool) {
    (function(), false)
}

/// Calls a function.
pub(crate) fn without_noting<R>(function: impl FnOnce() -> R) -> R {
    function()
}

/// Calls a function.
pub(crate) fn within_pool<R>(_executor: Option<&Executor>, function: impl FnOnce() -> R) -> R {
    function()
}

/// Fills `output` on the calling thread: calls `fill` with all of it, and 0. With the feature `multithread-mm`, threads
/// share its rows of `row` elements; without it, `work` is not used.
///
/// # Errors
///
/// The one of `fill`.
///
/// # Panics
///
/// If `fill` does, or if `row` is 0.
pub fn fill_rows<T: Send, E: Send>(
    output: &mut [T],
    row: usize,
    _work: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    assert!(row > 0, "fill_rows: row is 0, but must be 1 or more");
    fill(0, output)
}
