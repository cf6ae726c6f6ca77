use std::cell::Cell;

use super::Instructions;

thread_local! {
    /// What [`Instructions::detect`] finds in this thread.
    pub static SELECTED: Cell<Option<Instructions>> = const { Cell::new(None) };
}

fn with_each(all: impl IntoIterator<Item = Instructions>, test: impl Fn(Instructions)) {
    for instructions in all {
        SELECTED.set(Some(instructions));
        test(instructions);
        SELECTED.set(None);
    }
}

/// Runs a test with each kind of instructions that the machine has.
pub fn with_all_instructions(test: impl Fn(Instructions)) {
    with_each(Instructions::all(), test);
}

/// Runs a test with each kind of vectors that the machine has: the best instructions of each size.
pub fn with_all_vectors(test: impl Fn()) {
    let all = Instructions::all();
    let size = |it: &Instructions| (it.lanes(), matches!(it, Instructions::Portable(_)));
    let best = all.chunk_by(|a, b| size(a) == size(b)).filter_map(|of_size| of_size.last());
    with_each(best.copied(), |_| test());
}
