//! Which elements the rows of operand A have: where each tap of each row begins, in bytes.

/// What a tap has in place of its start, where it is in the padding.
pub(crate) const PADDING: usize = usize::MAX;

/// The im2row addresses of some rows: where each tap begins.
#[derive(Debug)]
pub(crate) enum Im2rowAddresses {
    /// For each row, each of so many taps, or [`PADDING`].
    Each {
        starts: Vec<usize>,
        taps: usize,
    },
    Strided(StridedLines),
}

/// Some lines of rows, in which these are at equal distances, and have their taps at the same places.
#[derive(Debug)]
pub(crate) struct StridedLines {
    /// How far a row begins behind the one before it.
    pub distance: usize,
    /// Where each tap begins, from the begin of its row on.
    pub taps: Vec<usize>,
    /// In ascending order.
    pub lines: Vec<StridedLine>,
}

/// Where the first row of a line begins, and how many rows it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StridedLine {
    pub start: usize,
    pub rows: usize,
}

impl Im2rowAddresses {
    /// So many rows at equal distances, from `start` on, whose taps begin there.
    pub fn of_one_line(
        start: usize,
        rows: usize,
        distance: usize,
        taps: Vec<usize>,
    ) -> Im2rowAddresses {
        let lines = vec![StridedLine { start, rows }];
        Im2rowAddresses::Strided(StridedLines { distance, taps, lines })
    }

    /// Where a tap of a row begins, or [`PADDING`].
    #[inline(always)]
    pub fn start(&self, mut row: usize, tap: usize) -> usize {
        match self {
            Im2rowAddresses::Each { starts, taps } => starts[row * taps + tap],
            Im2rowAddresses::Strided(StridedLines { distance, taps, lines }) => {
                let mut line = lines[0];
                for next in &lines[1..] {
                    if row < line.rows {
                        break;
                    }
                    row -= line.rows;
                    line = *next;
                }
                line.start + row * distance + taps[tap]
            }
        }
    }

    /// Where the first tap begins, and the last one, but for those in the padding.
    pub fn range(&self) -> Option<[usize; 2]> {
        match self {
            Im2rowAddresses::Each { starts, .. } => {
                let starts = starts.iter().copied().filter(|start| *start != PADDING);
                starts.clone().min().zip(starts.max()).map(|(first, last)| [first, last])
            }
            Im2rowAddresses::Strided(StridedLines { distance, taps, lines }) => {
                let last = lines.last()?;
                let last = last.start + (last.rows.max(1) - 1) * distance + taps.last()?;
                Some([lines[0].start, last])
            }
        }
    }

    /// The addresses of bytes in codes that have two, without so many codes at the begin.
    pub fn of_widened(mut self, count: usize) -> Im2rowAddresses {
        let place = |start: &mut usize| *start = 2 * (*start - count);
        match &mut self {
            Im2rowAddresses::Each { starts, .. } => {
                starts.iter_mut().filter(|start| **start != PADDING).for_each(place);
            }
            Im2rowAddresses::Strided(StridedLines { distance, taps, lines }) => {
                *distance *= 2;
                taps.iter_mut().for_each(|tap| *tap *= 2);
                lines.iter_mut().for_each(|line| place(&mut line.start));
            }
        }
        self
    }
}
