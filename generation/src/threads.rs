//! The threads that a model runs on.

use tract_core::internal::*;

#[cfg(feature = "multithread-mm")]
pub(crate) use several::Threads;

/// Those of tract's executor, without the feature for threads.
#[cfg(not(feature = "multithread-mm"))]
#[derive(Debug, Default)]
pub(crate) struct Threads;

#[cfg(not(feature = "multithread-mm"))]
impl Threads {
    pub(crate) fn run<R>(&self, function: impl FnOnce() -> TractResult<R>) -> TractResult<R> {
        function()
    }
}

#[cfg(feature = "multithread-mm")]
mod several {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::OnceLock;

    use tract_core::prelude::multithread::{
        Executor, current_tract_executor, multithread_tract_scope,
    };
    use tract_openvino_kernels::threads::{default_threads, executor};

    use super::*;

    /// A pool of threads, which is made when it is first needed.
    #[derive(Debug, Default)]
    pub(crate) struct Threads {
        /// If nobody has said how many, one for each core, unless the program has given an executor to tract.
        count: Option<usize>,
        pool: OnceLock<Executor>,
    }

    impl Threads {
        /// So many threads.
        ///
        /// # Errors
        ///
        /// There are none, or more than any machine has cores.
        pub(crate) fn new(count: usize) -> TractResult<Threads> {
            let is_possible = (1..=1024).contains(&count);
            ensure!(is_possible, "there are {count} threads, but must be from 1 to 1024");
            Ok(Threads { count: Some(count), pool: OnceLock::new() })
        }

        /// Calls a function, in which tract has these threads.
        ///
        /// # Errors
        ///
        /// The number of threads in the environment is none, or those of the function.
        pub(crate) fn run<R>(&self, function: impl FnOnce() -> TractResult<R>) -> TractResult<R> {
            let is_given = !matches!(current_tract_executor(), Executor::SingleThread);
            if self.count.is_none() && is_given {
                return function();
            }
            let count = self.count.map_or_else(default_threads, Ok)?;
            let pool = self.pool.get_or_init(|| executor(count));
            // tract's scope does not end on unwinding, so a panic goes around it.
            let function = || catch_unwind(AssertUnwindSafe(function));
            multithread_tract_scope(pool.clone(), function)
                .unwrap_or_else(|panic| resume_unwind(panic))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// How many threads tract has.
        fn current() -> TractResult<usize> {
            Ok(match current_tract_executor() {
                Executor::MultiThread(pool) => pool.current_num_threads(),
                _ => 1,
            })
        }

        #[test]
        fn threads_of_the_machine_of_the_program_or_as_many_as_are_asked_for() -> TractResult<()> {
            let threads = Threads::default();
            assert_eq!(threads.run(current)?, default_threads()?);
            multithread_tract_scope(executor(3), || {
                assert_eq!(threads.run(current)?, 3);
                assert_eq!(Threads::new(5)?.run(current)?, 5);
                assert_eq!(Threads::new(1)?.run(current)?, 1);
                TractResult::Ok(())
            })?;
            for count in [0, 1025] {
                let error = Threads::new(count).unwrap_err().to_string();
                assert!(error.contains(&format!("there are {count} threads")), "{error}");
            }
            Ok(())
        }

        #[test]
        fn one_pool() -> TractResult<()> {
            let threads = Threads::new(2)?;
            let pool = || match current_tract_executor() {
                Executor::MultiThread(pool) => Ok(pool),
                _ => bail!("there is no pool"),
            };
            assert!(std::sync::Arc::ptr_eq(&threads.run(pool)?, &threads.run(pool)?));
            Ok(())
        }

        #[test]
        fn a_panic_leaves_the_threads_of_the_program() {
            let panic = || -> TractResult<()> { panic!("in the middle") };
            let run = || Threads::new(2).unwrap().run(panic);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(matches!(current_tract_executor(), Executor::SingleThread));
        }
    }
}
