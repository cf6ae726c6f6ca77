//! What a pointer that a program holds stands for.
//!
//! Such a pointer leads nowhere: it is a number that no other object had before. So one that was freed, or is of another kind, or comes
//! from elsewhere, is told from one that is good.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// What a program can hold.
pub(crate) trait Object: Any + Send + Sync {
    /// What errors call it.
    const NAME: &'static str;
}

struct Entry {
    object: Arc<dyn Any + Send + Sync>,
    name: &'static str,
}

type Shard = Mutex<HashMap<usize, Entry>>;

/// Threads that use different objects seldom meet in one.
const SHARDS: usize = 16;

/// Numbers are this far from each other, as objects in memory would be, and the first is above what languages take for small
/// numbers.
const STEP: usize = 64;
const FIRST: usize = 1 << 20;

static HANDLES: LazyLock<[Shard; SHARDS]> = LazyLock::new(Default::default);
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

fn shard(number: usize) -> MutexGuard<'static, HashMap<usize, Entry>> {
    HANDLES[number / STEP % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives an object a number.
pub(crate) fn insert<T: Object>(object: Arc<T>) -> usize {
    loop {
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let mut shard = shard(number);
        // With 32 bits they come again after 2²⁶ objects.
        if number >= FIRST && !shard.contains_key(&number) {
            shard.insert(number, Entry { object, name: T::NAME });
            return number;
        }
    }
}

/// The object of a number.
///
/// # Errors
///
/// There is none, or it is of another kind.
pub(crate) fn get<T: Object>(number: usize) -> Result<Arc<T>> {
    if number == 0 {
        return Err(null::<T>());
    }
    match shard(number).get(&number) {
        Some(entry) => entry.object.clone().downcast().map_err(|_| wrong::<T>(entry.name)),
        None => Err(unknown::<T>()),
    }
}

/// The object of a number, which then has none.
///
/// # Errors
///
/// There is none, or it is of another kind: that stays.
pub(crate) fn remove<T: Object>(number: usize) -> Result<Arc<T>> {
    if number == 0 {
        return Err(null::<T>());
    }
    let mut shard = shard(number);
    let Some(entry) = shard.remove(&number) else { return Err(unknown::<T>()) };
    let Entry { object, name } = entry;
    object.downcast().map_err(|object| {
        shard.insert(number, Entry { object, name });
        wrong::<T>(name)
    })
}

fn null<T: Object>() -> Error {
    Error::invalid(format_args!("the pointer to {} is null", T::NAME))
}

fn wrong<T: Object>(name: &str) -> Error {
    Error::invalid(format_args!("the pointer must be to {}, but it is to {name}", T::NAME))
}

fn unknown<T: Object>() -> Error {
    Error::invalid(format_args!(
        "the pointer to {} is to none that there is: it was freed, or never created",
        T::NAME
    ))
}

/// How many objects there are.
#[cfg(test)]
pub(crate) fn count() -> usize {
    (0..SHARDS).map(|number| shard(FIRST + number * STEP).len()).sum()
}
