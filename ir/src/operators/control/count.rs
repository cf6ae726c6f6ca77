//! A limit for loops: a condition may stay true for ever, and a loop within a loop multiplies the iterations.

use std::cell::Cell;

use tract_core::internal::*;

thread_local! {
    /// The iterations that the outermost of the running loops has had. A body runs on the thread of its loop.
    static ITERATIONS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts the iterations of a loop, and of the loops that it is in.
pub(super) struct Count {
    is_outermost: bool,
}

impl Count {
    pub fn new() -> Count {
        let is_outermost = ITERATIONS.get().is_none();
        if is_outermost {
            ITERATIONS.set(Some(0));
        }
        Count { is_outermost }
    }

    /// Counts another iteration, if there may be so many.
    pub fn next(&self, most: usize) -> TractResult<()> {
        let before = ITERATIONS.get().unwrap_or(0);
        ensure!(
            before < most,
            "a loop has reached {most} iterations, including those of the loops within it: Limits::iterations, or \
             --iterations-limit of the command-line tool, sets this limit"
        );
        ITERATIONS.set(Some(before + 1));
        Ok(())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if self.is_outermost {
            ITERATIONS.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_within_loops_are_counted_together() {
        let outer = Count::new();
        outer.next(3).unwrap();
        {
            let inner = Count::new();
            inner.next(3).unwrap();
        }
        outer.next(3).unwrap();
        Count::new().next(3).unwrap_err();
        drop(outer);
        Count::new().next(3).unwrap();
    }
}
