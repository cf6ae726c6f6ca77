//! What only a system knows: the time, and numbers that nobody can foresee. `wasm32-unknown-unknown` has no system, and to ask for
//! the time is a panic there: no other file asks.

use std::time::{Duration, Instant};

use jiff::Zoned;

/// Whether there is a system.
const IS_THERE: bool = cfg!(not(all(target_family = "wasm", target_os = "unknown")));

/// The time of now where the program runs, if there is a clock.
pub(crate) fn now() -> Option<Zoned> {
    IS_THERE.then(Zoned::now)
}

/// A seed that is another one each time, if there are random numbers.
pub(crate) fn seed() -> Option<u64> {
    // The crate has no such function where there is no system.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    return Some(rand::random());
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    None
}

/// A clock that has been started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Option<Instant>);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(IS_THERE.then(Instant::now))
    }

    /// The time since then: zero if there is no clock.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |started| started.elapsed())
    }
}
