//! Which elements the rows of operand A have: where each tap of each row begins, in bytes.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use pulp::bytemuck::Pod;

/// What a tap has in place of its start, where it is in the padding.
pub(crate) const PADDING: usize = usize::MAX;

/// The im2row addresses of some rows: where each tap begins.
#[derive(Debug)]
pub(crate) enum Im2rowAddresses {
    /// Tap by tap: where it begins in the rows, run by run.
    Runs {
        /// How far a row of a run begins after the one before it.
        distance: usize,
        runs: Vec<RunOfRows>,
    },
    Strided(StridedLines),
}

/// Rows that follow each other and begin at equal distances. `start` is where the first one begins, or a tap of it; [`PADDING`] if that tap
/// of all rows is in the padding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunOfRows {
    pub start: usize,
    pub rows: usize,
}

/// Some lines of rows, in which these are at equal distances, and have their taps at the same places.
#[derive(Debug)]
pub(crate) struct StridedLines {
    /// How far a row begins behind the one before it.
    pub distance: usize,
    /// Where each tap begins, from the begin of its row on.
    pub tap_offsets: Vec<usize>,
    /// Where the first row of each line begins, in ascending order.
    pub lines: Vec<RunOfRows>,
}

#[cfg(target_arch = "x86_64")]
impl StridedLines {
    /// Where a tap of a row begins.
    pub fn start(&self, mut row: usize, tap: usize) -> usize {
        for line in &self.lines {
            if row < line.rows {
                return line.start + row * self.distance + self.tap_offsets[tap];
            }
            row -= line.rows;
        }
        unreachable!("there is such a row")
    }
}

impl RunOfRows {
    /// Where the first row begins, and the last one, if there are any.
    fn range(self, distance: usize) -> Option<[usize; 2]> {
        let last = self.rows.checked_sub(1)?;
        Some([self.start, self.start + last * distance])
    }
}

impl Im2rowAddresses {
    /// So many rows at equal distances, from `start` on, whose taps begin there.
    pub fn of_one_line(
        start: usize,
        rows: usize,
        distance: usize,
        tap_offsets: Vec<usize>,
    ) -> Im2rowAddresses {
        let lines = vec![RunOfRows { start, rows }];
        Im2rowAddresses::Strided(StridedLines { distance, tap_offsets, lines })
    }

    /// The lines whose rows a matrix unit multiplies, if there are at least so many.
    pub fn lines_for_amx(&self, least_rows: usize) -> Option<&StridedLines> {
        match self {
            Im2rowAddresses::Strided(lines) => {
                let rows: usize = lines.lines.iter().map(|line| line.rows).sum();
                (rows >= least_rows && lines.distance > 0).then_some(lines)
            }
            Im2rowAddresses::Runs { .. } => None,
        }
    }

    /// What the taps of all rows meet: those of the first tap, then those of the next one; each has `length` bytes. `at` is what begins
    /// at an address. `size` bytes there stand for one byte of the addresses.
    pub fn tap_slices<'b>(
        &self,
        at: impl Fn(usize) -> &'b [u8],
        size: usize,
        padding: &'b [u8],
        length: usize,
    ) -> TapSlices<'b> {
        let mut slices = TapSlices::new(length);
        match self {
            Im2rowAddresses::Runs { distance, runs } => {
                slices.starts.reserve(runs.iter().map(|run| run.rows).sum());
                for run in runs {
                    match run.start {
                        PADDING => slices.extend(padding, 0, run.rows),
                        start => slices.extend(at(start), distance * size, run.rows),
                    }
                }
            }
            Im2rowAddresses::Strided(StridedLines { distance, tap_offsets, lines }) => {
                let rows: usize = lines.iter().map(|line| line.rows).sum();
                slices.starts.reserve(tap_offsets.len() * rows);
                for tap in tap_offsets {
                    for line in lines {
                        slices.extend(at(line.start + tap), distance * size, line.rows);
                    }
                }
            }
        }
        slices
    }

    /// Where the first tap begins, and the last one, of those before the end of the images. Lines have no others.
    pub fn range(&self, end: usize) -> Option<[usize; 2]> {
        match self {
            Im2rowAddresses::Runs { distance, runs } => {
                let runs = runs.iter().filter(|run| run.start < end);
                let ranges = runs.filter_map(|run| run.range(*distance));
                ranges.reduce(|[first, last], [start, end]| [first.min(start), last.max(end)])
            }
            Im2rowAddresses::Strided(StridedLines { distance, tap_offsets, lines }) => {
                let [_, last] = lines.last()?.range(*distance)?;
                Some([lines[0].start, last + tap_offsets.last()?])
            }
        }
    }
}

/// What taps of rows meet: bytes from some place on, as many of each. So the rows of a tile need one check, and not one each.
#[derive(Debug)]
pub(crate) struct TapSlices<'a> {
    /// From each on there are `length` bytes.
    starts: Vec<NonNull<u8>>,
    length: usize,
    bytes: PhantomData<&'a [u8]>,
}

// SAFETY: it is as a list of slices.
unsafe impl Send for TapSlices<'_> {}
// SAFETY: the same.
unsafe impl Sync for TapSlices<'_> {}

impl<'a> TapSlices<'a> {
    /// None yet, of so many bytes each.
    pub fn new(length: usize) -> TapSlices<'a> {
        TapSlices { starts: vec![], length, bytes: PhantomData }
    }

    /// None again, of so many bytes each.
    pub fn restart(&mut self, length: usize) {
        self.starts.clear();
        self.length = length;
    }

    /// The bytes of each.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds those of some rows, the first of which begins with these bytes, and each so far behind the one before it.
    ///
    /// # Panics
    ///
    /// If there are fewer bytes.
    pub fn extend(&mut self, bytes: &'a [u8], distance: usize, rows: usize) {
        let Some(last) = rows.checked_sub(1) else { return };
        let reach = last.checked_mul(distance).and_then(|last| last.checked_add(self.length));
        assert!(reach.is_some_and(|reach| reach <= bytes.len()), "rows end behind the data");
        let first = NonNull::from(bytes).cast();
        // Added up: not every processor multiplies 64 bits in vectors.
        let mut begin = 0_usize;
        self.starts.extend((0..rows).map(|_| {
            // SAFETY: the last row is within the bytes, with all of its own.
            let start = unsafe { first.add(begin) };
            begin = begin.wrapping_add(distance);
            start
        }));
    }

    /// `R` of the slices, from number `first` on: of each `count` elements, which begin at a byte of it.
    ///
    /// # Panics
    ///
    /// If there are fewer slices, or bytes.
    #[inline(always)]
    pub fn elements<T: Pod, const R: usize>(
        &self,
        first: usize,
        byte: usize,
        count: usize,
    ) -> [&'a [T]; R] {
        let starts = &self.starts[first..][..R];
        const { assert!(align_of::<T>() == 1) };
        let is_within = byte <= self.length && count <= (self.length - byte) / size_of::<T>();
        assert!(is_within, "elements beyond a tap");
        let mut slices: [&[T]; R] = [&[]; R];
        for row in 0..R {
            // SAFETY: each slice has so many bytes, is borrowed for `'a`, and they are elements anywhere.
            slices[row] =
                unsafe { std::slice::from_raw_parts(starts[row].add(byte).cast().as_ptr(), count) };
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_their_bytes() {
        let bytes: Vec<u8> = (0..20).collect();
        let padding = [100; 9];
        let lines = vec![RunOfRows { start: 1, rows: 2 }, RunOfRows { start: 8, rows: 1 }];
        let lines = StridedLines { distance: 3, tap_offsets: vec![0, 2], lines };
        let runs = vec![RunOfRows { start: 4, rows: 2 }, RunOfRows { start: PADDING, rows: 2 }];
        for (addresses, starts) in [
            (Im2rowAddresses::Strided(lines), vec![1, 4, 8, 3, 6, 10]),
            (Im2rowAddresses::Runs { distance: 6, runs }, vec![4, 10, PADDING, PADDING]),
        ] {
            let slices = addresses.tap_slices(|start| &bytes[start..], 1, &padding, 9);
            for (number, start) in starts.iter().enumerate() {
                let all: [&[u8]; 1] = slices.elements(number, 0, 9);
                let own = if *start == PADDING { &padding } else { &bytes[*start..][..9] };
                assert_eq!(all[0], own);
                let steps: [&[[u8; 4]]; 1] = slices.elements(number, 1, 2);
                assert_eq!(steps[0].as_flattened(), &own[1..]);
            }
        }
        // Each byte of an address has become two.
        let addresses = Im2rowAddresses::of_one_line(2, 3, 1, vec![0]);
        let slices = addresses.tap_slices(|start| &bytes[2 * start..], 2, &padding, 4);
        let found: [&[u8]; 3] = slices.elements(0, 0, 2);
        assert_eq!(found, [[4, 5], [6, 7], [8, 9]]);
        let mut slices = slices;
        slices.restart(1);
        slices.extend(&padding, 0, 1);
        assert_eq!((slices.starts.len(), slices.length()), (1, 1));
        assert_eq!(slices.elements::<u8, 1>(0, 0, 1), [[100]]);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "a panic ends the program")]
    fn nothing_is_beyond_a_slice() {
        type Case = fn(&mut TapSlices<'static>) -> usize;
        fn extended(slices: &mut TapSlices<'static>, distance: usize, rows: usize) -> usize {
            slices.extend(&[0; 17], distance, rows);
            slices.starts.len()
        }
        let cases: [Case; 8] = [
            |slices| extended(slices, 1, 11),
            |slices| extended(slices, 5, 3),
            |slices| extended(slices, usize::MAX / 2, 4),
            |slices| slices.elements::<u8, 3>(0, 0, 1).len(),
            |slices| slices.elements::<u8, 1>(2, 0, 1).len(),
            |slices| slices.elements::<u8, 1>(0, 0, 9).len(),
            |slices| slices.elements::<[u8; 4], 1>(0, 1, 2).len(),
            |slices| slices.elements::<u8, 1>(0, usize::MAX, 1).len(),
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let mut slices = TapSlices::new(8);
            slices.extend(&[0; 9], 1, 2);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                case(&mut slices);
            }));
            assert!(panicked.is_err(), "case {number}");
        }
    }
}
