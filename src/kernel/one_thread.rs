//! Stands in for `threads.rs` without the feature for threads.

/// How many threads share some work: one.
pub fn threads_for(_work: usize) -> usize {
    1
}

/// Fills `output` on the calling thread: calls `fill` with all of it, and 0. With the feature `multithread-mm`, threads
/// share its rows of `row` elements; without it, `row` and `work` are not used.
///
/// # Errors
///
/// The one of `fill`.
pub fn fill_rows<T: Send, E: Send>(
    output: &mut [T],
    _row: usize,
    _work: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    fill(0, output)
}
