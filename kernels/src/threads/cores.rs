//! How many threads a program gives to tract.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};

use tract_core::internal::*;
use tract_core::prelude::multithread::{Executor, set_default_executor};

/// The environment variable with the number of threads, for programs that ask [`default_threads`].
pub const THREADS_VARIABLE: &str = "TRACT_OPENVINO_THREADS";

/// How many threads a program gives to tract if its user says nothing else: the number in the environment variable
/// [`THREADS_VARIABLE`], or one for each core that this process may use. Two logical processors of a core are one: they share
/// its vector units.
///
/// # Errors
///
/// The variable is there, and is no number of 1 or more.
pub fn default_threads() -> TractResult<usize> {
    let Some(text) = std::env::var_os(THREADS_VARIABLE) else { return Ok(cores()) };
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.with_context(|| {
        format!("{THREADS_VARIABLE} is {text:?}, but must be a number of threads, 1 or more")
    })
}

/// Gives tract [`default_threads`], for all models that run from now on: those of this crate's operators and of tract's own.
///
/// # Errors
///
/// Those of [`default_threads`].
pub fn use_all_cores() -> TractResult<()> {
    set_default_executor(executor(default_threads()?));
    Ok(())
}

/// An executor of so many threads, for `multithread_tract_scope` and `set_default_executor` of tract.
pub fn executor(threads: usize) -> Executor {
    match threads {
        0 | 1 => Executor::SingleThread,
        threads => Executor::multithread(threads),
    }
}

/// The cores that this process may use.
fn cores() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    physical_cores().map_or(processors, |cores| cores.min(processors))
}

/// The cores of the machine, if its system says which logical processors share one. Linux does.
fn physical_cores() -> Option<usize> {
    let processors = read_dir("/sys/devices/system/cpu").ok()?.filter_map(Result::ok);
    let siblings = processors.filter_map(|processor| {
        read_to_string(processor.path().join("topology/thread_siblings_list")).ok()
    });
    let cores: BTreeSet<String> = siblings.collect();
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_thread_for_each_core() {
        let processors = std::thread::available_parallelism().unwrap().get();
        assert!((1..=processors).contains(&cores()));
        assert!(matches!(executor(1), Executor::SingleThread));
        let Executor::MultiThread(pool) = executor(3) else { panic!("there is no pool") };
        assert_eq!(pool.current_num_threads(), 3);
    }
}
