use super::super::job::Work;
use super::super::{fill_rows, threads_for};
use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn threads_take_their_own_parts_first() {
    let order = |thread: usize| {
        let left = [0..3, 3..5, 5..7].map(PartsOfThread::new);
        std::iter::from_fn(|| next_part(&left, thread)).collect::<Vec<_>>()
    };
    assert_eq!(order(0), [0, 1, 2, 6, 5, 4, 3]);
    assert_eq!(order(1), [3, 4, 6, 5, 2, 1, 0]);
    assert_eq!(order(2), [5, 6, 4, 3, 2, 1, 0]);
    // One that has none.
    assert_eq!(order(3), [6, 5, 4, 3, 2, 1, 0]);
    let left = [0..2, 2..4].map(PartsOfThread::new);
    assert_eq!(
        [0, 1, 1, 1, 0].map(|it| next_part(&left, it)),
        [Some(0), Some(2), Some(3), Some(1), None]
    );
    left.iter().for_each(PartsOfThread::clear);
    assert_eq!(next_part(&left, 0), None);
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
    let of_rayon = within_pool(Some(&Executor::RayonGlobal), rayon::current_thread_index);
    assert_eq!(of_rayon.is_some(), rayon::current_num_threads() > 1);
}

fn job(work: &'static Work) -> Arc<Job> {
    // SAFETY: the work lives for ever.
    Arc::new(unsafe { Job::new(work) })
}

#[test]
fn threads_wait_for_jobs_of_their_pool() {
    let [job, done] = [(); 2].map(|_| job(&|_| ()));
    done.close();
    let meanwhile = Cell::new(0);
    assert!(wait(1, || meanwhile.set(meanwhile.get() + 1)).is_none());
    assert_eq!(meanwhile.get(), ROUNDS);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| (0..10_000).find_map(|_| wait(1, || ())));
        // That of another pool, and one that is done, are not for it.
        assert_eq!(OFFERS.give(2, &job, 1, 0), 0);
        assert_eq!(OFFERS.give(1, &done, 1, 0), 0);
        assert_eq!(OFFERS.give(1, &job, 1, 0), 0);
        let found = waiter.join().expect("it does not panic").expect("it waits until then");
        assert!(Arc::ptr_eq(&found, &job));
    });
    assert!(wait(1, || ()).is_none());
    assert!(wait(2, || ()).is_some());
}

#[test]
fn a_pool_is_asked_for_the_help_that_does_not_come_anyway() {
    let job = job(&|_| ());
    let asked = |helpers| OFFERS.give(4, &job, helpers, 3);
    let begin = || OFFERS.begin(4).is_some();
    OFFERS.enter(4);
    assert_eq!(asked(2), 1);
    // One that waits, and one that was asked, have this job to do. No more than three are asked.
    assert_eq!([asked(1), asked(4), asked(4)], [1, 1, 0]);
    assert!(begin());
    assert_eq!([asked(1), asked(1)], [1, 0]);
    // Who begins late finds what is open.
    job.close();
    assert_eq!([begin(), begin(), begin()], [false; 3]);
    assert_eq!(OFFERS.give(4, &self::job(&|_| ()), 1, 3), 0);
    OFFERS.leave(4);
    assert!(lock(&OFFERS.lists).asked.iter().all(|pool| *pool != 4));
}

#[test]
fn who_comes_late_waits_for_the_next_job() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let next = job(&|_| _ = HELPED.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let has_helped = |_| {
                help(3, true, || ());
                HELPED.load(Ordering::Relaxed) == 1
            };
            (0..10_000).any(has_helped)
        });
        while !lock(&OFFERS.lists).waiting.contains(&3) && !helper.is_finished() {}
        assert_eq!(OFFERS.give(3, &next, 1, 0), 0);
        assert!(helper.join().expect("it does not panic"));
    });
}

fn pool_of(executor: &Executor) -> &Arc<ThreadPool> {
    let Executor::MultiThread(pool) = executor else { panic!("it has threads") };
    pool
}

/// Lets all threads of a pool do something else until what it gives is dropped.
fn keep_busy(pool: &ThreadPool) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel();
    let released = Arc::new(Mutex::new(released));
    let threads = pool.current_num_threads();
    let have_begun = Arc::new(std::sync::Barrier::new(threads + 1));
    for _ in 0..threads {
        let (released, have_begun) = (released.clone(), have_begun.clone());
        pool.spawn(move || {
            have_begun.wait();
            _ = lock(&released).recv();
        });
    }
    have_begun.wait();
    release
}

/// Shares something between two threads, which wait for each other: whether both came.
fn meet(before: impl Fn() + Sync) -> bool {
    let came = AtomicUsize::new(0);
    let started = Instant::now();
    let wait = |_, _: &mut [()]| {
        before();
        came.fetch_add(1, Ordering::Relaxed);
        while came.load(Ordering::Relaxed) < 2 {
            if started.elapsed() > Duration::from_secs(20) {
                return Err(());
            }
            std::thread::yield_now();
        }
        Ok(())
    };
    fill_rows(&mut [(), ()], 1, usize::MAX, wait).is_ok()
}

#[test]
fn a_busy_pool_is_asked_as_often_as_it_has_other_threads() {
    let executor = Executor::multithread(3);
    let pool = pool_of(&executor);
    let release = keep_busy(pool);
    let share = || {
        for _ in 0..100 {
            fill_rows(&mut [0; 64], 1, usize::MAX, |_, _| Ok::<(), ()>(())).expect("no error");
        }
    };
    let before = Arc::strong_count(pool);
    multithread::multithread_tract_scope(executor.clone(), share);
    let address = Arc::as_ptr(pool).addr();
    let asked = || lock(&OFFERS.lists).asked.iter().filter(|it| **it == address).count();
    assert_eq!(asked(), 2);
    // They keep neither the pool nor the jobs.
    assert_eq!((Arc::strong_count(pool), Arc::weak_count(pool)), (before, 2));
    assert_eq!(lock(&OFFERS.lists).open_jobs(address), 0);
    // Who was asked for help with what is done helps with what comes next.
    let released = Mutex::new(Some(release));
    let met = || meet(|| drop(lock(&released).take()));
    assert!(multithread::multithread_tract_scope(executor.clone(), met));
    let started = Instant::now();
    while Arc::weak_count(pool) > 0 && started.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert_eq!((asked(), Arc::weak_count(pool)), (0, 0));
}

#[test]
fn a_run_on_a_thread_of_the_pool_does_not_wait_for_jobs() {
    let executor = Executor::multithread(2);
    let pool = pool_of(&executor);
    let rounds = pool.install(|| {
        let rounds = AtomicUsize::new(0);
        let late = || help(5, true, || _ = rounds.fetch_add(1, Ordering::Relaxed));
        let rounds_of = |run: &dyn Fn()| {
            run();
            rounds.swap(0, Ordering::Relaxed)
        };
        [
            rounds_of(&|| within_pool(Some(&executor), late)),
            rounds_of(&|| notes_sharing(late).0),
            // Elsewhere it does.
            rounds_of(&late),
        ]
    });
    assert_eq!(rounds, [0, 0, ROUNDS]);
}

#[test]
fn after_a_panic_work_is_shared() {
    let thread = std::thread::spawn(|| {
        let _offers = lock(&OFFERS.lists);
        panic!("with the offers");
    });
    thread.join().unwrap_err();
    assert!(OFFERS.lists.is_poisoned());
    assert!(multithread::multithread_tract_scope(Executor::multithread(2), || meet(|| ())));
}

#[test]
fn the_pool_of_rayon_has_threads() {
    let of_rayon = || {
        multithread::multithread_tract_scope(Executor::RayonGlobal, || {
            let threads = threads_for(usize::MAX);
            (threads, threads == 1 || meet(|| ()))
        })
    };
    let all = rayon::current_num_threads();
    assert_eq!(of_rayon(), (all, true));
    let executor = Executor::multithread(3);
    assert_eq!(pool_of(&executor).install(of_rayon), (3, true));
}

#[test]
fn less_work_is_enough_for_a_thread_that_waits() {
    assert_eq!(enough_of(400, true), cost::ELEMENT.of(200));
    assert_eq!(enough_of(400, false), cost::ELEMENT.of(400));
    assert_eq!([enough_of(0, false), enough_of(3, true)], [cost::ELEMENT.of(1); 2]);
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
