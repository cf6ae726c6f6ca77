//! Errors: a status and a text.

use std::cell::RefCell;
use std::ffi::CString;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::types::ov_status_e;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What a function of the interface answers if it cannot do what it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Error {
    pub status: ov_status_e,
    pub text: String,
}

impl Error {
    pub fn new(status: ov_status_e, text: impl Display) -> Error {
        Error { status, text: text.to_string() }
    }

    /// An argument that no caller may give.
    pub fn invalid(text: impl Display) -> Error {
        Error::new(ov_status_e::INVALID_C_PARAM, text)
    }

    /// What cannot be done.
    pub fn general(text: impl Display) -> Error {
        Error::new(ov_status_e::GENERAL_ERROR, text)
    }

    pub fn not_implemented(text: impl Display) -> Error {
        Error::new(ov_status_e::NOT_IMPLEMENTED, text)
    }
}

/// An error of the crates below, with all its causes.
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => Error::general(format_args!("{error:#}")),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// The text of the last error of any thread.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

thread_local! {
    /// The text of the last error of this thread.
    static LAST_HERE: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// What was given to this thread last, which stays until it asks again.
    static GIVEN: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Keeps the text of an error for [`last`].
pub(crate) fn keep(error: &Error) {
    let text: Vec<u8> = error.text.bytes().filter(|byte| *byte != 0).collect();
    let Ok(text) = CString::new(text) else { return };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.clone());
    // A thread that ends has none any more.
    let _ = LAST_HERE.try_with(|last| *last.borrow_mut() = Some(text));
}

/// Forgets the error of this thread, and that of any other for threads that have none: what a program does that frees its core.
pub(crate) fn forget() {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let _ = LAST_HERE.try_with(|last| *last.borrow_mut() = None);
}

/// The text of the last error of this thread, or else of any other, if there was one. It stays where it is until this thread asks again.
pub(crate) fn last() -> *const std::ffi::c_char {
    let last = LAST_HERE.try_with(|last| last.borrow().clone()).ok().flatten();
    let last = last.or_else(|| LAST.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let given = GIVEN.try_with(|given| {
        let mut given = given.borrow_mut();
        *given = last;
        given.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
    });
    given.unwrap_or(std::ptr::null())
}
