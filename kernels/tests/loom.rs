//! Jobs and offers of `threads/` with all that two or three threads may do at the same time: loom runs each model in every order of
//! what they have in common, and with every value that an atomic may still have.

#[path = "../src/threads/job.rs"]
mod job;

/// What threads have in common: that of loom.
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub use loom::sync::{Arc, Mutex};
    pub use loom::thread::yield_now;

    pub fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;
use loom::thread::spawn;

use job::{Job, Offers, Work};
use sync::{Arc, AtomicUsize, Ordering, lock, spin_loop};

/// A pool of threads.
const POOL: usize = 7;

/// Runs a model in every order in which threads stop each other so often at most.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Parts of which threads do each once, and nobody may do anything after the job.
struct Parts {
    left: AtomicUsize,
    /// For each part, how often it was done.
    done: Vec<UnsafeCell<usize>>,
    is_over: UnsafeCell<bool>,
    /// How often somebody came who saw that, or for whom loom ended the look, as it was written then. The job catches panics.
    late: std::sync::atomic::AtomicUsize,
}

// SAFETY: loom sees when two threads have a cell at the same time, and ends the test.
unsafe impl Sync for Parts {}

impl Parts {
    fn new(count: usize) -> Parts {
        Parts {
            left: AtomicUsize::new(count),
            done: (0..count).map(|_| UnsafeCell::new(0)).collect(),
            is_over: UnsafeCell::new(false),
            late: Default::default(),
        }
    }

    fn work(&self) {
        self.look();
        let one_less = |left: usize| left.checked_sub(1);
        while let Ok(left) = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
        {
            // SAFETY: as loom looks.
            self.done[left - 1].with_mut(|it| unsafe { *it += 1 });
        }
        self.look();
    }

    fn look(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as loom looks.
        if !self.is_over.with(|it| unsafe { *it }) {
            self.late.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The thread whose job it was has all for itself again.
    fn end(&self) {
        // SAFETY: as loom looks.
        self.is_over.with_mut(|it| unsafe { *it = true });
    }

    /// After the threads have ended.
    fn nobody_was_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) == 0
    }

    fn are_done_once(&self) -> bool {
        // SAFETY: as loom looks.
        self.done.iter().all(|done| done.with(|it| unsafe { *it } == 1))
    }
}

/// Runs a job of some parts; so many threads help with it, if they come in time.
fn run_with_helpers(count: usize, helpers: usize) {
    let parts = Parts::new(count);
    let mut threads = vec![];
    let mut late = None;
    Job::run(&|_| parts.work(), |job| {
        let help = |_| {
            let job = job.clone();
            spawn(move || job.help())
        };
        threads.extend((0..helpers).map(help));
        late = Some(job.clone());
    });
    parts.end();
    assert!(parts.are_done_once());
    late.unwrap().help();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(parts.nobody_was_late());
}

#[test]
fn after_a_run_all_is_done_and_nobody_is_inside() {
    check(3, || run_with_helpers(2, 1));
}

#[test]
fn two_threads_may_help() {
    check(3, || run_with_helpers(2, 2));
}

#[test]
fn a_panic_of_a_helper_is_seen() {
    check(3, || {
        let has_panicked = AtomicUsize::new(0);
        let work = |thread| {
            if thread > 0 {
                has_panicked.store(thread, Ordering::Relaxed);
                resume_unwind(Box::new(()));
            }
        };
        let mut helper = None;
        let run = || {
            Job::run(&work, |job| {
                let job = job.clone();
                helper = Some(spawn(move || job.help()));
            });
        };
        let result = catch_unwind(AssertUnwindSafe(run));
        assert_eq!(result.is_err(), has_panicked.load(Ordering::Relaxed) == 1);
        helper.unwrap().join().unwrap();
    });
}

#[test]
fn after_a_panic_nobody_is_inside() {
    check(3, || {
        let parts = Parts::new(1);
        let work = |thread| match thread {
            0 => resume_unwind(Box::new(())),
            _ => parts.work(),
        };
        let mut helper = None;
        let run = || {
            Job::run(&work, |job| {
                let job = job.clone();
                helper = Some(spawn(move || job.help()));
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        parts.end();
        helper.unwrap().join().unwrap();
        assert!(parts.nobody_was_late());
    });
}

fn job() -> Arc<Job> {
    const WORK: &Work = &|_| ();
    // SAFETY: the work lives for ever.
    Arc::new(unsafe { Job::new(WORK) })
}

/// A thread that waits for a job, but not for long.
fn wait(offers: &Offers) -> Option<Arc<Job>> {
    offers.enter(POOL);
    let mut seen = None;
    (0..2).find_map(|_| offers.look(POOL, &mut seen)).or_else(|| offers.leave(POOL))
}

/// Nobody waits, was asked or has something to do.
fn is_empty(offers: &Offers) -> bool {
    let somebody_waits = offers.somebody_waits();
    let mut lists = lock(&offers.lists);
    let open = lists.open_jobs(POOL);
    !somebody_waits && lists.waiting.is_empty() && lists.asked.is_empty() && open == 0
}

#[test]
fn an_offer_is_for_who_waits_or_was_asked() {
    check(3, || {
        let offers = Arc::new(Offers::default());
        let waiter = spawn({
            let offers = offers.clone();
            move || wait(&offers).is_some()
        });
        let more = offers.give(POOL, &job(), 1, 1);
        let asked = (0..more).map(|_| {
            let offers = offers.clone();
            spawn(move || offers.begin(POOL).is_some())
        });
        let threads: Vec<_> = asked.chain([waiter]).collect();
        let came = threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(()));
        assert_eq!(came.count(), 1);
        assert!(is_empty(&offers));
    });
}

#[test]
fn who_waits_sees_an_offer() {
    check(3, || {
        let offers = Arc::new(Offers::default());
        let waiter = spawn({
            let offers = offers.clone();
            move || {
                offers.enter(POOL);
                let mut seen = None;
                while offers.look(POOL, &mut seen).is_none() {
                    spin_loop();
                }
            }
        });
        offers.give(POOL, &job(), 1, 0);
        waiter.join().unwrap();
        assert!(is_empty(&offers));
    });
}

#[test]
fn a_pool_is_asked_so_often_at_most() {
    check(3, || {
        let offers = Arc::new(Offers::default());
        let share = |offers: &Offers| {
            let job = job();
            let more = offers.give(POOL, &job, 2, 1);
            assert!(lock(&offers.lists).asked.len() <= 1);
            (0..more).for_each(|_| _ = offers.begin(POOL));
            job.close();
        };
        let threads = [(); 2].map(|()| {
            let offers = offers.clone();
            spawn(move || share(&offers))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(is_empty(&offers));
    });
}

#[test]
fn who_waits_and_who_was_asked_help() {
    check(3, || {
        let offers = Arc::new(Offers::default());
        let waiter = spawn({
            let offers = offers.clone();
            move || _ = wait(&offers).map(|job| job.help())
        });
        let parts = Parts::new(1);
        let mut threads = vec![waiter];
        Job::run(&|_| parts.work(), |job| {
            for _ in 0..offers.give(POOL, job, 1, 1) {
                let offers = offers.clone();
                threads.push(spawn(move || _ = offers.begin(POOL).map(|job| job.help())));
            }
        });
        parts.end();
        assert!(parts.are_done_once());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(parts.nobody_was_late());
        assert!(is_empty(&offers));
    });
}
