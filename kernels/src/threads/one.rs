//! Stands in for `pool.rs` without the feature for threads.

/// How many threads share some work: one.
pub fn threads_for(_work: usize) -> usize {
    1
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
