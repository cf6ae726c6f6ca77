//! Memory of outputs, and what a thread uses again. It is not filled with zeros before it is written.

use std::cell::RefCell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Once;

use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use tract_core::internal::*;
use tract_core::tract_data::internal::vector_size;

use crate::checks::{check_volume, ensure_allocatable, volume};
use crate::cost;
use crate::threads::fill_rows;

/// A line of the cache, in bytes: the longest vector of a processor, too.
pub(crate) const LINE: usize = 64;

/// How many elements of type F32 a line has. Threads share whole lines.
pub(crate) const FLOATS_OF_LINE: usize = LINE / size_of::<f32>();

/// Asks for a line of the cache, if the machine can.
///
/// It comes into the second-level cache: the first one waits for too few lines at once. To ask for them there took 1.4 times as long for
/// codes of 16 bits, and 2.3 times for those of 8 (AMD EPYC, family 25 model 17).
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all such processors have the instruction, which reads nothing that the program could see, wherever the place is.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks for a line that the second-level cache has, for the first one.
#[inline(always)]
#[allow(unsafe_code)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefetch_first(place: *const u8) {
    // SAFETY: as for `prefetch`.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
}

/// How far ahead bytes that are read once are asked for. A quarter of it takes up to twice the time where they come from memory (AMD
/// EPYC, family 26 model 2).
const AHEAD: usize = 1 << 13;

/// Prefetches lines of bytes that are read in turn: far ahead, and again when they are nearer.
///
/// A machine that waits for as many lines as it can forgets what else it is asked for. Products of one row and codes of 16 bits took 1.3
/// times as long where each line was asked for once (AMD EPYC, family 25 model 17).
#[derive(Debug)]
pub(crate) struct StreamPrefetch {
    far: *const u8,
    /// How many bytes nearer lines are when they are asked for again.
    nearer: usize,
}

impl StreamPrefetch {
    /// For bytes that are read in turn, the first one `bytes` after a place.
    #[inline(always)]
    pub fn behind(place: *const u8, bytes: usize) -> StreamPrefetch {
        StreamPrefetch::new(place, bytes + AHEAD, AHEAD / 2)
    }

    /// For what is at this distance behind a place that is read next, and again so many bytes nearer.
    #[inline(always)]
    pub fn new(place: *const u8, distance: usize, nearer: usize) -> StreamPrefetch {
        StreamPrefetch { far: place.wrapping_add(distance), nearer }
    }

    /// Asks for as many bytes as are read now.
    #[inline(always)]
    pub fn ask(&mut self, bytes: usize) {
        for line in (0..bytes).step_by(LINE) {
            let far = self.far.wrapping_add(line);
            prefetch(far);
            prefetch(far.wrapping_sub(self.nearer));
        }
        self.far = self.far.wrapping_add(bytes);
    }
}

/// Elements that begin with a line of the cache, so that no vector of theirs lies in two of them. Products of one
/// took 1.1 times as long, and tiles of codes twice as long, where each did (Intel Xeon with AVX-512 and AMX).
#[derive(Debug, Default)]
pub(crate) struct Aligned<T> {
    memory: Vec<T>,
    begin: usize,
    count: usize,
}

impl<T: Pod> Aligned<T> {
    /// So many elements, all of this value.
    pub fn new(value: T, count: usize) -> Aligned<T> {
        let mut aligned = Aligned::unwritten(count);
        aligned.fill(value);
        aligned
    }

    /// So many elements with any values: what the memory has.
    pub fn unwritten(count: usize) -> Aligned<T> {
        let mut aligned = Aligned { memory: vec![], begin: 0, count: 0 };
        aligned.resize(count);
        aligned
    }

    /// Makes it so many elements. They have any values.
    pub fn resize(&mut self, count: usize) {
        if self.room() < count {
            let most = LINE / size_of::<T>().max(1);
            // Old values need not move.
            self.memory = vec![];
            let mut memory: Vec<T> = vec![];
            if count * size_of::<T>() < MOST_BYTES_KEPT {
                // Packed weights often have the size of others that were freed, and that began with a line. There is no room for more.
                memory = Vec::with_capacity(count);
            }
            if memory.as_ptr().align_offset(LINE) > 0 || memory.capacity() < count {
                drop(memory);
                memory = Vec::with_capacity(count + most);
            }
            self.begin = memory.as_ptr().align_offset(LINE).min(most);
            self.memory = unwritten(memory, self.begin + count);
            ask_for_large_pages(cast_slice_mut::<T, u8>(&mut self.memory));
        }
        self.count = count;
    }

    /// How many elements there may be without new memory.
    fn room(&self) -> usize {
        self.memory.len() - self.begin
    }
}

/// So many elements with any values, in memory that is large enough. With zeros, which are written twice where the memory is not new,
/// networks of convolutions took 1.05 of the time to be ready (Intel Xeon, family 6 model 167).
#[allow(unsafe_code)]
fn unwritten<T: Pod>(mut memory: Vec<T>, count: usize) -> Vec<T> {
    assert!(count <= memory.capacity());
    // SAFETY: there is memory for so many elements, it is given some bytes, and any bytes are such elements.
    unsafe {
        write_unknown(memory.as_mut_ptr().cast(), count * size_of::<T>());
        memory.set_len(count);
    }
    if cfg!(debug_assertions) {
        // Whoever reads what he has not written notices: such floats are NaN.
        cast_slice_mut::<T, u8>(&mut memory).fill(u8::MAX);
    }
    memory
}

impl<T: PartialEq> PartialEq for Aligned<T> {
    fn eq(&self, other: &Aligned<T>) -> bool {
        **self == **other
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[self.begin..][..self.count]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.begin..][..self.count]
    }
}

thread_local! {
    /// What this thread may use again.
    static KEPT: RefCell<Vec<Aligned<f32>>> = const { RefCell::new(vec![]) };
}

/// More, in elements, is rarely needed at once, and then seldom.
const MOST: usize = 1 << 24;

/// The most elements that a thread keeps.
const MOST_KEPT: usize = 2 * MOST;

/// Numbers that are needed for a while. They have old values.
///
/// The thread keeps the memory: the system fills new memory with zeros.
#[derive(Debug)]
pub(crate) struct Scratch<T = f32>(Aligned<f32>, PhantomData<T>);

impl Scratch {
    /// So many numbers.
    pub fn new(count: usize) -> Scratch {
        Scratch::of(count)
    }

    /// Numbers of at least so many bytes.
    pub fn of_bytes(count: usize) -> Scratch {
        Scratch::of(count.div_ceil(size_of::<f32>()))
    }

    pub fn bytes(&self) -> &[u8] {
        cast_slice(self)
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(self)
    }
}

impl<T> Scratch<T> {
    /// So many elements, which have the size of numbers.
    pub fn of(count: usize) -> Scratch<T> {
        const { assert!(size_of::<T>() == size_of::<f32>()) };
        if count == 0 {
            return Scratch(Aligned::default(), PhantomData);
        }
        let mut memory = KEPT.with_borrow_mut(|kept| {
            // The smallest that is large enough, or the largest, which grows.
            let lack_and_size = |it: &Aligned<f32>| (it.room() < count, it.room().abs_diff(count));
            let best = (0..kept.len()).min_by_key(|number| lack_and_size(&kept[*number]));
            best.map_or_else(Aligned::default, |number| kept.remove(number))
        });
        memory.resize(count);
        if cfg!(debug_assertions) {
            // Whoever reads what he has not written notices.
            memory.fill(f32::NAN);
        }
        Scratch(memory, PhantomData)
    }
}

impl<T> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        Scratch::of(0)
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        if (1..=MOST).contains(&memory.room()) {
            // At the end of a thread there may be nothing to keep it in.
            let _ = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                kept.push(memory);
                let mut all: usize = kept.iter().map(Aligned::room).sum();
                // What was not used for the longest time goes.
                while all > MOST_KEPT {
                    all -= kept.remove(0).room();
                }
            });
        }
    }
}

impl<T: Pod> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        cast_slice(&self.0)
    }
}

impl<T: Pod> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        cast_slice_mut(&mut self.0)
    }
}

/// The largest freed tensors, in bytes, that a program keeps.
const MOST_BYTES_KEPT: usize = 32 << 20;

/// Lets the C library keep tensors of up to [`MOST_BYTES_KEPT`] that are freed, and has its heap grow into large pages.
///
/// glibc takes blocks from the system, and gives them back when they are freed, if they are larger than any that was given back
/// before, up to 32 MiB. So a program gives each large tensor back in each run, or none, by how its memory happens to be ordered:
/// SegFormer took 1.4 times as long in some processes, for 7,500 page faults a run (Intel Xeon, family 6 model 207). Here the first
/// block that is given back has the most bytes that count, and was never written. To other allocators it is a block like others.
///
/// The second block is the end of the heap (of the thread's, if it is not the main one), and stays there when it is freed. So weights
/// and outputs of layers, which are small parts of it, find large pages: networks in bf16 took 0.98 of the time (Intel Xeon, family 6
/// model 167).
pub(crate) fn keep_freed_memory() {
    static ONCE: Once = Once::new();
    let has_glibc =
        cfg!(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64", not(miri)));
    if !has_glibc {
        return;
    }
    ONCE.call_once(|| {
        // glibc adds something to each. Where there is not so much memory, nothing is kept.
        let of_first = MOST_BYTES_KEPT - (64 << 10);
        let reserved = |bytes| {
            let mut block: Vec<u8> = vec![];
            block.try_reserve_exact(bytes).is_ok().then_some(block)
        };
        drop(black_box(reserved(of_first)));
        if let Some(mut block) = reserved(of_first - LARGE_PAGE) {
            ask_for_large_pages(block.spare_capacity_mut());
            drop(black_box(block));
        }
    });
}

/// An output of an operator in single precision, of zeros: sums of nothing.
///
/// # Errors
///
/// Those of [`check_volume`].
pub(crate) fn zero_output(operator: &str, shape: &[usize]) -> TractResult<Tensor> {
    check_volume(operator, DatumType::F32, shape)?;
    Tensor::zero::<f32>(shape)
}

/// An output of an operator, which writes all elements. They have any values before: those that the memory had; and floats are NaN
/// in debug builds. Zeros would cost a tenth of a convolution with large outputs.
///
/// # Errors
///
/// Those of [`check_volume`], and a type whose elements are no numbers.
#[allow(unsafe_code)]
pub(crate) fn new_output(operator: &str, dt: DatumType, shape: &[usize]) -> TractResult<Tensor> {
    check_volume(operator, dt, shape)?;
    if !dt.is_number() {
        return Tensor::zero_dt(dt, shape);
    }
    // SAFETY: numbers may have any bytes, and the memory is given some before anybody sees it.
    unsafe {
        let mut output = Tensor::uninitialized_dt(dt, shape)?;
        if output.len() > 0 {
            let bytes = output.len() * dt.size_of();
            write_unknown(output.as_ptr_mut_unchecked(), bytes);
        }
        Ok(output)
    }
}

/// Writes bytes that the program does not know to memory: what is there. It costs nothing, and reading the memory is defined after it.
/// Where there is no such assembly, and under Miri, which knows none, it writes zeros.
///
/// # Safety
///
/// So many bytes may be written there.
#[allow(unsafe_code)]
unsafe fn write_unknown(first: *mut u8, bytes: usize) {
    // SAFETY: the caller says so. Assembly may write all that it has an address of, and the compiler does not know that this writes
    // nothing.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    unsafe {
        std::arch::asm!("/* {} {} */", in(reg) first, in(reg) bytes, options(nostack, preserves_flags));
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    unsafe {
        first.write_bytes(0, bytes);
    }
}

/// An output of an operator, whose elements are written by `fill`, if there are any.
///
/// # Errors
///
/// Those of [`new_output`], and of `fill`.
pub(crate) fn filled_output<T: Datum + Pod>(
    operator: &str,
    shape: &[usize],
    fill: impl FnOnce(&mut [T]) -> TractResult<()>,
) -> TractResult<Tensor> {
    filled_output_dt(operator, T::datum_type(), shape, fill)
}

/// As [`filled_output`], of a type that is known at run time. `T` is what its memory is written as: elements of that size, or bytes.
pub(crate) fn filled_output_dt<T: Pod>(
    operator: &str,
    dt: DatumType,
    shape: &[usize],
    fill: impl FnOnce(&mut [T]) -> TractResult<()>,
) -> TractResult<Tensor> {
    let mut output = new_output(operator, dt, shape)?;
    if output.len() > 0 {
        fill(cast_slice_mut(output.try_as_plain_ram_mut()?.as_bytes_mut()))?;
    }
    Ok(output)
}

/// The elements of a tensor of type F32.
pub(crate) fn floats(tensor: &Tensor) -> TractResult<&[f32]> {
    tensor.try_as_plain_ram()?.as_slice()
}

/// The elements of a tensor, as others of their size.
pub(crate) fn elements<T: Pod>(tensor: &Tensor) -> TractResult<&[T]> {
    let bytes = tensor.try_as_plain_ram()?.as_bytes();
    // No bytes may be anywhere: as bytes, they shall be where other elements may be.
    Ok(if bytes.is_empty() { cast_slice::<u64, T>(&[]) } else { cast_slice(bytes) })
}

/// A tensor whose bytes come from elsewhere: a file, for example. `read` fills parts of it, in any order and on the threads that tract
/// has; it gets the place of the first byte, and zeros. A boolean is true if its byte is not 0.
///
/// [`LazyTensor`](crate::LazyTensor) does so when the tensor is needed.
///
/// Large tensors ask the system for large pages. With them a Llama of a billion weights in half precision was read in 0.4 of the
/// time, and had 1.1 times as many tokens per second (AMD EPYC, family 26 model 2).
///
/// # Errors
///
/// Elements of the type are not bytes, as strings; there is no memory for so many; and those of `read`.
pub fn tensor_of_parts(
    dt: DatumType,
    shape: &[usize],
    read: impl Fn(usize, &mut [u8]) -> TractResult<()> + Sync,
) -> TractResult<Tensor> {
    Unwritten::new(dt, shape)?.of_parts(read)
}

/// Memory for a tensor that is not there yet. The system gives it when it is written.
pub(crate) struct Unwritten(Tensor);

impl Unwritten {
    #[allow(unsafe_code)]
    pub fn new(dt: DatumType, shape: &[usize]) -> TractResult<Unwritten> {
        ensure!(dt.is_number() || dt == DatumType::Bool, "elements of type {dt:?} are not bytes");
        let len = volume(shape).and_then(|volume| volume.checked_mul(dt.size_of()));
        let len =
            len.with_context(|| format!("the sizes of shape {shape:?} cannot be multiplied"))?;
        let alignment = if len < 2 * LARGE_PAGE { vector_size() } else { LARGE_PAGE };
        ensure_allocatable("a constant", len.saturating_add(alignment))?;
        // SAFETY: the memory is given some bytes, which `of_parts` overwrites; those of booleans are made such.
        let mut tensor = unsafe { Tensor::uninitialized_aligned_dt(dt, shape, alignment)? };
        if len > 0 {
            // SAFETY: the tensor has so many bytes.
            unsafe { write_unknown(tensor.as_ptr_mut_unchecked(), len) };
        }
        ask_for_large_pages(tensor.try_as_plain_ram_mut()?.as_bytes_mut());
        Ok(Unwritten(tensor))
    }

    /// As [`tensor_of_parts`].
    pub fn of_parts(
        self,
        read: impl Fn(usize, &mut [u8]) -> TractResult<()> + Sync,
    ) -> TractResult<Tensor> {
        /// The zeros are still in the cache when `read` writes there.
        const PART: usize = 1 << 17;
        let Unwritten(mut tensor) = self;
        let is_bool = tensor.datum_type() == DatumType::Bool;
        let mut view = tensor.try_as_plain_ram_mut()?;
        let bytes = view.as_bytes_mut();
        let work = cost::NEW_BYTE.of(bytes.len());
        fill_rows(bytes, PART, work, |first, parts| {
            for (number, part) in parts.chunks_mut(PART).enumerate() {
                part.fill(0);
                read((first + number) * PART, part)?;
                if is_bool {
                    part.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
                }
            }
            TractResult::Ok(())
        })?;
        Ok(tensor)
    }
}

/// The bytes of a large page.
const LARGE_PAGE: usize = 1 << 21;

/// The large pages that are within some memory: whole pages of 2 MiB, where such a page may begin. `T` has the size of a byte.
pub fn large_pages<T>(memory: &mut [T]) -> &mut [T] {
    const { assert!(size_of::<T>() == 1, "T must have the size of a byte") };
    let begin = memory.as_ptr().align_offset(LARGE_PAGE).min(memory.len());
    let rest = &mut memory[begin..];
    let whole = rest.len() / LARGE_PAGE * LARGE_PAGE;
    &mut rest[..whole]
}

/// Asks the system to have [`large_pages`] of memory that has none yet in one piece each (Linux): the processor's table of pages is
/// short, and has one place for each. The system may refuse, or have all memory so anyway.
#[allow(unsafe_code)]
pub fn ask_for_large_pages<T>(memory: &mut [T]) {
    let pages = large_pages(memory);
    #[cfg(target_os = "linux")]
    if !pages.is_empty() {
        // SAFETY: these are whole pages of memory that is ours alone, and what they have does not change.
        unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len(), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pages;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_begin_with_a_line() {
        fn check<T: Pod>(memory: &Aligned<T>) {
            assert_eq!(memory.as_ptr().align_offset(LINE), 0);
        }
        for count in [1, 7, 1000] {
            let mut numbers = Aligned::new(0.5f32, count);
            assert_eq!(*numbers, vec![0.5; count]);
            check(&numbers);
            numbers[0] = 2.;
            numbers.resize(2 * count);
            assert_eq!(numbers.len(), 2 * count);
            check(&numbers);
            check(&Aligned::new(0i8, count));
            check(&Scratch::new(count).0);
        }
        assert!(Aligned::new(1u8, 0).is_empty());
    }

    /// Other tests may have run on this thread.
    fn keep_nothing() {
        KEPT.with_borrow_mut(Vec::clear);
    }

    #[test]
    fn a_thread_uses_its_memory_again() {
        keep_nothing();
        let places = || {
            let (large, small) = (Scratch::new(1000), Scratch::new(10));
            assert_eq!((large.len(), small.len()), (1000, 10));
            [large.as_ptr(), small.as_ptr()]
        };
        let first = places();
        assert_eq!(places(), first);
        // The large one is taken only where the small one is not enough.
        let (small, large) = (Scratch::new(9), Scratch::new(11));
        assert_eq!([large.as_ptr(), small.as_ptr()], first);
    }

    #[test]
    fn a_thread_keeps_some_memory_only() {
        keep_nothing();
        let kept = || KEPT.with_borrow(|kept| kept.iter().map(Aligned::room).sum::<usize>());
        let several: Vec<Scratch> = (0..5).map(|_| Scratch::new(MOST / 2)).collect();
        let last = several[4].as_ptr();
        drop(several);
        assert!((MOST..=MOST_KEPT).contains(&kept()), "{}", kept());
        // The last one is still there.
        let again: Vec<Scratch> = (0..4).map(|_| Scratch::new(MOST / 2)).collect();
        assert!(again.iter().any(|it| it.as_ptr() == last));
        drop(again);
        // It is too large to be kept.
        drop(Scratch::new(MOST + 1000));
        assert!(kept() <= MOST_KEPT);
    }

    #[test]
    fn tensors_are_filled_part_by_part() -> TractResult<()> {
        // Some large pages, and a part of one.
        let count = 5 * LARGE_PAGE / 4 + 3;
        let tensor = tensor_of_parts(DatumType::F32, &[count, 1], |begin, part| {
            let (numbers, rest) = part.as_chunks_mut::<4>();
            assert!(rest.is_empty() && numbers.iter().all(|number| *number == [0; 4]));
            for (place, number) in numbers.iter_mut().enumerate() {
                *number = ((begin / 4 + place) as f32).to_ne_bytes();
            }
            Ok(())
        })?;
        let numbers: Vec<f32> = (0..count).map(|it| it as f32).collect();
        assert_eq!(tensor, Tensor::from_shape(&[count, 1], &numbers)?);

        let error = |dt, shape: &[usize]| {
            tensor_of_parts(dt, shape, |_, _| bail!("no more bytes")).unwrap_err().to_string()
        };
        assert_eq!(error(DatumType::U8, &[3]), "no more bytes");
        assert!(error(DatumType::String, &[3]).contains("String are not bytes"));
        assert!(error(DatumType::F32, &[usize::MAX, 2]).contains("cannot be multiplied"));
        assert!(tensor_of_parts(DatumType::I64, &[0, 2], |_, _| bail!("none")).is_ok());
        let booleans = tensor_of_parts(DatumType::Bool, &[2], |_, part| {
            part[1] = 7;
            Ok(())
        })?;
        assert_eq!(booleans, tensor1(&[false, true]));
        Ok(())
    }
}
