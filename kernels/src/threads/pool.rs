//! Shares the work on an output among the threads of tract's executor, which its user selects.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use tract_core::prelude::multithread::{self, Executor};

use super::job::{Job, Offers};
use super::lock;
use crate::cost;

/// How much work, in picoseconds, is enough for a thread.
pub(super) fn enough_work() -> usize {
    enough_of(multithread::current_threading_element_threshold(), OFFERS.somebody_waits())
}

/// The same where so many elements are enough for a thread that must be woken up. No work is never enough.
fn enough_of(elements: usize, somebody_waits: bool) -> usize {
    cost::ELEMENT.of(if somebody_waits { elements / SHORTER } else { elements }.max(1))
}

/// Work of this part of tract's threshold is enough where a thread waits: nobody is woken up, but the data and the output still go from
/// one core to the other.
const SHORTER: usize = 2;

thread_local! {
    /// Whether this thread has shared work since [`notes_sharing`] began.
    static SHARED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread must not wait for jobs: it does already, or is within a run.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as busy, until it is dropped.
struct Busy {
    /// Whether it was before.
    before: bool,
}

impl Busy {
    fn mark() -> Busy {
        Busy { before: IS_BUSY.replace(true) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.set(self.before);
    }
}

/// Calls a function, which is a run, and says whether it shared work among threads.
pub(crate) fn notes_sharing<R>(function: impl FnOnce() -> R) -> (R, bool) {
    let _busy = Busy::mark();
    let before = SHARED.replace(false);
    let result = function();
    let shared = SHARED.get();
    SHARED.set(before || shared);
    (result, shared)
}

/// Calls a function, whose sharing [`notes_sharing`] does not note.
pub(crate) fn without_noting<R>(function: impl FnOnce() -> R) -> R {
    let before = SHARED.get();
    let result = function();
    SHARED.set(before);
    result
}

/// Calls a function, which is a run, on a thread of an executor's pool, or of that which the program gave to tract. There tract's
/// operators need not hand their work over and wait for it.
///
/// One call at a time does so, whatever the pool. The others stay on their threads, which can work as well. It waits for a
/// thread of the pool, as tract's operators do.
pub(crate) fn within_pool<R: Send>(
    executor: Option<&Executor>,
    function: impl FnOnce() -> R + Send,
) -> R {
    static IS_WITHIN: AtomicBool = AtomicBool::new(false);
    /// Lets the next one in, on unwinding too.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            IS_WITHIN.store(false, Ordering::Release);
        }
    }
    let executor = executor.cloned().unwrap_or_else(multithread::current_tract_executor);
    if let Some(pool) = ExecutorPool::of(&executor)
        && pool.threads() > 1
        && !pool.has_this_thread()
        && !IS_WITHIN.swap(true, Ordering::Acquire)
    {
        let _leave = Leave;
        // tract's scope does not end on unwinding, so a panic goes around it.
        let function = || {
            let _busy = Busy::mark();
            catch_unwind(AssertUnwindSafe(function))
        };
        let result =
            pool.install(|| multithread::multithread_tract_scope(executor.clone(), function));
        return result.unwrap_or_else(|panic| resume_unwind(panic));
    }
    let _busy = Busy::mark();
    function()
}

/// The threads of an executor.
#[derive(Debug, Clone)]
pub(super) enum ExecutorPool {
    Own(Arc<ThreadPool>),
    /// Those of the pool that the calling thread belongs to, and of rayon's global one if it belongs to none.
    Global,
}

impl ExecutorPool {
    /// That of the executor that the program gave to tract, if it has threads.
    pub fn current() -> Option<ExecutorPool> {
        ExecutorPool::of(&multithread::current_tract_executor())
    }

    fn of(executor: &Executor) -> Option<ExecutorPool> {
        match executor {
            Executor::SingleThread => None,
            Executor::MultiThread(pool) => Some(ExecutorPool::Own(pool.clone())),
            Executor::RayonGlobal => Some(ExecutorPool::Global),
        }
    }

    pub fn threads(&self) -> usize {
        match self {
            ExecutorPool::Own(pool) => pool.current_num_threads(),
            ExecutorPool::Global => rayon::current_num_threads(),
        }
    }

    fn has_this_thread(&self) -> bool {
        match self {
            ExecutorPool::Own(pool) => pool.current_thread_index().is_some(),
            ExecutorPool::Global => rayon::current_thread_index().is_some(),
        }
    }

    /// Calls a function on one of the threads, and waits for it.
    fn install<R: Send>(&self, function: impl FnOnce() -> R + Send) -> R {
        match self {
            ExecutorPool::Own(pool) => pool.install(function),
            ExecutorPool::Global => rayon::scope(|_| function()),
        }
    }

    fn spawn(&self, function: impl FnOnce() + Send + 'static) {
        match self {
            ExecutorPool::Own(pool) => pool.spawn(function),
            ExecutorPool::Global => rayon::spawn(function),
        }
    }

    /// Its address says which pool it is. It keeps that one from others, but does not keep the pool.
    fn allocation(&self) -> Weak<ThreadPool> {
        match self {
            ExecutorPool::Own(pool) => Arc::downgrade(pool),
            ExecutorPool::Global => Weak::new(),
        }
    }

    /// Fills an output on several threads, the calling one among them: see [`fill_rows`](super::fill_rows). The parts of each thread are
    /// all rows together, in their order.
    ///
    /// If the pool did all the work, Linux might wake two of its threads on one core while the other is idle: then half of the
    /// runs on two cores took as long as on one.
    pub fn fill<T: Send, E: Send>(
        &self,
        mut output: &mut [T],
        row: usize,
        of_threads: Vec<Vec<Range<usize>>>,
        fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        SHARED.set(true);
        let threads = of_threads.len();
        let mut left = Vec::with_capacity(threads);
        let mut parts = Vec::with_capacity(of_threads.iter().map(Vec::len).sum());
        for of_thread in &of_threads {
            left.push(PartsOfThread::new(parts.len()..parts.len() + of_thread.len()));
            for rows in of_thread {
                let size = output.len().min(rows.len() * row);
                let part = output.split_off_mut(..size).expect("the output has so many elements");
                parts.push(Mutex::new(Some((rows.start, part))));
            }
        }
        let result = Mutex::new(Ok(()));
        let fill_parts = |thread: usize| {
            while let Some(part) = next_part(&left, thread) {
                let (first, rows) = lock(&parts[part]).take().expect("a part is taken once");
                if let Err(error) = fill(first, rows) {
                    left.iter().for_each(PartsOfThread::clear);
                    *lock(&result) = Err(error);
                }
            }
        };
        Job::run(&fill_parts, |job| {
            let (allocation, count) = (self.allocation(), self.threads());
            let pool = allocation.as_ptr().addr();
            // On more threads than run at once, the processor is for those that have work.
            let waits = count <= *PROCESSORS;
            for _ in 0..OFFERS.give(pool, job, threads - 1, count - 1) {
                let allocation = allocation.clone();
                self.spawn(move || {
                    help(pool, waits, || _ = rayon::yield_now());
                    drop(allocation);
                });
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers of the parts that are left of those of a thread. They have lines of the cache of their own: others look at them only when
/// they have done theirs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct PartsOfThread(Mutex<Range<usize>>);

impl PartsOfThread {
    pub fn new(parts: Range<usize>) -> PartsOfThread {
        PartsOfThread(Mutex::new(parts))
    }

    fn clear(&self) {
        *lock(&self.0) = 0..0;
    }
}

/// The next part for a thread, which nobody else gets. First come its own, which follow each other: what a part asks for ahead is for the
/// next one, and of two threads each finds most of what it needs of an operator's output in its own caches. Then come those of the others,
/// the last ones first.
pub(crate) fn next_part(left: &[PartsOfThread], thread: usize) -> Option<usize> {
    // Who is one more than there are has none.
    let own = left.get(thread).and_then(|own| lock(&own.0).next());
    own.or_else(|| left.iter().rev().find_map(|others| lock(&others.0).next_back()))
}

/// What a thread of a pool does that was asked for help: a job, and those that come soon after.
fn help(pool: usize, waits: bool, meanwhile: impl Fn()) {
    let mut job = OFFERS.begin(pool);
    loop {
        // It may be done already, as this thread had to be woken up. The next one still comes soon.
        if let Some(job) = job.take() {
            job.help();
        }
        // The work of a run that this thread is within does not wait. And what is done meanwhile may end up here again.
        let busy = Busy::mark();
        if !waits || busy.before {
            return;
        }
        job = wait(pool, &meanwhile);
        if job.is_none() {
            return;
        }
    }
}

/// How often a thread that has helped looks what else its pool has to do, while it waits for the next job.
const ROUNDS: usize = 10;

/// How long it waits before.
const ROUND: Duration = Duration::from_micros(10);

/// How many threads the system runs at once.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

/// Those of all pools.
static OFFERS: LazyLock<Offers> = LazyLock::new(Offers::default);

/// Waits a moment for a job, and does something else now and then. That may be a whole run, which offers jobs itself, so the
/// thread does not wait meanwhile.
fn wait(pool: usize, meanwhile: impl Fn()) -> Option<Arc<Job>> {
    let offers = &*OFFERS;
    for _ in 0..ROUNDS {
        offers.enter(pool);
        let started = Instant::now();
        let mut seen = None;
        while started.elapsed() < ROUND {
            let job = offers.look(pool, &mut seen);
            if job.is_some() {
                return job;
            }
            std::hint::spin_loop();
        }
        let job = offers.leave(pool);
        if job.is_some() {
            return job;
        }
        meanwhile();
    }
    None
}

#[cfg(test)]
mod tests;
