//! Stands in for `pool.rs` without the feature for threads.

use std::ops::Range;

use tract_core::prelude::multithread::Executor;

/// There is none.
#[derive(Debug, Clone)]
pub(super) enum ExecutorPool {}

impl ExecutorPool {
    pub fn current() -> Option<ExecutorPool> {
        None
    }

    pub fn threads(&self) -> usize {
        match *self {}
    }

    pub fn fill<T: Send, E: Send>(
        &self,
        _output: &mut [T],
        _row: usize,
        _of_threads: Vec<Vec<Range<usize>>>,
        _fill: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        match *self {}
    }
}

/// No work is enough for a second thread.
pub(super) fn enough_work() -> usize {
    usize::MAX
}

/// Calls a function, and says whether it shared work among threads.
pub(crate) fn notes_sharing<R>(function: impl FnOnce() -> R) -> (R, bool) {
    (function(), false)
}

/// Calls a function.
pub(crate) fn without_noting<R>(function: impl FnOnce() -> R) -> R {
    function()
}

/// Calls a function.
pub(crate) fn within_pool<R>(_executor: Option<&Executor>, function: impl FnOnce() -> R) -> R {
    function()
}
