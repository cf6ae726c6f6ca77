//! Whose panic it is.
//!
//! tract panics at some malformed models all by itself: its readers and its other operators are not what is
//! tested here. Those panics are counted by their place and otherwise taken as errors. A panic is this
//! crate's if one of its functions is among the callers, but for the one that hands over to tract's own
//! readers of ONNX nodes. In the target of the reader of IR, every panic is one of ours.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::{Mutex, Once};

/// The function of this crate that only hands over, when it is the innermost.
const HANDS_OVER: &str = "tract_openvino::onnx::build";

struct Caught {
    place: String,
    is_ours: bool,
}

thread_local! {
    static CAUGHT: RefCell<Option<Caught>> = const { RefCell::new(None) };
    static ALL_ARE_OURS: Cell<bool> = const { Cell::new(false) };
}

/// From now on, every panic is ours. Where the reader is ours, it is what leads to tract's panics, too.
pub fn all_are_ours() {
    ALL_ARE_OURS.set(true);
}

/// What a function gives, in which every panic is ours.
pub fn ours<T>(function: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALL_ARE_OURS.set(self.0);
        }
    }
    install_hook();
    let _before = Before(ALL_ARE_OURS.replace(true));
    function()
}

static OF_TRACT: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// The functions in the backtrace of a panic's hook, from the innermost outside of the hook, as
/// `crate::path`: without the hash that a crate's name may have, like `tract_core[0123456789abcdef]`.
fn functions(trace: &str) -> impl Iterator<Item = String> {
    let numbered = trace.lines().filter_map(|line| line.trim_start().split_once(": "));
    numbered
        .map(|(_, function)| {
            let function = function.trim_start_matches(['<', '&']).trim_start_matches("dyn ");
            match function.split_once('[') {
                Some((name, rest)) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    format!("{name}{}", rest.split_once(']').map_or(rest, |it| it.1))
                }
                _ => function.to_string(),
            }
        })
        .skip_while(|function| !function.starts_with("std::panicking::"))
}

/// Whether the innermost function of this crate is another than [`HANDS_OVER`], or it was the fuzzing itself, or an operator of the
/// kernels.
fn is_ours(trace: &str) -> bool {
    let of_tract = |function: &String| function.starts_with("tract_");
    if functions(trace).find(of_tract).is_none_or(|it| it.starts_with("tract_openvino_fuzz::")) {
        return true;
    }
    if functions(trace).find(of_tract).is_some_and(|it| it.starts_with("tract_openvino_kernels::"))
    {
        return true;
    }
    let innermost = functions(trace).find(|function| function.starts_with("tract_openvino::"));
    innermost.is_some_and(|function| !function.starts_with(HANDS_OVER))
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let trace = Backtrace::force_capture().to_string();
            let is_ours = ALL_ARE_OURS.get() || is_ours(&trace);
            if is_ours {
                eprintln!("{info}\n{trace}");
                previous(info);
            }
            let place = info.location().map_or_else(String::new, place);
            CAUGHT.set(Some(Caught { place, is_ours }));
        }));
    });
}

/// A place in the code, without the folder where this machine keeps sources.
fn place(location: &Location) -> String {
    let file = location.file();
    let file = file.rsplit_once("/src/").map_or(file, |(package, rest)| {
        let package = package.rsplit('/').next().unwrap_or(package).len();
        &file[file.len() - rest.len() - "/src/".len() - package..]
    });
    format!("{file}:{}", location.line())
}

/// What a function gives, or `None` if tract panics in it. A panic of this crate goes through.
pub fn catch<T>(function: impl FnOnce() -> T) -> Option<T> {
    install_hook();
    match panic::catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => Some(result),
        Err(payload) => {
            let caught = CAUGHT.take().expect("the hook has seen every panic");
            if caught.is_ours {
                panic::resume_unwind(payload);
            }
            let mut places = OF_TRACT.lock().unwrap();
            if !places.contains_key(&caught.place) {
                eprintln!("tract panics at {}", caught.place);
            }
            *places.entry(caught.place).or_default() += 1;
            None
        }
    }
}

/// How often tract panicked so far, by the place where.
pub fn of_tract() -> BTreeMap<String, u64> {
    OF_TRACT.lock().unwrap().clone()
}
