//! Shares the work on an output among the threads of the executor that the user of tract selected.

#[cfg(feature = "multithread-mm")]
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tract_core::prelude::{TractResult, multithread};

/// Calls `fill` for parts of `output` that are whole rows, with the number of their first row, until
/// all are filled or a call fails: on several threads where there are, if `work`, in the units of
/// tract's threshold, is worth it. As tract's [`multithread::par_chunks_mut`], but that the calling
/// thread works too.
///
/// So nothing waits for a thread to wake up. And where all is left to the pool, Linux may wake two of
/// its threads on one core while the other is idle: half of the runs on two cores took as long as
/// those on one.
pub(crate) fn fill_rows<T: Send>(
    output: &mut [T],
    row: usize,
    work: usize,
    fill: impl Fn(usize, &mut [T]) -> TractResult<()> + Sync + Send,
) -> TractResult<()> {
    #[cfg(feature = "multithread-mm")]
    if let multithread::Executor::MultiThread(pool) = multithread::current_tract_executor() {
        let rows = output.len() / row;
        let threads = pool.current_num_threads().min(rows);
        if threads < 2 || work < multithread::current_threading_element_threshold() {
            return fill(0, output);
        }
        // Some parts for each thread, so that a late one finds less to do.
        let part = rows.div_ceil(8 * threads);
        let parts = Mutex::new(output.chunks_mut(part * row).enumerate());
        let next = || parts.lock().expect("taking a part does not panic").next();
        let result = Mutex::new(Ok(()));
        let fill_parts = || {
            while let Some((number, rows)) = next() {
                if let Err(error) = fill(number * part, rows) {
                    // The others have nothing to do any more.
                    while next().is_some() {}
                    *result.lock().expect("storing an error does not panic") = Err(error);
                }
            }
        };
        let helpers = AtomicUsize::new(threads - 1);
        pool.in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| {
                    fill_parts();
                    helpers.fetch_sub(1, Ordering::Relaxed);
                });
            }
            fill_parts();
            // The helpers are at their last parts. To sleep until they are done takes longer: rows of
            // 1 KiB, 4096 of them, took 1.15 times as long.
            for _ in 0..SPINS {
                if helpers.load(Ordering::Relaxed) == 0 {
                    break;
                }
                std::hint::spin_loop();
            }
        });
        return result.into_inner().expect("storing an error does not panic");
    }
    multithread::par_chunks_mut(output, row, work, fill)
}

/// A tenth of a millisecond or so, after which a thread had better sleep.
#[cfg(feature = "multithread-mm")]
const SPINS: usize = 10_000;
