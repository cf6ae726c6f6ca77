//! Shares the work on an output among the threads of the executor that the user of tract selected.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tract_core::prelude::multithread;

/// Calls `fill` for parts of `output` that are whole rows, with the number of their first row, until
/// all are filled or a call fails: on several threads where there are, if `work`, in the units of
/// tract's threshold, is worth it.
///
/// The calling thread works too, and waits for those only that have begun a part. So nothing waits for a
/// thread to wake up, or to end something else. And where all is left to the pool, Linux may wake two of
/// its threads on one core while the other is idle: half of the runs on two cores took as long as those on
/// one.
pub(super) fn fill_rows<T: Send, E: Send>(
    output: &mut [T],
    row: usize,
    work: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let enough = multithread::current_threading_element_threshold();
    let rows = output.len() / row;
    // To wake a thread takes time of this one: each must have enough to do.
    let most = rows.min(1 + work / enough.max(1));
    if work >= enough
        && most > 1
        && let multithread::Executor::MultiThread(pool) = multithread::current_tract_executor()
    {
        let threads = pool.current_num_threads().min(most);
        if threads == 1 {
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
        Job::run(&fill_parts, |job| {
            for _ in 1..threads {
                let job = job.clone();
                pool.spawn(move || job.help());
            }
        });
        return result.into_inner().expect("storing an error does not panic");
    }
    fill(0, output)
}

/// Work that a thread does, and others with it if they come in time.
struct Job {
    work: *const (dyn Fn() + Sync),
    /// How many help. With [`CLOSED`] nobody begins any more.
    helpers: AtomicUsize,
    panicked: AtomicBool,
}

const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: what the pointer leads to may be shared, and `help` says how long.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

impl Job {
    /// Hands the job to `spawn`, which passes it on to threads that will [`help`](Self::help), and does it.
    /// When it returns, nobody works on it any more.
    ///
    /// A scope of the pool would wait until all its jobs have begun: in a busy pool, until something else is
    /// done.
    fn run(work: &(dyn Fn() + Sync), spawn: impl FnOnce(&Arc<Job>)) {
        // SAFETY: only the lifetime changes. See `help`.
        let work_of_any_life: *const (dyn Fn() + Sync) = unsafe { std::mem::transmute(work) };
        let job = Arc::new(Job {
            work: work_of_any_life,
            helpers: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        });
        let close = Close(&job);
        spawn(&job);
        work();
        drop(close);
        assert!(!job.panicked.load(Ordering::Relaxed), "a thread that helped panicked");
    }

    /// Works on the job, unless it is done.
    fn help(&self) {
        let begin = |helpers: usize| (helpers & CLOSED == 0).then_some(helpers + 1);
        if self.helpers.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin).is_err() {
            return;
        }
        // SAFETY: `run` has borrowed it, and does not return before those who began have ended, which is
        // said below, whatever happens here.
        let work = unsafe { &*self.work };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.helpers.fetch_sub(1, Ordering::Release);
    }
}

/// Ends a job, on unwinding too: waits for those who help.
struct Close<'a>(&'a Job);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        /// A tenth of a millisecond or so, after which a thread had better let others work.
        const SPINS: usize = 10_000;
        self.0.helpers.fetch_or(CLOSED, Ordering::Relaxed);
        // They are at their last parts. To sleep until they are done takes longer: rows of 1 KiB, 4096 of
        // them, took 1.15 times as long.
        let mut spins = 0;
        while self.0.helpers.load(Ordering::Acquire) != CLOSED {
            if spins < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            spins += 1;
        }
    }
}
