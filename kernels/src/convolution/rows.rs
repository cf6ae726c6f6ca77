//! Which elements the rows of operand A have: where each tap of each row begins, in bytes.

/// What a tap has in place of its start, where it is in the padding.
pub(crate) const PADDING: usize = usize::MAX;

/// Fewer rows are multiplied in vectors, also where the processor has a matrix unit.
pub(crate) const LEAST_ROWS_FOR_AMX: usize = 3;

/// The im2row addresses of some rows: where each tap begins.
#[derive(Debug)]
pub(crate) enum Im2rowAddresses {
    /// Tap by tap: where it begins in each row.
    Each {
        /// How far a row of a run begins behind the one before it.
        distance: usize,
        runs: Vec<RunOfRows>,
    },
    Strided(StridedLines),
}

/// Rows that follow each other and begin at equal distances: where the first one begins. Of a tap, where that of the first row begins,
/// or [`PADDING`] for all.
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
    /// Where each row begins.
    fn starts(self, distance: usize) -> impl Iterator<Item = usize> {
        (0..self.rows).map(move |row| self.start + row * distance)
    }

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

    /// The lines whose rows a matrix unit multiplies, if there are enough for one.
    pub fn lines_for_amx(&self) -> Option<&StridedLines> {
        match self {
            Im2rowAddresses::Strided(lines) => {
                let rows: usize = lines.lines.iter().map(|line| line.rows).sum();
                (rows >= LEAST_ROWS_FOR_AMX && lines.distance > 0).then_some(lines)
            }
            Im2rowAddresses::Each { .. } => None,
        }
    }

    /// What the taps of all rows meet: those of the first tap, then those of the next one. `at` is what begins at an address.
    pub fn tap_slices<'b>(
        &self,
        at: impl Fn(usize) -> &'b [u8],
        padding: &'b [u8],
    ) -> Vec<&'b [u8]> {
        let mut all = vec![];
        match self {
            Im2rowAddresses::Each { distance, runs } => {
                all.reserve(runs.iter().map(|run| run.rows).sum());
                for run in runs {
                    match run.start {
                        PADDING => all.extend(std::iter::repeat_n(padding, run.rows)),
                        _ => all.extend(run.starts(*distance).map(&at)),
                    }
                }
            }
            Im2rowAddresses::Strided(StridedLines { distance, tap_offsets, lines }) => {
                all.reserve(tap_offsets.len() * lines.iter().map(|line| line.rows).sum::<usize>());
                for tap in tap_offsets {
                    for line in lines {
                        all.extend(line.starts(*distance).map(|start| at(start + tap)));
                    }
                }
            }
        }
        all
    }

    /// Where the first tap begins, and the last one, but for those in the padding.
    pub fn range(&self) -> Option<[usize; 2]> {
        match self {
            Im2rowAddresses::Each { distance, runs } => {
                let runs = runs.iter().filter(|run| run.start != PADDING);
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
