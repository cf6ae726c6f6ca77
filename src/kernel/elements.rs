//! Gathers elements from one axis: resolves indices and copies what they pick in the same loop.
//!
//! Elements that are in no near cache arrive in any order, as many at a time as the processor looks ahead. In two
//! loops it looks no further than the end of a piece, and the elements drive the piece's numbers out of the
//! first-level cache. A million elements of 4 bytes took 1.06 to 1.35 times as long that way, by how far the memory
//! was; of 1, 2 and 8 bytes 1.1 to 1.2 times (AMD Zen 4).

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::blocks::{copy_or_zero, zero_block};
use super::pieces::Part;
use super::processor::{GATHERED, Loop, gather_eight_or_zero, has_gathers, vectorized};
use super::{AnyBadIndex, Operands};
use crate::geometry::{Geometry, Indices};
use crate::index::{IndexElement, IndexPolicy, Position};

/// How many indices are resolved before their elements are copied. With 16, the compiler unrolled that, and resolved
/// them one by one: bytes took 1.6 times as long.
const GROUP: usize = 64;

/// Gathers elements of 1, 2, 4 or 8 bytes that indices of `i32` or `i64` pick from one table, which is just the gathered
/// axis: there are no columns and no merged batches. `None` if the part is another one: then the two steps are for it.
/// Writes all of the part, unless an index is bad.
pub(super) fn gather_elements(
    operands: &Operands<'_, u8>,
    part: &Part,
    output: &mut [MaybeUninit<u8>],
) -> Option<Result<(), AnyBadIndex>> {
    match operands.geometry.block {
        1 => gather_sized::<1>(operands, part, output),
        2 => gather_sized::<2>(operands, part, output),
        4 => gather_sized::<4>(operands, part, output),
        8 => gather_sized::<8>(operands, part, output),
        _ => None,
    }
}

fn gather_sized<const SIZE: usize>(
    operands: &Operands<'_, u8>,
    part: &Part,
    output: &mut [MaybeUninit<u8>],
) -> Option<Result<(), AnyBadIndex>> {
    let &Operands { geometry, policy, indices, zero, .. } = operands;
    let Geometry { gathered_dims: &[size], columns: 1, .. } = geometry else { return None };
    if part.tables.len() != 1 || geometry.merges_batches() || size > u32::MAX_SIZE {
        return None;
    }
    let (data, _) = operands.table(part.tables.start).as_chunks();
    let output = &mut output[part.first_block * SIZE..][..part.tuples.len() * SIZE];
    let (output, _) = output.as_chunks_mut();
    let (zero, tuples) = (&zero_block(zero), part.tuples.clone());
    let all_in_range = match indices {
        Indices::I32(all) => gather::<_, SIZE>(data, &all[tuples], policy, zero, output),
        Indices::I64(all) => gather::<_, SIZE>(data, &all[tuples], policy, zero, output),
        _ => return None,
    };
    Some(if policy.is_strict() && !all_in_range { Err(AnyBadIndex) } else { Ok(()) })
}

/// Returns whether all indices are in range.
fn gather<I: IndexElement, const SIZE: usize>(
    data: &[[u8; SIZE]],
    indices: &[I],
    policy: IndexPolicy,
    zero: &[u8; SIZE],
    output: &mut [[MaybeUninit<u8>; SIZE]],
) -> bool {
    if has_gathers::<SIZE>() {
        vectorized(GatherElements::<I, SIZE, true> { data, indices, policy, zero, output })
    } else {
        vectorized(GatherElements::<I, SIZE, false> { data, indices, policy, zero, output })
    }
}

struct GatherElements<'a, I, const SIZE: usize, const HAS_GATHERS: bool> {
    data: &'a [[u8; SIZE]],
    indices: &'a [I],
    policy: IndexPolicy,
    zero: &'a [u8; SIZE],
    output: &'a mut [[MaybeUninit<u8>; SIZE]],
}

impl<I: IndexElement, const SIZE: usize, const HAS_GATHERS: bool> Loop
    for GatherElements<'_, I, SIZE, HAS_GATHERS>
{
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let GatherElements { data, indices, policy, zero, output } = self;
        assert!(indices.len() == output.len() && data.len() <= u32::MAX_SIZE);
        let size = u32::from_size(data.len());
        let mut all_in_range = true;
        let mut numbers = [0; GROUP];
        let (groups, rest) = indices.as_chunks::<GROUP>();
        let (output, output_of_rest) = output.as_chunks_mut::<GROUP>();
        for (indices, output) in groups.iter().zip(output) {
            let mut in_range = true;
            for (number, &index) in numbers.iter_mut().zip(indices) {
                *number = u32::resolve(policy, index, size);
                in_range &= *number != u32::OUT_OF_RANGE;
            }
            all_in_range &= in_range;
            // One by one, a million elements take 1.3 times as long, and those of 4096, which are in the near cache, 0.93 times.
            if HAS_GATHERS {
                const { assert!(GROUP.is_multiple_of(GATHERED), "all of a group must be written") };
                let output = output.as_chunks_mut().0.iter_mut();
                for (output, numbers) in output.zip(numbers.as_chunks().0) {
                    // SAFETY: the processor has gathers: the function `gather` has asked.
                    unsafe { gather_eight_or_zero(data, numbers, zero, output) };
                }
            } else if in_range {
                // As `copy_in_range` of `blocks.rs`. A call of that, although inlined, took 1.05 times as long for bytes.
                for (element, number) in output.iter_mut().zip(&numbers) {
                    // SAFETY: all numbers of the group are in range, so they are below `size`. That is the length of
                    // `data`, which fits, as the assertion says.
                    let picked = unsafe { data.get_unchecked(number.to_usize()) };
                    *element = picked.map(MaybeUninit::new);
                }
            } else {
                copy_or_zero(data, &numbers, zero, output);
            }
        }
        for (&index, output) in rest.iter().zip(output_of_rest) {
            let number = u32::resolve(policy, index, size);
            all_in_range &= number != u32::OUT_OF_RANGE;
            let picked = data.get(number.to_usize()).unwrap_or(zero);
            *output = picked.map(MaybeUninit::new);
        }
        all_in_range
    }
}
