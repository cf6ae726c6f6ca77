//! Shares the work on an output among the threads of tract's executor, which its user selects.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use tract_core::prelude::multithread::{self, Executor};

use super::even_parts;
use crate::cost;

/// The threads of an executor.
#[derive(Debug, Clone)]
pub(super) struct ExecutorPool(Arc<ThreadPool>);

/// How much work, in picoseconds, is enough for a thread.
pub(super) fn enough_work() -> usize {
    let elements = multithread::current_threading_element_threshold();
    let somebody_waits = WAITING.load(Ordering::Relaxed) > 0;
    // The scale is that of `cost`. No work is never enough.
    cost::ELEMENT.of(if somebody_waits { elements / SHORTER } else { elements }.max(1))
}

/// Work of this part of tract's threshold is enough where a thread waits: to share it takes half of a microsecond then, as nobody is
/// woken up. Networks took 0.995 of the time on two threads, ShuffleNet 0.9 (AMD EPYC, family 25 model 17).
const SHORTER: usize = 4;

/// How many threads wait for jobs.
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread has shared work since [`notes_sharing`] began.
    static SHARED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread must not wait for jobs: it does already, or is within a run.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function, and says whether it shared work among threads.
pub(crate) fn notes_sharing<R>(function: impl FnOnce() -> R) -> (R, bool) {
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

/// Calls a function on a thread of an executor's pool, or of that which the program gave to tract. There tract's operators
/// need not hand their work over and wait for it: runs of networks on two threads took 0.95 of the time, Swin v2 0.8 (AMD EPYC,
/// family 25 model 1).
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
    if let Executor::MultiThread(pool) = &executor
        && pool.current_num_threads() > 1
        && pool.current_thread_index().is_none()
        && !IS_WITHIN.swap(true, Ordering::Acquire)
    {
        let _leave = Leave;
        // tract's scope does not end on unwinding, so a panic goes around it.
        let function = || {
            let was_busy = IS_BUSY.replace(true);
            let result = catch_unwind(AssertUnwindSafe(function));
            IS_BUSY.set(was_busy);
            result
        };
        let result =
            pool.install(|| multithread::multithread_tract_scope(executor.clone(), function));
        return result.unwrap_or_else(|panic| resume_unwind(panic));
    }
    function()
}

impl ExecutorPool {
    /// That of the executor that the program gave to tract, if it has threads.
    pub fn current() -> Option<ExecutorPool> {
        match multithread::current_tract_executor() {
            Executor::MultiThread(pool) => Some(ExecutorPool(pool)),
            _ => None,
        }
    }

    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Fills an output on several threads, the calling one among them: see [`fill_rows`](super::fill_rows).
    ///
    /// If the pool did all the work, Linux might wake two of its threads on one core while the other is idle: then half of the
    /// runs on two cores took as long as on one.
    pub fn fill_rows<T: Send, E: Send>(
        &self,
        threads: usize,
        output: &mut [T],
        row: usize,
        fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        SHARED.set(true);
        // Several parts for each thread, so that a late one finds less to do.
        let part = output.len().div_ceil(row).div_ceil(8 * threads);
        let parts: Vec<_> = output.chunks_mut(part * row).map(|it| Mutex::new(Some(it))).collect();
        // How many parts are left says who gets one more: whoever does finds one.
        let left = AtomicUsize::new(parts.len());
        let helpers = AtomicUsize::new(0);
        let result = Mutex::new(Ok(()));
        let fill_parts = |by: By| {
            let one_less = |left: usize| left.checked_sub(1);
            let thread = match by {
                By::Caller => 0,
                By::Helper => 1 + helpers.fetch_add(1, Ordering::Relaxed),
            };
            let mut order = order_of_parts(parts.len(), thread, threads);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                let take = |number: usize| {
                    let rows = parts[number].lock().expect("taking a part does not panic").take();
                    Some((number, rows?))
                };
                let (number, rows) =
                    order.find_map(take).expect("there is one for each that was counted");
                if let Err(error) = fill(number * part, rows) {
                    left.store(0, Ordering::Relaxed);
                    *result.lock().expect("storing an error does not panic") = Err(error);
                }
            }
        };
        Job::run(&fill_parts, |job| {
            let (address, count) = (Arc::as_ptr(&self.0).addr(), self.threads());
            let waiting = Offers::give(address, job, threads - 1);
            for _ in 1 + waiting..threads {
                let (job, its_pool) = (job.clone(), self.0.clone());
                self.0.spawn(move || match count <= *PROCESSORS {
                    true => job.help_and_wait(address, || {
                        its_pool.yield_now();
                    }),
                    // The processor is for a thread that has work.
                    false => job.help(),
                });
            }
        });
        result.into_inner().expect("storing an error does not panic")
    }
}

/// Parts in the order in which one of some threads takes them, unless another one has taken them. First its own, which follow each other:
/// what a part asks for ahead is for the next one, and of two threads each finds most of what it needs of an operator's output in its own
/// caches. Where the second one began at the end, prompts of language models in half precision took 1.03 times as long; and while the
/// system ran the two on cores that are far apart, 1.1 times, and transformers 1.04 times (AMD EPYC, family 25 model 17). Then come those
/// of the others, the last ones first.
pub(crate) fn order_of_parts(
    parts: usize,
    thread: usize,
    threads: usize,
) -> impl Iterator<Item = usize> {
    // Who is one more than there are has none.
    let own = even_parts(0..parts, threads).nth(thread).unwrap_or_default();
    own.clone().chain((0..parts).rev().filter(move |part| !own.contains(part)))
}

/// Who works on a job.
#[derive(Debug, Clone, Copy)]
enum By {
    Caller,
    Helper,
}

/// What a thread does of a job: all that it can get.
type Work<'w> = dyn Fn(By) + Sync + 'w;

/// Work that a thread does, and other threads with it if they come in time.
struct Job {
    work: *const Work<'static>,
    /// How many threads help; and [`CLOSED`], when none may begin any more.
    helpers: AtomicUsize,
    panicked: AtomicBool,
}

const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: the pointee is `Sync`, and `help` says why it lives long enough.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

impl Job {
    /// Does the work. `spawn` gets the job first, to pass it to threads that will [`help`](Self::help). When this
    /// returns, no thread works on the job any more.
    ///
    /// A scope of the pool would wait until all its jobs have begun: in a busy pool, until other work is done.
    fn run(work: &Work, spawn: impl FnOnce(&Arc<Job>)) {
        // SAFETY: only the lifetime changes. See `help`.
        let work_of_any_life: *const Work<'static> = unsafe { std::mem::transmute(work) };
        let job = Arc::new(Job {
            work: work_of_any_life,
            helpers: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        });
        let close = Close(&job);
        spawn(&job);
        work(By::Caller);
        drop(close);
        assert!(!job.panicked.load(Ordering::Relaxed), "a thread that helped panicked");
    }

    /// Whether nobody may begin any more.
    fn is_closed(&self) -> bool {
        self.helpers.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Works on the job, unless it is done.
    fn help(&self) {
        let begin = |helpers: usize| (helpers & CLOSED == 0).then_some(helpers + 1);
        if self.helpers.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin).is_err() {
            return;
        }
        // SAFETY: `run` has borrowed the work, and does not return before every thread that began has ended,
        // which the counter says below, even after a panic.
        let work = unsafe { &*self.work };
        if catch_unwind(AssertUnwindSafe(|| work(By::Helper))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.helpers.fetch_sub(1, Ordering::Release);
    }

    /// Works on the job, and then on those of the pool that come soon after.
    fn help_and_wait(self: Arc<Job>, pool: usize, meanwhile: impl Fn()) {
        let mut next = Some(self);
        while let Some(job) = next {
            // It may be done already, as this thread had to be woken up. The next one still comes soon.
            job.help();
            // The work of a run that this thread is within does not wait. And what is done meanwhile may end up here again.
            let was_busy = IS_BUSY.replace(true);
            next = if was_busy { None } else { Offers::wait(pool, &meanwhile) };
            IS_BUSY.set(was_busy);
        }
    }
}

/// How often a thread that has helped looks what else its pool has to do, while it waits for the next job. On two threads quantised
/// networks took 0.93 of the time, MobileNetV2 0.89 (Intel Xeon with AMX).
const ROUNDS: usize = 10;

/// How long it waits before.
const ROUND: Duration = Duration::from_micros(10);

/// How many threads the system runs at once.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

/// Jobs for threads that wait, which get them without being woken up. A pool is said by its address.
struct Offers {
    /// For each thread that waits, its pool.
    waiting: Vec<usize>,
    /// Jobs that wait for one of them.
    jobs: Vec<(usize, Arc<Job>)>,
}

static OFFERS: Mutex<Offers> = Mutex::new(Offers { waiting: vec![], jobs: vec![] });

/// Changes with each offer: what threads look at while they wait.
static OFFERED: AtomicUsize = AtomicUsize::new(0);

impl Offers {
    /// Gives a job to threads of a pool that wait and have none yet. How many there were.
    fn give(pool: usize, job: &Arc<Job>, most: usize) -> usize {
        let mut offers = Self::lock();
        offers.jobs.retain(|(_, job)| !job.is_closed());
        let waiting = offers.waiting.iter().filter(|it| **it == pool).count();
        let given = offers.jobs.iter().filter(|(it, _)| *it == pool).count();
        let count = waiting.saturating_sub(given).min(most);
        offers.jobs.extend((0..count).map(|_| (pool, job.clone())));
        drop(offers);
        OFFERED.fetch_add(1, Ordering::Release);
        count
    }

    /// Waits a moment for a job, and does something else now and then. That may be a whole run, which offers jobs itself, so the
    /// thread does not wait meanwhile.
    fn wait(pool: usize, meanwhile: impl Fn()) -> Option<Arc<Job>> {
        for _ in 0..ROUNDS {
            Self::lock().waiting.push(pool);
            WAITING.fetch_add(1, Ordering::Relaxed);
            let started = Instant::now();
            let mut seen = None;
            while started.elapsed() < ROUND {
                let offered = Some(OFFERED.load(Ordering::Acquire));
                if seen != offered {
                    let job = Self::lock().take(pool);
                    if job.is_some() {
                        return job;
                    }
                    seen = offered;
                }
                std::hint::spin_loop();
            }
            let mut offers = Self::lock();
            let job = offers.take(pool);
            if job.is_some() {
                return job;
            }
            offers.leave(pool);
            drop(offers);
            meanwhile();
        }
        None
    }

    /// A job for a thread that waits, which then waits no longer.
    fn take(&mut self, pool: usize) -> Option<Arc<Job>> {
        self.jobs.retain(|(_, job)| !job.is_closed());
        let place = self.jobs.iter().position(|(it, _)| *it == pool)?;
        self.leave(pool);
        Some(self.jobs.swap_remove(place).1)
    }

    fn leave(&mut self, pool: usize) {
        let place = self.waiting.iter().position(|it| *it == pool).expect("it waits");
        self.waiting.swap_remove(place);
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }

    fn lock() -> MutexGuard<'static, Offers> {
        OFFERS.lock().expect("the offers are changed without a panic")
    }
}

/// Closes a job and waits for the threads that help, on unwinding too.
struct Close<'a>(&'a Job);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        /// About a tenth of a millisecond. After that, other threads should get the processor.
        const SPINS: usize = 10_000;
        self.0.helpers.fetch_or(CLOSED, Ordering::Relaxed);
        // They are at their last parts. With sleeping instead, 4096 rows of 1 KiB took 1.15 times as long.
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

#[cfg(test)]
mod tests {
    use super::super::fill_rows;
    use super::*;

    #[test]
    fn threads_take_their_own_parts_first() {
        let order =
            |parts, thread, threads| order_of_parts(parts, thread, threads).collect::<Vec<_>>();
        assert_eq!(order(7, 0, 2), [0, 1, 2, 6, 5, 4, 3]);
        assert_eq!(order(7, 1, 2), [3, 4, 5, 6, 2, 1, 0]);
        assert_eq!(order(7, 1, 3), [2, 3, 6, 5, 4, 1, 0]);
        // One more than there are.
        assert_eq!(order(3, 2, 2), [2, 1, 0]);
        assert_eq!(order(1, 1, 2), [0]);
    }

    #[test]
    fn one_call_at_a_time_is_within_the_pool() {
        let executor = Executor::multithread(2);
        let Executor::MultiThread(pool) = &executor else { panic!("it has threads") };
        let is_within = || pool.current_thread_index().is_some();
        for _ in 0..2 {
            let both = within_pool(Some(&executor), || {
                let other = std::thread::scope(|scope| {
                    let call = || within_pool(Some(&executor), is_within);
                    scope.spawn(call).join().expect("it does not panic")
                });
                let executor = multithread::current_tract_executor();
                (is_within(), other, matches!(executor, Executor::MultiThread(_)))
            });
            assert_eq!(both, (true, false, true));
            // The next one can be, also after a panic, which leaves nothing on the thread.
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                within_pool(Some(&executor), || panic!("a test"));
            }));
            assert!(panicked.is_err());
            let executors = pool.broadcast(|_| multithread::current_tract_executor());
            assert!(executors.iter().all(|it| matches!(it, Executor::SingleThread)));
        }
        let alone = Executor::multithread(1);
        let Executor::MultiThread(pool) = &alone else { panic!("it has a thread") };
        assert!(within_pool(Some(&alone), || pool.current_thread_index().is_none()));
    }

    #[test]
    fn threads_wait_for_jobs_of_their_pool() {
        let work: &Work = &|_| ();
        let (helpers, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
        let job = Arc::new(Job { work, helpers, panicked });
        let meanwhile = Cell::new(0);
        // A thread that does something else gets no jobs.
        let do_else = || {
            meanwhile.set(meanwhile.get() + 1);
            assert_eq!(Offers::give(1, &job, 1), 0);
        };
        assert!(Offers::wait(1, do_else).is_none());
        assert_eq!(meanwhile.get(), ROUNDS);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (0..10_000).find_map(|_| Offers::wait(1, || ())));
            let mut given = (0, 0);
            while given == (0, 0) && !waiter.is_finished() {
                given = (Offers::give(1, &job, 1), Offers::give(2, &job, 1));
            }
            assert_eq!(given, (1, 0));
            let found = waiter.join().expect("it does not panic").expect("it waits until then");
            assert!(Arc::ptr_eq(&found, &job));
            assert_eq!(Offers::give(1, &job, 1), 0);
            // Jobs that are done are not for those who come next.
            let closed = AtomicUsize::new(CLOSED);
            let done = Arc::new(Job { work, helpers: closed, panicked: AtomicBool::new(false) });
            Offers::lock().jobs.extend([(1, done), (1, job.clone())]);
            let next = Offers::wait(1, || ());
            assert!(next.is_some_and(|next| Arc::ptr_eq(&next, &job)));
        });
    }

    #[test]
    fn who_comes_late_waits_for_the_next_job() {
        static HELPED: AtomicUsize = AtomicUsize::new(0);
        let work: &Work = &|_| {
            HELPED.fetch_add(1, Ordering::Relaxed);
        };
        let job = |helpers| {
            let (helpers, panicked) = (AtomicUsize::new(helpers), AtomicBool::new(false));
            Arc::new(Job { work, helpers, panicked })
        };
        let (done, next) = (job(CLOSED), job(0));
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                let has_helped = |_| {
                    done.clone().help_and_wait(3, || ());
                    HELPED.load(Ordering::Relaxed) == 1
                };
                (0..10_000).any(has_helped)
            });
            while Offers::give(3, &next, 1) == 0 && !helper.is_finished() {}
            assert!(helper.join().expect("it does not panic"));
        });
    }

    #[test]
    fn sharing_is_noted() {
        let share = |work: usize| {
            let executor = Executor::multithread(2);
            multithread::multithread_tract_scope(executor, || {
                fill_rows(&mut [0; 64], 1, work, |_, _| Ok::<(), ()>(())).expect("it has no error")
            })
        };
        let much = 4 * enough_work();
        assert!(!notes_sharing(|| share(0)).1);
        assert!(notes_sharing(|| share(much)).1);
        // A run within a run.
        let (inner, outer) = notes_sharing(|| {
            share(much);
            notes_sharing(|| share(0)).1
        });
        assert_eq!((inner, outer), (false, true));
        assert!(!notes_sharing(|| without_noting(|| share(much))).1);
        assert!(notes_sharing(|| [share(much), without_noting(|| share(0))]).1);
    }
}
