//! Jobs that threads help with, and offers of them to those that wait.
//!
//! `tests/loom.rs` has this file too, and looks at what threads may do at the same time. So all that they have in common is of
//! `sync`, and nothing here looks at a clock.

#![allow(unsafe_code)]

use std::iter::repeat_n;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, lock, spin_loop, yield_now};

/// What a thread does of a job: all that it can get. It gets a number: that of the thread whose job it is is 0.
pub(super) type Work<'w> = dyn Fn(usize) + Sync + 'w;

/// Work that a thread does, and other threads with it if they come in time.
pub(super) struct Job {
    work: *const Work<'static>,
    /// How many threads help; and [`CLOSED`], when none may begin any more.
    helpers: AtomicUsize,
    /// How many threads have begun.
    begun: AtomicUsize,
    panicked: AtomicBool,
}

const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: the pointee is `Sync`, and `new` says how long it lives.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

impl Job {
    /// # Safety
    ///
    /// The work must live until the job is [closed](Self::close).
    pub unsafe fn new(work: *const Work<'static>) -> Job {
        Job {
            work,
            helpers: AtomicUsize::new(0),
            begun: AtomicUsize::new(1),
            panicked: AtomicBool::new(false),
        }
    }

    /// Does the work. `spawn` gets the job first, to pass it to threads that will [`help`](Self::help). When this
    /// returns, no thread works on the job any more.
    ///
    /// A scope of the pool would wait until all its jobs have begun: in a busy pool, until other work is done.
    pub fn run(work: &Work, spawn: impl FnOnce(&Arc<Job>)) {
        /// Closes a job, on unwinding too.
        struct Close<'a>(&'a Job);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        // SAFETY: only the lifetime changes. It is borrowed until this returns, and the job is closed then, even after a panic.
        let job = Arc::new(unsafe { Job::new(std::mem::transmute::<&Work, &Work<'static>>(work)) });
        let close = Close(&job);
        spawn(&job);
        work(0);
        drop(close);
        assert!(!job.panicked.load(Ordering::Relaxed), "a thread that helped panicked");
    }

    /// Whether nobody may begin any more.
    fn is_closed(&self) -> bool {
        self.helpers.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Works on the job, unless it is done.
    pub fn help(&self) {
        let begin = |helpers: usize| (helpers & CLOSED == 0).then_some(helpers + 1);
        if self.helpers.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin).is_err() {
            return;
        }
        // SAFETY: it lives until the job is closed, for which `close` waits until every thread that began has ended, which the
        // counter says below, even after a panic.
        let work = unsafe { &*self.work };
        let thread = self.begun.fetch_add(1, Ordering::Relaxed);
        if catch_unwind(AssertUnwindSafe(|| work(thread))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.helpers.fetch_sub(1, Ordering::Release);
    }

    /// Lets nobody begin any more, and waits for the threads that help.
    pub fn close(&self) {
        /// About a tenth of a millisecond. After that, other threads should get the processor.
        const SPINS: usize = 10_000;
        self.helpers.fetch_or(CLOSED, Ordering::Relaxed);
        // They are at their last parts: to sleep takes longer.
        let mut spins = 0;
        while self.helpers.load(Ordering::Acquire) != CLOSED {
            if spins < SPINS {
                spin_loop()
            } else {
                yield_now()
            }
            spins += 1;
        }
    }
}

/// Jobs for threads that help. Those that wait get them without being woken up. A pool is said by its address.
#[derive(Default)]
pub(super) struct Offers {
    pub lists: Mutex<Lists>,
    /// Changes with each offer: what threads look at while they wait.
    offered: AtomicUsize,
    /// How many threads wait.
    waiting: AtomicUsize,
}

/// Who waits, and for whom there is what.
#[derive(Default)]
pub(super) struct Lists {
    /// For each thread that waits, its pool.
    pub waiting: Vec<usize>,
    /// For each time that a pool was asked for help, and has not begun it.
    pub asked: Vec<usize>,
    /// For each thread that may help with a job, its pool, and the job.
    jobs: Vec<(usize, Arc<Job>)>,
}

impl Offers {
    /// Whether a thread waits for a job. It may be over when this is said.
    pub fn somebody_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Offers a job to so many threads of a pool. How many times the pool must be asked for help with it: for those that no thread
    /// gets which waits already, or will begin. Of a pool that is busy with something else, not more than `most_asked` begin later.
    pub fn give(&self, pool: usize, job: &Arc<Job>, helpers: usize, most_asked: usize) -> usize {
        let mut lists = lock(&self.lists);
        let count = |pools: &[usize]| pools.iter().filter(|it| **it == pool).count();
        let (waiting, asked) = (count(&lists.waiting), count(&lists.asked));
        let given = lists.open_jobs(pool);
        let come = (waiting + asked).saturating_sub(given);
        let more = helpers.saturating_sub(come).min(most_asked.saturating_sub(asked));
        lists.asked.extend(repeat_n(pool, more));
        lists.jobs.extend(repeat_n((pool, job.clone()), helpers));
        drop(lists);
        self.offered.fetch_add(1, Ordering::Release);
        more
    }

    /// A job for a thread that was asked for help.
    pub fn begin(&self, pool: usize) -> Option<Arc<Job>> {
        let mut lists = lock(&self.lists);
        remove(&mut lists.asked, pool);
        lists.next(pool)
    }

    /// A thread waits from now on.
    pub fn enter(&self, pool: usize) {
        let mut lists = lock(&self.lists);
        lists.waiting.push(pool);
        self.waiting.store(lists.waiting.len(), Ordering::Relaxed);
    }

    /// A job for a thread that waits, which then waits no longer. It has `seen` so much of what was offered, and there is none if
    /// that is all.
    pub fn look(&self, pool: usize, seen: &mut Option<usize>) -> Option<Arc<Job>> {
        let offered = Some(self.offered.load(Ordering::Acquire));
        if *seen == offered {
            return None;
        }
        *seen = offered;
        let mut lists = lock(&self.lists);
        let job = lists.next(pool)?;
        self.wait_no_longer(&mut lists, pool);
        Some(job)
    }

    /// A thread waits no longer. There may be a job for it that it has not seen.
    pub fn leave(&self, pool: usize) -> Option<Arc<Job>> {
        let mut lists = lock(&self.lists);
        self.wait_no_longer(&mut lists, pool);
        lists.next(pool)
    }

    fn wait_no_longer(&self, lists: &mut Lists, pool: usize) {
        remove(&mut lists.waiting, pool);
        self.waiting.store(lists.waiting.len(), Ordering::Relaxed);
    }
}

impl Lists {
    /// How many threads of a pool may help with what is not done.
    pub fn open_jobs(&mut self, pool: usize) -> usize {
        self.remove_closed();
        self.jobs.iter().filter(|(it, _)| *it == pool).count()
    }

    fn next(&mut self, pool: usize) -> Option<Arc<Job>> {
        self.remove_closed();
        let place = self.jobs.iter().position(|(it, _)| *it == pool)?;
        Some(self.jobs.swap_remove(place).1)
    }

    fn remove_closed(&mut self) {
        self.jobs.retain(|(_, job)| !job.is_closed());
    }
}

/// Removes a pool from a list once.
fn remove(pools: &mut Vec<usize>, pool: usize) {
    if let Some(place) = pools.iter().position(|it| *it == pool) {
        pools.swap_remove(place);
    }
}
