//! What crosses the border to C: arguments, results, memory and panics.
//!
//! The types here are made from what a program passes, by [`FromC`], which only `exports.rs` calls. All else uses them without
//! `unsafe`. It relies on what any C function relies on: a pointer is null, or leads to what its type says, for as long as the
//! headers say; text ends with a 0.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};

use tract_openvino_ir::internal::*;

use crate::error::{self, Error, Result};
use crate::handles::{self, Object};
use crate::types::*;

// Calls.

/// Runs what a function of the interface does. An error is kept for `ov_get_last_err_msg`, and a panic is one, too.
pub(crate) fn status(function: impl FnOnce() -> Result<()>) -> ov_status_e {
    match guarded(function) {
        Ok(()) => ov_status_e::OK,
        Err(error) => {
            error::keep(&error);
            error.status
        }
    }
}

/// As [`status`], for a function that answers something else: `otherwise` after an error.
pub(crate) fn answer<T>(otherwise: T, function: impl FnOnce() -> Result<T>) -> T {
    guarded(function).unwrap_or_else(|error| {
        error::keep(&error);
        otherwise
    })
}

/// Runs a function. A panic becomes an error.
pub(crate) fn guarded<T>(function: impl FnOnce() -> Result<T>) -> Result<T> {
    thread_local! {
        static PLACE: Cell<Option<String>> = const { Cell::new(None) };
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // A panic in here is an error of the function, so it is not printed. Others are none of this library.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                PLACE.set(info.location().map(|it| format!(" at {}:{}", it.file(), it.line())));
            } else {
                before(info);
            }
        }));
    });
    let outside = INSIDE.replace(true);
    // What a panic leaves behind is a lock at most, and no lock is refused for that.
    let result = catch_unwind(AssertUnwindSafe(function));
    INSIDE.set(outside);
    result.unwrap_or_else(|payload| {
        let place = PLACE.take().unwrap_or_default();
        Err(Error::general(format_args!("panic: {}{place}", message(&*payload))))
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(|text| &**text);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

// Arguments.

/// What is made of an argument of a program.
pub(crate) trait FromC<C> {
    /// # Safety
    ///
    /// Pointers in the argument are null or lead to what their types say until the function returns that it is an argument of.
    unsafe fn from_c(argument: C) -> Self;
}

macro_rules! as_it_is {
    ($($type:ty),*) => {
        $(impl FromC<$type> for $type {
            unsafe fn from_c(argument: $type) -> $type {
                argument
            }
        })*
    };
}

as_it_is!(usize, i32, u32, i64, f32, ov_dimension_t, *const c_void);

/// The Rust object behind an opaque type of the headers.
pub(crate) trait Opaque {
    type Object: Object;
}

/// A pointer to an object.
pub(crate) struct Handle<T> {
    number: usize,
    object: PhantomData<fn() -> T>,
}

impl<C: Opaque> FromC<*const C> for Handle<C::Object> {
    unsafe fn from_c(pointer: *const C) -> Self {
        Handle { number: pointer.addr(), object: PhantomData }
    }
}

impl<C: Opaque> FromC<*mut C> for Handle<C::Object> {
    unsafe fn from_c(pointer: *mut C) -> Self {
        Handle { number: pointer.addr(), object: PhantomData }
    }
}

impl<T: Object> Handle<T> {
    /// The object.
    ///
    /// # Errors
    ///
    /// The pointer is null, or leads to no such object.
    pub fn get(&self) -> Result<Arc<T>> {
        handles::get(self.number)
    }

    /// Frees the object. Null is allowed, as for all functions of this kind.
    ///
    /// # Errors
    ///
    /// It was freed already, or is of another kind.
    pub fn free(self) -> Result<Option<Arc<T>>> {
        if self.number == 0 {
            return Ok(None);
        }
        handles::remove(self.number).map(Some)
    }

    pub fn is_null(&self) -> bool {
        self.number == 0
    }
}

/// Frees an object, as [`Handle::free`] does, for functions that free no more.
pub(crate) fn free<T: Object>(object: Handle<T>) -> Result<()> {
    object.free().map(drop)
}

/// Where a pointer to a new object goes.
pub(crate) struct OutHandle<T> {
    out: *mut *mut c_void,
    object: PhantomData<fn(T)>,
}

impl<C: Opaque> FromC<*mut *mut C> for OutHandle<C::Object> {
    unsafe fn from_c(pointer: *mut *mut C) -> Self {
        OutHandle { out: pointer.cast(), object: PhantomData }
    }
}

impl<T: Object> OutHandle<T> {
    /// # Errors
    ///
    /// The pointer is null.
    pub fn check(&self) -> Result<()> {
        not_null(self.out)
    }

    /// # Errors
    ///
    /// The pointer is null.
    pub fn write(&self, object: impl Into<Arc<T>>) -> Result<()> {
        self.check()?;
        let number = handles::insert(object.into());
        // SAFETY: it is not null, and so leads to a pointer, by the contract of `from_c`. It may be uninitialised.
        unsafe { self.out.write(std::ptr::without_provenance_mut(number)) };
        Ok(())
    }
}

fn not_null<T: ?Sized>(pointer: *const T) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::invalid("a pointer to where a result goes is null"));
    }
    Ok(())
}

/// Where a result goes.
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> FromC<*mut T> for Out<T> {
    unsafe fn from_c(pointer: *mut T) -> Self {
        Out(pointer)
    }
}

impl<T: Copy> Out<T> {
    /// # Errors
    ///
    /// The pointer is null.
    pub fn check(&self) -> Result<()> {
        not_null(self.0)
    }

    /// # Errors
    ///
    /// The pointer is null.
    pub fn write(&self, value: T) -> Result<()> {
        self.check()?;
        // SAFETY: it is not null, and so leads to a T, by the contract of `from_c`. It may be uninitialised.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A structure of a program that is looked at and changed.
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> FromC<*mut T> for InOut<T> {
    unsafe fn from_c(pointer: *mut T) -> Self {
        InOut(pointer)
    }
}

impl<T: Copy> InOut<T> {
    /// The structure, if the pointer is not null.
    pub fn read(&self) -> Option<T> {
        // SAFETY: null, or it leads to an initialised T, by the contract of `from_c`.
        unsafe { self.0.as_ref() }.copied()
    }

    /// Changes the structure, if the pointer is not null.
    pub fn write(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and so leads to a T, by the contract of `from_c`.
            unsafe { self.0.write(value) };
        }
    }
}

/// A text, if the pointer to it is not null.
#[derive(Debug, Clone)]
pub(crate) struct Text(Option<Vec<u8>>);

impl FromC<*const c_char> for Text {
    unsafe fn from_c(pointer: *const c_char) -> Self {
        // SAFETY: it is not null, and so leads to a text that ends with 0, by the contract of this function.
        let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
        Text(text.map(|text| text.to_bytes().to_vec()))
    }
}

impl FromC<*const c_void> for Text {
    unsafe fn from_c(pointer: *const c_void) -> Self {
        // SAFETY: as the contract of this function says.
        unsafe { Text::from_c(pointer.cast::<c_char>()) }
    }
}

impl FromC<*const wchar_t> for Text {
    unsafe fn from_c(pointer: *const wchar_t) -> Self {
        let mut characters = vec![];
        if pointer.is_null() {
            return Text(None);
        }
        for position in 0.. {
            // SAFETY: it leads to characters that end with 0, by the contract of this function, and none was 0 so far.
            match unsafe { pointer.add(position).read() } {
                0 => break,
                character => characters.push(character),
            }
        }
        Text(Some(narrow(&characters).into_bytes()))
    }
}

/// The text of wide characters. What is none becomes U+FFFD, which no path has.
#[cfg(not(windows))]
fn narrow(characters: &[wchar_t]) -> String {
    let character = |it: &wchar_t| u32::try_from(*it).ok().and_then(char::from_u32);
    characters.iter().map(|it| character(it).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(windows)]
fn narrow(characters: &[wchar_t]) -> String {
    String::from_utf16_lossy(characters)
}

impl Text {
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// The text. `what` it is begins an error.
    ///
    /// # Errors
    ///
    /// The pointer is null, or the text is not in UTF-8.
    pub fn get(&self, what: &str) -> Result<&str> {
        let bytes = self.0.as_deref();
        let bytes = bytes.ok_or_else(|| Error::invalid(format_args!("the {what} is null")))?;
        let is_not = |_| Error::general(format_args!("the {what} is not in UTF-8"));
        std::str::from_utf8(bytes).map_err(is_not)
    }

    /// The text, unless the pointer is null.
    ///
    /// # Errors
    ///
    /// The text is not in UTF-8.
    pub fn optional(&self, what: &str) -> Result<Option<&str>> {
        if self.is_null() { Ok(None) } else { self.get(what).map(Some) }
    }

    /// The path that the text is. On systems whose paths are bytes, it may be any.
    ///
    /// # Errors
    ///
    /// The pointer is null, or the text cannot be a path.
    pub fn path(&self, what: &str) -> Result<PathBuf> {
        #[cfg(unix)]
        if let Some(bytes) = &self.0 {
            use std::os::unix::ffi::OsStrExt;
            return Ok(std::ffi::OsStr::from_bytes(bytes).into());
        }
        self.get(what).map(PathBuf::from)
    }
}

/// Bytes, if the pointer to them is not null.
pub(crate) struct Bytes {
    pointer: *const u8,
    len: usize,
}

impl FromC<(*const c_char, usize)> for Bytes {
    unsafe fn from_c((pointer, len): (*const c_char, usize)) -> Self {
        Bytes { pointer: pointer.cast(), len }
    }
}

impl Bytes {
    /// The bytes, which stay until the call ends.
    ///
    /// # Errors
    ///
    /// The pointer is null, or there are too many.
    pub fn get(&self, what: &str) -> Result<&[u8]> {
        if self.pointer.is_null() {
            return Err(Error::invalid(format_args!("the {what} is null")));
        }
        if isize::try_from(self.len).is_err() {
            return Err(Error::invalid(format_args!("the {what} has {} bytes", self.len)));
        }
        // SAFETY: it leads to so many bytes, by the contract of `from_c`, and the size is none that no memory has.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, self.len) })
    }
}

/// A list of arguments, if the pointer to it is not null.
pub(crate) struct List<T>(Option<Vec<T>>);

/// More entries than any list has that a program passes: a number above it is a mistake.
const MOST_ENTRIES: usize = 1 << 24;

impl<C: Copy, T: FromC<C>> FromC<(*const C, usize)> for List<T> {
    unsafe fn from_c((pointer, count): (*const C, usize)) -> Self {
        if pointer.is_null() || count > MOST_ENTRIES {
            return List(None);
        }
        // SAFETY: it leads to so many entries, by the contract of this function, and these are arguments, too.
        let entry = |position| unsafe { T::from_c(pointer.add(position).read()) };
        List(Some((0..count).map(entry).collect()))
    }
}

impl<T> List<T> {
    /// The entries.
    ///
    /// # Errors
    ///
    /// The pointer is null, or there would be more than memory has.
    pub fn get(&self, what: &str) -> Result<&[T]> {
        let null = || Error::invalid(format_args!("the list of {what} is null or too long"));
        self.0.as_deref().ok_or_else(null)
    }
}

/// A property: its key and its value.
pub(crate) struct Property {
    pub key: Text,
    pub value: PropertyValue,
}

pub(crate) enum PropertyValue {
    Text(Text),
    /// A pointer to something that only its key says.
    Other,
}

/// The keys of properties whose values are no texts.
const OTHER_VALUES: [&[u8]; 6] = [
    b"CACHE_ENCRYPTION_CALLBACKS",
    b"OCL_CONTEXT",
    b"OCL_QUEUE",
    b"VA_DEVICE",
    b"MEM_HANDLE",
    b"DEV_OBJECT_HANDLE",
];

impl FromC<ov_property_t> for Property {
    unsafe fn from_c(property: ov_property_t) -> Self {
        // SAFETY: as the contract of this function says.
        let key = unsafe { Text::from_c(property.key) };
        let is_text = !key.0.as_deref().is_some_and(|key| OTHER_VALUES.contains(&key));
        // SAFETY: its key says that it leads to a text, or it is null.
        let value = is_text.then(|| unsafe { Text::from_c(property.value) });
        Property { key, value: value.map_or(PropertyValue::Other, PropertyValue::Text) }
    }
}

/// The sizes of a shape, as a program gives them.
#[derive(Debug, Clone)]
pub(crate) struct RawShape {
    pub rank: i64,
    /// None if there are none in memory.
    pub dims: Option<Vec<i64>>,
}

/// The dimensions of a partial shape, as a program gives them.
#[derive(Debug, Clone)]
pub(crate) struct RawPartialShape {
    pub rank: ov_rank_t,
    /// None if there are none in memory.
    pub dims: Option<Vec<ov_dimension_t>>,
}

/// More axes than any tensor has. A rank above it is a mistake, and nothing is read.
const MOST_AXES: i64 = 1 << 10;

/// So many entries, if the pointer is not null and the number that of a rank.
///
/// # Safety
///
/// The pointer is null, or leads to so many entries if their number is that of a rank.
unsafe fn axes<T: Copy>(pointer: *const T, rank: i64) -> Option<Vec<T>> {
    match rank {
        0 => Some(vec![]),
        // SAFETY: it is not null, so that it leads to so many entries, which are no more than memory has.
        1..=MOST_AXES if !pointer.is_null() => {
            Some(unsafe { std::slice::from_raw_parts(pointer, rank as usize) }.to_vec())
        }
        _ => None,
    }
}

impl FromC<ov_shape_t> for RawShape {
    unsafe fn from_c(shape: ov_shape_t) -> Self {
        // SAFETY: as the contract of this function says.
        RawShape { rank: shape.rank, dims: unsafe { axes(shape.dims, shape.rank) } }
    }
}

impl FromC<(i64, *const i64)> for RawShape {
    unsafe fn from_c((rank, dims): (i64, *const i64)) -> Self {
        // SAFETY: as the contract of this function says.
        RawShape { rank, dims: unsafe { axes(dims, rank) } }
    }
}

impl FromC<ov_partial_shape_t> for RawPartialShape {
    unsafe fn from_c(shape: ov_partial_shape_t) -> Self {
        // SAFETY: as the contract of this function says.
        unsafe { RawPartialShape::from_c((shape.rank, shape.dims.cast_const())) }
    }
}

impl FromC<(ov_rank_t, *const ov_dimension_t)> for RawPartialShape {
    unsafe fn from_c((rank, dims): (ov_rank_t, *const ov_dimension_t)) -> Self {
        // Only a rank that is known has dimensions.
        let count = if rank.min == rank.max { rank.max } else { -1 };
        // SAFETY: as the contract of this function says.
        RawPartialShape { rank, dims: unsafe { axes(dims, count) } }
    }
}

impl FromC<(i64, *const ov_dimension_t)> for RawPartialShape {
    unsafe fn from_c((rank, dims): (i64, *const ov_dimension_t)) -> Self {
        // SAFETY: as the contract of this function says.
        unsafe { RawPartialShape::from_c((ov_rank_t { min: rank, max: rank }, dims)) }
    }
}

/// A function of a program that is called when an inference ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callback {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
}

// SAFETY: the interface calls it from another thread, with this argument: the program must allow that.
unsafe impl Send for Callback {}

impl FromC<*const ov_callback_t> for Option<Callback> {
    unsafe fn from_c(pointer: *const ov_callback_t) -> Self {
        // SAFETY: null, or it leads to a callback, by the contract of this function.
        let callback = unsafe { pointer.as_ref() }?;
        Some(Callback { function: callback.callback_func, argument: callback.args })
    }
}

impl Callback {
    pub fn call(self) {
        if let Some(function) = self.function {
            // SAFETY: the program gave both for this call.
            unsafe { function(self.argument) };
        }
    }
}

// Results in memory that the program gives back.

/// Memory of a result, and that of what it leads to.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
    _parts: Vec<Block>,
}

// SAFETY: it owns its memory.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `of` has allocated it with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Block {
    fn of<T: Copy>(items: &[T], parts: Vec<Block>) -> Result<Block> {
        let layout = Layout::for_value(items);
        // Something is there also for no items.
        let layout = Layout::from_size_align(layout.size().max(1), layout.align());
        let layout = layout.map_err(Error::general)?;
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) });
        let start = start.ok_or_else(|| Error::general("there is no memory for a result"))?;
        // SAFETY: there is room for them, and T is copied as bytes are.
        unsafe { start.cast::<T>().as_ptr().copy_from(items.as_ptr(), items.len()) };
        Ok(Block { start, layout, _parts: parts })
    }

    fn text(text: &str) -> Result<Block> {
        let mut bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
        bytes.push(0);
        Block::of(&bytes, vec![])
    }

    fn pointer<T>(&self) -> *mut T {
        self.start.as_ptr().cast()
    }
}

/// What programs have and must give back, by its address.
static GIVEN: LazyLock<Mutex<HashMap<usize, Block>>> = LazyLock::new(Mutex::default);

fn give<T>(block: Block) -> *mut T {
    let pointer = block.pointer();
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(block.start.addr().get(), block);
    pointer
}

/// Gives a program a text.
///
/// # Errors
///
/// There is no memory.
pub(crate) fn give_text(text: &str) -> Result<*mut c_char> {
    Block::text(text).map(give)
}

/// Gives a program numbers.
///
/// # Errors
///
/// There is no memory.
pub(crate) fn give_items<T: Copy>(items: &[T]) -> Result<*mut T> {
    Block::of(items, vec![]).map(give)
}

/// Gives a program structures that lead to texts: `item` makes one of the pointers to those that it has.
///
/// # Errors
///
/// There is no memory.
pub(crate) fn give_structures<T: Copy, const TEXTS: usize>(
    texts: &[[&str; TEXTS]],
    item: impl Fn(usize, [*mut c_char; TEXTS]) -> T,
) -> Result<*mut T> {
    let (mut items, mut parts) = (vec![], vec![]);
    for (number, texts) in texts.iter().enumerate() {
        let blocks = texts.iter().map(|text| Block::text(text)).collect::<Result<Vec<_>>>()?;
        let mut pointers = [std::ptr::null_mut(); TEXTS];
        for (pointer, block) in pointers.iter_mut().zip(&blocks) {
            *pointer = block.pointer();
        }
        items.push(item(number, pointers));
        parts.extend(blocks);
    }
    Block::of(&items, parts).map(give)
}

/// Frees what a program gives back. What was not given to it, or is no longer, is left alone.
pub(crate) fn take_back<T>(pointer: *const T) {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&pointer.addr());
}

/// How many results programs have.
#[cfg(test)]
pub(crate) fn count_given() -> usize {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).len()
}

// The memory of tensors.

/// Memory of a program for the elements of a tensor.
pub(crate) struct HostPointer(*mut c_void);

impl FromC<*mut c_void> for HostPointer {
    unsafe fn from_c(pointer: *mut c_void) -> Self {
        HostPointer(pointer)
    }
}

/// The memory of a tensor: that of a program, or of a tensor of tract, which programs then see.
///
/// Programs read and write it at any time, through the address that they are given. It is theirs to do neither while an inference
/// uses it, as the interface says.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    /// None if it is memory of the program.
    owner: Option<Arc<Tensor>>,
}

// SAFETY: it is memory alone: who uses it when is for the program to say.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

/// Where tensors without elements are: nothing is read there.
const NOWHERE: NonNull<u8> = NonNull::without_provenance(std::num::NonZero::new(64).unwrap());

impl Memory {
    /// Memory of a program with so many bytes.
    ///
    /// # Errors
    ///
    /// The pointer is null.
    pub fn of_host(pointer: &HostPointer, bytes: usize) -> Result<Memory> {
        let start = NonNull::new(pointer.0.cast());
        let start = start.ok_or_else(|| Error::invalid("the pointer to memory is null"))?;
        Ok(Memory { start, bytes, owner: None })
    }

    /// The memory of a tensor of tract, whose elements may have any bits: numbers.
    ///
    /// # Panics
    ///
    /// If the elements are none.
    pub fn of_tensor(mut tensor: Tensor) -> Memory {
        let datum_type = tensor.datum_type();
        assert!(datum_type.is_copy() && !datum_type.is_tdim(), "{datum_type:?} is no number");
        let bytes = tensor.as_bytes_mut();
        let len = bytes.len();
        let start = NonNull::new(bytes.as_mut_ptr()).filter(|_| len > 0).unwrap_or(NOWHERE);
        Memory { start, bytes: len, owner: Some(Arc::new(tensor)) }
    }

    /// Where it is.
    pub fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_of_host(&self) -> bool {
        self.owner.is_none()
    }

    /// The tensor of tract that has this memory.
    pub fn owner(&self) -> Option<&Arc<Tensor>> {
        self.owner.as_ref()
    }

    /// Gives the tensor of tract that has it a shape with as many elements, if nothing else has that tensor.
    pub fn reshape(&mut self, shape: &[usize]) {
        let owner = self.owner.as_mut().and_then(Arc::get_mut);
        if let Some(owner) = owner.filter(|owner| shape.iter().product::<usize>() == owner.len()) {
            // It is checked above.
            let _ = owner.set_shape(shape);
        }
    }

    /// Writes bytes at its beginning.
    ///
    /// # Panics
    ///
    /// If it has less.
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes);
        // SAFETY: there is room for them. They may be the same memory.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.start.as_ptr(), bytes.len()) };
    }

    /// A copy of its first bytes, as a tensor of tract. Booleans become 0 or 1.
    ///
    /// # Errors
    ///
    /// There are less bytes than such a tensor has, or no memory for these.
    pub fn to_tensor(&self, datum_type: DatumType, shape: &[usize]) -> Result<Tensor> {
        let is_plain = datum_type.is_copy() && !datum_type.is_tdim();
        // SAFETY: all bytes are written below before it is used.
        let mut tensor = unsafe { Tensor::uninitialized_dt(datum_type, shape) }?;
        let bytes = tensor.as_bytes_mut();
        if !is_plain || bytes.len() > self.bytes {
            let text =
                format_args!("{} bytes are no {datum_type:?} of shape {shape:?}", self.bytes);
            return Err(Error::general(text));
        }
        // SAFETY: there are as many, and the tensor is new.
        unsafe { bytes.as_mut_ptr().copy_from(self.start.as_ptr(), bytes.len()) };
        if datum_type == DatumType::Bool {
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(tensor)
    }

    /// A copy of its first bytes.
    pub fn to_bytes(&self, bytes: usize) -> Arc<[u8]> {
        assert!(bytes <= self.bytes);
        // SAFETY: there are so many.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), bytes) }.into()
    }
}

/// A text as the C++ library of GNU has it, which is where OpenVINO's programs find the texts of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct CxxString {
    start: *const u8,
    len: usize,
    /// A short text is here, with a 0 at its end; of a long one the room that it has.
    buffer: [u8; 16],
}

/// What one text takes in the memory of a tensor, as OpenVINO counts it.
pub(crate) const STRING_BYTES: usize = size_of::<CxxString>();

/// Texts as programs read them: they must not write there.
pub(crate) struct CxxStrings {
    strings: Block,
    _long: Vec<Box<[u8]>>,
}

impl std::fmt::Debug for CxxStrings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CxxStrings").field(&self.strings.start).finish()
    }
}

impl CxxStrings {
    /// # Errors
    ///
    /// There is no memory.
    pub fn of(texts: &[String]) -> Result<CxxStrings> {
        let empty = CxxString { start: std::ptr::null(), len: 0, buffer: [0; 16] };
        let strings = Block::of(&vec![empty; texts.len()], vec![])?;
        let mut long = vec![];
        for (number, text) in texts.iter().enumerate() {
            // SAFETY: there are as many in the block as there are texts, and nothing else refers to them yet.
            let string = unsafe { &mut *strings.pointer::<CxxString>().add(number) };
            string.len = text.len();
            if text.len() < string.buffer.len() {
                string.buffer[..text.len()].copy_from_slice(text.as_bytes());
                string.start = string.buffer.as_ptr();
            } else {
                let with_end = [text.as_bytes(), &[0]].concat().into_boxed_slice();
                string.start = with_end.as_ptr();
                string.buffer[..size_of::<usize>()].copy_from_slice(&text.len().to_ne_bytes());
                long.push(with_end);
            }
        }
        Ok(CxxStrings { strings, _long: long })
    }

    /// Where they are.
    pub fn address(&self) -> *mut c_void {
        self.strings.pointer()
    }
}
