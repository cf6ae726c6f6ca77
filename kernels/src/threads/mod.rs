//! Work that the threads of tract's executor share.

#[cfg(feature = "multithread-mm")]
mod cores;
#[cfg(not(feature = "multithread-mm"))]
mod one;
#[cfg(feature = "multithread-mm")]
mod pool;

#[cfg(feature = "multithread-mm")]
pub use cores::{THREADS_VARIABLE, default_threads, executor, use_all_cores};
#[cfg(not(feature = "multithread-mm"))]
pub use one::{fill_rows, threads_for};
#[cfg(not(feature = "multithread-mm"))]
pub(crate) use one::{notes_sharing, within_pool, without_noting};
#[cfg(all(test, feature = "multithread-mm"))]
pub(crate) use pool::order_of_parts;
#[cfg(feature = "multithread-mm")]
pub use pool::{fill_rows, threads_for};
#[cfg(feature = "multithread-mm")]
pub(crate) use pool::{notes_sharing, within_pool, without_noting};

use std::ops::Range;

use tract_core::prelude::TractResult;

/// Does something with each item, on the threads that share this work: see [`fill_rows`].
///
/// # Errors
///
/// One of those of `each`. The items after it may not have been visited.
pub fn for_each_on_threads<T: Send>(
    items: &mut [T],
    work: usize,
    each: impl Fn(&mut T) -> TractResult<()> + Sync,
) -> TractResult<()> {
    fill_rows(items, 1, work, |_, items| items.iter_mut().try_for_each(&each))
}

/// So many parts of a range, of as many as the others each, or one more.
pub(crate) fn even_parts(of: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let end = move |number: usize| of.start + number * of.len() / count;
    (0..count).map(move |number| end(number)..end(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With threads and without.
    #[test]
    #[should_panic(expected = "row is 0, but must be 1 or more")]
    fn rows_have_elements() {
        let _ = fill_rows(&mut [0], 0, 1, |_, _| Ok::<(), ()>(()));
    }
}
