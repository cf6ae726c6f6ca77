//! The kernel against its formula, with all vector units that the machine has.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;

use proptest::prelude::*;

use super::blocks::gather_range;
use super::processor::{Vectors, vectorized};
use super::tuples::ResolveTuples;
use super::*;
use crate::index::{IndexElement, Position};

/// The formula, byte by byte.
fn expected(geometry: Geometry<'_>, data: &[u8], indices: &[i32], zero: &[u8]) -> Vec<u8> {
    let Geometry { batch, outer, tuples_per_batch: count, gathered_dims: dims, columns, block } =
        geometry;
    let mut output = vec![];
    for table in 0..batch * outer {
        for i in 0..count {
            let tuple = &indices[(table / outer * count + i) * dims.len()..][..dims.len()];
            let mut number = Some(table);
            for (&index, &size) in tuple.iter().zip(dims) {
                let position = if index < 0 { index + size as i32 } else { index };
                let valid = (0..size as i32).contains(&position);
                number = number.filter(|_| valid).map(|n| n * size + position as usize);
            }
            let number = number.map(|n| n * columns + i % columns);
            for byte in 0..block {
                output.push(match number {
                    Some(number) => data[number * block + byte],
                    None => zero[byte % zero.len()],
                });
            }
        }
    }
    output
}

fn entries(length: usize, low: i32, high: i32) -> Vec<i32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state >> 8
    };
    (0..length).map(|_| low + (next() % (high - low) as u32) as i32).collect()
}

thread_local! {
    /// The widest vector units that a test allows.
    pub static WIDEST: Cell<Vectors> = Cell::new(Vectors::detect());
}

/// Calls `test` for all vector units that this machine has, the portable ones included.
fn with_each_of_the_vectors(test: impl Fn()) {
    for vectors in Vectors::ALL {
        WIDEST.set(vectors);
        test();
    }
}

/// Gathers in ranges of `step` blocks.
fn gather_in_ranges(operands: &Operands<'_, u8>, step: usize, store: Store) -> Vec<u8> {
    let Geometry { block, .. } = operands.geometry;
    let blocks = operands.geometry.output_blocks();
    // One more element of 16 bytes than needed, to begin at a multiple of 16.
    let mut memory = vec![MaybeUninit::new(255); blocks * block + 16];
    let start = memory.as_ptr().align_offset(16);
    let output = &mut memory[start..][..blocks * block];
    for (number, part) in output.chunks_mut(step * block).enumerate() {
        gather_range(operands, number * step, store, part).unwrap();
    }
    // SAFETY: it was made of initialised bytes.
    output.iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// Ranges of blocks that begin and end anywhere in pieces, tables and batches, put together to the whole output,
/// as threads do. Each way to copy a block, with sizes just below and above its limits.
#[test]
fn any_range_of_blocks() {
    let shapes = [
        (1, 1, 3000, &[7][..], 1),
        (3, 1, 1, &[7], 4),
        (3, 1, 700, &[7], 12),
        (3, 1, 127, &[7], 4),
        (3, 1, 128, &[7], 4),
        (1, 3, 130, &[7], 4),
        (2, 5, 3, &[4], 2),
        (2, 1, 200, &[7], 2),
        (2, 3, 1025, &[4], 8),
        (1, 4, 2049, &[5], 24),
        (2, 1, 1030, &[3, 2], 6),
        (2, 1, 5, &[3, 2, 4], 100),
        (1, 1, 9, &[2, 3, 2, 2], 16),
        (2, 1, 4, &[], 32),
        (1, 2, 3, &[0], 64),
        (1, 1, 70, &[0], 1),
        (1, 1, 70, &[0], 4),
        // Prefetched.
        (1, 1, 50, &[16384], 512),
        (1, 1, 50, &[2048], 4096),
    ];
    let widths = [3, 5, 7, 9, 15, 17, 31, 33, 63, 64, 65, 127, 128, 129, 4095, 4097];
    let shapes = shapes.into_iter().chain(widths.map(|block| (2, 2, 5, &[6][..], block)));
    let shapes = shapes.map(|(batch, outer, count, dims, block)| Geometry {
        batch,
        outer,
        tuples_per_batch: count,
        gathered_dims: dims,
        columns: 1,
        block,
    });
    // Batches that are merged or not. Rows of columns that are shorter or longer than a piece.
    let of_columns =
        [(3, 1, 12, 3, 4), (2, 1, 1030, 10, 1), (2, 3, 1200, 600, 8), (1, 1, 9, 9, 65)];
    let of_columns = of_columns.map(|(batch, outer, count, columns, block)| Geometry {
        batch,
        outer,
        tuples_per_batch: count,
        gathered_dims: &[7],
        columns,
        block,
    });
    for geometry in shapes.chain(of_columns) {
        let Geometry { batch, tuples_per_batch: count, gathered_dims: dims, block, .. } = geometry;
        let data: Vec<u8> = (0..geometry.data_len().unwrap()).map(|k| (k % 251) as u8).collect();
        let largest = dims.iter().max().map_or(0, |&size| size as i32);
        // With and without entries that are out of range or count from the end.
        for (low, high) in [(-largest - 2, largest + 2), (0, largest)] {
            if low == high || (low == 0 && dims.iter().any(|&size| size as i32 != largest)) {
                continue;
            }
            let entries = entries(batch * count * dims.len(), low, high);
            let wide = entries.iter().map(|&entry| entry.into()).collect::<Vec<_>>();
            let zero: &[u8] = if block.is_multiple_of(2) { &[1, 2] } else { &[3] };
            let expected = expected(geometry, &data, &entries, zero);
            let blocks = geometry.output_blocks();
            for indices in [Indices::I32(&entries), Indices::I64(&wide)] {
                let operands =
                    Operands::new(geometry, IndexPolicy::WrapOrZeros, &data, indices, zero);
                let steps = [1, 2, 3, count, count + 1, 1024, 1025, blocks];
                with_each_of_the_vectors(|| {
                    for step in steps.map(|step| step.min(blocks)) {
                        let gathered = gather_in_ranges(&operands, step, Store::Cached);
                        assert!(gathered == expected, "{geometry:?} by {step}");
                    }
                    if block.is_multiple_of(16) {
                        let gathered = gather_in_ranges(&operands, blocks, Store::Streamed);
                        assert!(gathered == expected, "{geometry:?} streamed");
                    }
                });
            }
        }
    }
}

/// An index that is bad is an error wherever it stands, in each of the loops.
#[test]
fn any_bad_index() {
    let size = 1000;
    for (count, block) in [(1, 4), (63, 1), (200, 1), (200, 2), (200, 4), (200, 8), (700, 12)] {
        let geometry = Geometry {
            batch: 1,
            outer: 1,
            tuples_per_batch: count,
            gathered_dims: &[size],
            columns: 1,
            block,
        };
        let data = vec![0; size * block];
        let places = [0, 1, 63, 64, 127, 128, 191, 192, 199, 512, 699];
        for bad in places.into_iter().filter(|place| *place < count) {
            let mut entries = entries(count, 0, size as i32);
            let mut wide: Vec<i64> = entries.iter().map(|&entry| entry.into()).collect();
            // In range, if only its lower 32 bits counted.
            (entries[bad], wide[bad]) = (-1, (1i64 << 32) + 1);
            for indices in [Indices::I32(&entries), Indices::I64(&wide)] {
                let operands =
                    Operands::new(geometry, IndexPolicy::NonNegative, &data, indices, &[0]);
                with_each_of_the_vectors(|| {
                    let mut output = vec![MaybeUninit::new(0); count * block];
                    let gathered = gather_range(&operands, 0, Store::Cached, &mut output);
                    assert!(gathered.is_err(), "{bad} of {count} blocks of {block}");
                    assert_eq!(operands.first_bad_index(), BadIndex(bad));
                });
            }
        }
    }
}

/// Just below and above the sizes at which something changes: pieces, lines, merged batches.
fn near(edges: &'static [usize]) -> impl Strategy<Value = usize> {
    (proptest::sample::select(edges), 0..3usize).prop_map(|(edge, more)| (edge + more).max(2) - 1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Any geometry in any parts, in every index type.
    #[test]
    fn any_geometry(
        (batch, outer) in (1..5usize, 1..4usize),
        count in near(&[1, 4, 127, 1023, 2047]),
        dims in proptest::collection::vec(1..6usize, 1..5),
        columns in prop_oneof![Just(1usize), near(&[3, 16, 600])],
        block in near(&[1, 3, 7, 11, 15, 23, 31, 63, 127, 511]),
        step in near(&[1, 126, 1023, 5000]),
        seed in any::<i32>(),
    ) {
        let count = count.next_multiple_of(columns);
        let geometry = Geometry {
            batch, outer, tuples_per_batch: count, gathered_dims: &dims, columns, block,
        };
        let data: Vec<u8> = (0..geometry.data_len().unwrap()).map(|k| (k % 251) as u8).collect();
        // Mostly in range.
        let mut entries = entries(batch * count * dims.len(), 0, 6);
        let length = entries.len();
        entries[seed as u32 as usize % length] = seed % 100;
        let expected = expected(geometry, &data, &entries, &[9]);
        fn check<I: Copy>(
            geometry: Geometry<'_>, data: &[u8], entries: &[I], indices: fn(&[I]) -> Indices<'_>,
            step: usize, expected: &[u8],
        ) {
            let indices = indices(entries);
            let operands = Operands::new(geometry, IndexPolicy::WrapOrZeros, data, indices, &[9]);
            with_each_of_the_vectors(|| {
                assert!(gather_in_ranges(&operands, step, Store::Cached) == expected);
            });
        }
        macro_rules! check {
            ($($variant:ident $ty:ty),*) => { $(
                let converted = entries.iter().map(|&e| <$ty>::try_from(i128::from(e))).collect::<Result<Vec<_>, _>>();
                if let Ok(entries) = converted {
                    check(geometry, &data, &entries, |it| Indices::$variant(it), step, &expected);
                }
            )* };
        }
        check!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);
    }
}

/// The loops for each vector unit and each width of numbers, against one index at a time.
#[test]
fn resolving_many_at_a_time() {
    fn check<I: IndexElement>(indices: &[I]) {
        check_width::<I, u32>(indices);
        check_width::<I, u64>(indices);
    }
    fn check_width<I: IndexElement, N: Position>(indices: &[I]) {
        for policy in [IndexPolicy::WrapOrZeros, IndexPolicy::NonNegative] {
            for size in [0, 1, 7, 100, 1 << 20, i32::MAX as usize, isize::MAX as usize] {
                if size > N::MAX_SIZE {
                    continue;
                }
                let one_by_one: Vec<_> =
                    indices.iter().map(|i| policy.resolve(i.to_i64(), size)).collect();
                with_each_of_the_vectors(|| {
                    let mut numbers = vec![MaybeUninit::new(N::from_size(0)); indices.len()];
                    let (tuples, _) = indices.as_chunks();
                    let dims = [size];
                    let all = ResolveTuples { tuples, dims, policy, numbers: &mut numbers };
                    let all = vectorized(all);
                    // SAFETY: it was made of initialised numbers.
                    let numbers = numbers.iter().map(|number| unsafe { number.assume_init() });
                    let numbers: Vec<_> =
                        numbers.map(|n| (n != N::OUT_OF_RANGE).then_some(n.to_usize())).collect();
                    assert_eq!(numbers, one_by_one);
                    assert_eq!(all, one_by_one.iter().all(|number| number.is_some()));
                });
            }
        }
    }
    let extremes =
        [i64::MIN, i64::MAX, i32::MIN.into(), i32::MAX.into(), 1i64 << 32, -(1i64 << 32), 1 << 31];
    check(&extremes);
    for length in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100] {
        let entries = entries(length, -130, 130);
        check(&entries);
        check(&entries.iter().map(|&i| i as i8).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i as u8).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i as i16).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i as u16).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i as u32).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i64::from(i) << 24).collect::<Vec<_>>());
        check(&entries.iter().map(|&i| i as u64).collect::<Vec<_>>());
    }
}

/// A table of more blocks than 32 bits number. Only the pages that are read take memory.
#[test]
#[cfg(target_pointer_width = "64")]
fn more_blocks_than_32_bits_number() {
    let size = u32::MAX as usize + 10;
    let data = vec![0u8; size];
    let geometry = Geometry {
        batch: 1,
        outer: 1,
        tuples_per_batch: 3,
        gathered_dims: &[size],
        columns: 1,
        block: 1,
    };
    let indices = [size as i64 - 1, -(size as i64), size as i64];
    let operands =
        Operands::new(geometry, IndexPolicy::WrapOrZeros, &data, Indices::I64(&indices), &[7]);
    assert_eq!(gather_in_ranges(&operands, 3, Store::Cached), [0, 0, 7]);
}
