//! Work that the threads of tract's executor share.

#[cfg(feature = "multithread-mm")]
mod cores;
#[cfg(feature = "multithread-mm")]
mod job;
#[cfg(not(feature = "multithread-mm"))]
#[path = "one.rs"]
mod pool;
#[cfg(feature = "multithread-mm")]
mod pool;

#[cfg(feature = "multithread-mm")]
pub use cores::{THREADS_VARIABLE, default_threads, executor, use_all_cores};
use pool::{ExecutorPool, enough_work};
#[cfg(all(test, feature = "multithread-mm"))]
pub(crate) use pool::{PartsOfThread, next_part};
pub(crate) use pool::{notes_sharing, within_pool, without_noting};

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tract_core::prelude::TractResult;

/// How many threads of the executor that the program gave to tract share some work: see [`fill_rows`].
pub fn threads_for(work: usize) -> usize {
    Division::of(work).threads()
}

/// Fills `output` on the threads of the executor that the program gave to tract: calls `fill` for parts of it, which are
/// whole rows of `row` elements, with the number of their first row. The last row may be shorter.
///
/// `work` is about how long it takes on one thread, in picoseconds. All threads of an executor share it if it is enough for them, and
/// one thread gets less than tract's threshold (`multithread::current_threading_element_threshold`), of which an element is 384
/// picoseconds. Half of it is enough while another thread has just helped, and waits for more.
///
/// If one thread has all, it is the calling one, and gets it in one part: so it is without the feature `multithread-mm`.
/// Otherwise it works too, and waits only for threads that have begun a part: not for a thread to wake up, or to end
/// something else.
///
/// # Errors
///
/// One of those of `fill`; the output then is not filled.
///
/// # Panics
///
/// If `fill` does, or if `row` is 0.
///
/// # Example
///
/// ```
/// use tract_core::prelude::*;
/// use tract_openvino_kernels::threads::fill_rows;
///
/// let mut squares = vec![0; 12];
/// fill_rows(&mut squares, 4, 40_000_000, |first_row, rows| {
///     for (number, square) in rows.iter_mut().enumerate() {
///         *square = (4 * first_row + number).pow(2);
///     }
///     TractResult::Ok(())
/// })?;
/// assert_eq!(squares[11], 121);
/// # TractResult::Ok(())
/// ```
pub fn fill_rows<T: Send, E: Send>(
    output: &mut [T],
    row: usize,
    work: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    Division::of(work).fill_rows(output, row, fill)
}

/// How many threads share some work. Who shares it asks once, and passes the answer on: it depends on what other threads do.
///
/// What is prepared for it is other work, which is asked for on its own: to pack the rows of a product with few columns takes longer than
/// the product, and may be enough for threads where the product is not.
#[derive(Debug, Clone)]
pub(crate) struct Division {
    /// In picoseconds.
    work: usize,
    /// How much is enough for a thread.
    enough: usize,
    /// How many threads there are at most.
    most: usize,
    /// Whose they are, if the work is enough for two.
    pool: Option<ExecutorPool>,
}

impl Division {
    /// Of work that takes one thread so many picoseconds.
    pub fn of(work: usize) -> Division {
        let enough = enough_work();
        let pool = if work < enough { None } else { ExecutorPool::current() };
        let most = pool.as_ref().map_or(1, ExecutorPool::threads);
        Division { work, enough, most, pool }
    }

    /// Of one of so many equal parts of the work.
    pub fn of_part(&self, parts: usize) -> Division {
        Division { work: self.work / parts, ..self.clone() }
    }

    /// On no more threads than this.
    pub fn at_most(self, threads: usize) -> Division {
        Division { most: self.most.min(threads.max(1)), ..self }
    }

    /// How many threads there are for it: one or more.
    pub fn threads(&self) -> usize {
        if self.work < self.enough {
            return 1;
        }
        // Waking a thread takes time, so each must have enough to do.
        self.most.min((self.work / self.enough).saturating_add(1))
    }

    /// Whole panels of so many neighbours, the last of which may be shorter: for each thread so many parts, if there are panels for that,
    /// of as many panels each as the others, or one more.
    pub fn panels(&self, count: usize, panel: usize, of_a_thread: usize) -> Vec<Range<usize>> {
        let panels = count.div_ceil(panel);
        let parts = match self.threads() {
            1 => panels.min(1),
            threads => panels.min(of_a_thread * threads),
        };
        even_parts(0..panels, parts)
            .map(|it| (it.start * panel).min(count)..(it.end * panel).min(count))
            .collect()
    }

    /// As the [function](fill_rows).
    pub fn fill_rows<T: Send, E: Send>(
        &self,
        output: &mut [T],
        row: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        self.fill_parts(output, row, PartSize::ANY, fill)
    }

    /// The same in parts of such sizes, where a part costs something besides its rows.
    pub fn fill_parts<T: Send, E: Send>(
        &self,
        output: &mut [T],
        row: usize,
        size: PartSize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        assert!(row > 0, "fill_rows: row is 0, but must be 1 or more");
        let rows = output.len().div_ceil(row);
        let threads = self.threads().min(rows);
        match &self.pool {
            Some(pool) if threads > 1 => {
                pool.fill(output, row, parts_of_threads(rows, threads, size), fill)
            }
            _ => fill(0, output),
        }
    }

    /// Does something with each item. After an error others may not have been visited.
    pub fn for_each<T: Send>(
        &self,
        items: &mut [T],
        each: impl Fn(&mut T) -> TractResult<()> + Sync,
    ) -> TractResult<()> {
        self.fill_rows(items, 1, |_, items| items.iter_mut().try_for_each(&each))
    }
}

/// How many rows a part of the work has, if several threads share it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartSize {
    /// About so many or more, if a thread has so many.
    pub least: usize,
    /// A multiple of this, but for the last part of each thread.
    pub multiple: usize,
}

impl PartSize {
    pub const ANY: PartSize = PartSize { least: 1, multiple: 1 };
}

/// The most parts of a thread: a late thread leaves some of them to others.
const MOST_PARTS: usize = 8;

/// The parts of each of some threads, which follow each other: each thread has as many rows as the others, or one more.
fn parts_of_threads(rows: usize, threads: usize, size: PartSize) -> Vec<Vec<Range<usize>>> {
    let in_parts = |of_thread: Range<usize>| {
        let parts = (of_thread.len() / size.least.max(1)).clamp(1, MOST_PARTS);
        let rows = of_thread.len().div_ceil(parts).next_multiple_of(size.multiple).max(1);
        of_thread
            .clone()
            .step_by(rows)
            .map(|first| first..of_thread.end.min(first + rows))
            .collect()
    };
    even_parts(0..rows, threads).map(in_parts).collect()
}

/// What threads have in common in `job`: in `tests/loom.rs` it is loom's.
#[cfg(feature = "multithread-mm")]
mod sync {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub use std::sync::{Arc, Mutex};
    pub use std::thread::yield_now;

    pub(super) use super::lock;
}

/// What a mutex has, also after a panic of a thread that had it: for what is whole at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn threads_get_as_much_in_parts_that_are_large_enough() {
        let sizes = |rows, threads, least, multiple| {
            let parts = parts_of_threads(rows, threads, PartSize { least, multiple });
            let of_thread = |parts: Vec<Range<usize>>| parts.iter().map(Range::len).collect();
            parts.into_iter().map(of_thread).collect::<Vec<Vec<usize>>>()
        };
        assert_eq!(sizes(17 * 17, 2, 48, 8), [[48, 48, 48], [56, 56, 33]]);
        assert_eq!(sizes(14 * 14, 2, 48, 8), [[56, 42], [56, 42]]);
        assert_eq!(sizes(49, 2, 48, 8), [[24], [25]]);
        assert_eq!(sizes(5, 3, 1, 1), [vec![1], vec![1, 1], vec![1, 1]]);
        assert_eq!(sizes(50, 2, 1, 1), [[4, 4, 4, 4, 4, 4, 1], [4, 4, 4, 4, 4, 4, 1]]);
        assert_eq!(sizes(1 << 20, 2, 1, 1), [[1 << 16; 8], [1 << 16; 8]]);
    }

    #[test]
    fn threads_have_enough_to_do() {
        let division = |work, enough, most| Division { work, enough, most, pool: None };
        for (work, expected) in [(0, 1), (399, 1), (400, 2), (799, 2), (800, 3), (1 << 20, 8)] {
            assert_eq!(division(work, 400, 8).threads(), expected, "{work}");
        }
        assert_eq!(division(1 << 20, 400, 1).threads(), 1);
        assert_eq!(division(1600, 400, 8).of_part(2).threads(), 3);
        assert_eq!(division(1600, 400, 8).of_part(5).threads(), 1);
    }
}
