//! Where a convolution writes, and what it adds.

use crate::product::Output;

/// Where rows of channels are written to: all of them, or some that follow each other. Rows and strides are in bytes.
pub(crate) struct OutputRows<'a> {
    pub rows: Output<'a, u8>,
    /// The bytes of an element.
    pub size: usize,
    /// The channel that each row begins with.
    pub first_channel: usize,
    pub residual: Residual<'a>,
}

/// What is added to sums, if something is.
#[derive(Clone, Copy)]
pub(crate) enum Residual<'a> {
    /// Elements of so many bytes each, from the first channel of all on, in rows that are so far apart.
    Elements { bytes: &'a [u8], size: usize, stride: usize },
    /// What is in the output, in the place of each sum.
    Output,
}

impl<'a> Residual<'a> {
    /// Where nothing is added.
    pub const NONE: Residual<'static> = Residual::Elements { bytes: &[], size: 0, stride: 0 };

    /// Without the first rows.
    pub fn skip_rows(self, rows: usize) -> Residual<'a> {
        match self {
            Residual::Elements { bytes, size, stride } => {
                let bytes = bytes.get(rows * stride..).unwrap_or(&[]);
                Residual::Elements { bytes, size, stride }
            }
            Residual::Output => Residual::Output,
        }
    }

    /// The bytes of an element, if those of the output have so many.
    #[inline(always)]
    pub fn size(self, of_output: usize) -> usize {
        match self {
            Residual::Elements { size, .. } => size,
            Residual::Output => of_output,
        }
    }
}

impl<'a> OutputRows<'a> {
    /// The rows without the first ones.
    pub fn skip_rows(&mut self, rows: usize) -> OutputRows<'_> {
        let residual = self.residual.skip_rows(rows);
        OutputRows { rows: self.rows.skip_rows(rows), residual, ..*self }
    }

    /// The rows with so many joined as one, of so many times the channels.
    pub fn with_rows_joined(self, count: usize) -> OutputRows<'a> {
        let residual = match self.residual {
            Residual::Elements { bytes, size, stride } => {
                Residual::Elements { bytes, size, stride: stride * count }
            }
            Residual::Output => Residual::Output,
        };
        OutputRows { rows: self.rows.with_rows_joined(count), residual, ..self }
    }

    /// What is added from a byte of a row on, if it is not in the output.
    #[inline(always)]
    pub fn residual(&self, row: usize, byte: usize) -> &'a [u8] {
        let Residual::Elements { bytes, stride, .. } = self.residual else {
            unreachable!("codes are not written over those that are added")
        };
        &bytes[row * stride + byte..]
    }

    /// What is added to so many elements of some rows, from a channel on.
    #[inline(always)]
    pub fn residuals<const R: usize>(
        &mut self,
        first_row: usize,
        channel: usize,
        width: usize,
    ) -> [&[u8]; R] {
        let mut residuals = [&[][..]; R];
        match self.residual {
            Residual::Elements { bytes, size, stride } => {
                for (row, residual) in residuals.iter_mut().enumerate() {
                    let begin = (first_row + row) * stride + channel * size;
                    *residual = &bytes[begin..][..width * size];
                }
            }
            Residual::Output => {
                let rows = self.rows::<R>(first_row, channel, width);
                for (residual, row) in residuals.iter_mut().zip(rows) {
                    *residual = row;
                }
            }
        }
        residuals
    }

    /// So many elements from a channel on, of some rows.
    #[inline(always)]
    pub fn rows<const R: usize>(
        &mut self,
        first_row: usize,
        channel: usize,
        width: usize,
    ) -> [&mut [u8]; R] {
        let first = (channel - self.first_channel) * self.size;
        self.rows.rows(first_row, first..first + width * self.size)
    }

    /// So many elements from a channel of a row on.
    #[inline(always)]
    pub fn row(&mut self, row: usize, channel: usize, width: usize) -> &mut [u8] {
        let [row] = self.rows::<1>(row, channel, width);
        row
    }

    /// So many elements from a channel on, of so many rows, and what is in [`Residual::Elements`] for them.
    #[inline(always)]
    pub fn each_row(
        &mut self,
        first_row: usize,
        count: usize,
        channel: usize,
        width: usize,
    ) -> impl Iterator<Item = (&mut [u8], &[u8])> {
        let first = (channel - self.first_channel) * self.size;
        let rows = self.rows.each_row(first_row, count, first..first + width * self.size);
        let (residuals, stride, of_row) = match self.residual {
            Residual::Elements { bytes, size, stride } if size > 0 => {
                (&bytes[first_row * stride + channel * size..], stride, width * size)
            }
            _ => (&[][..], 0, 0),
        };
        rows.enumerate().map(move |(row, places)| (places, &residuals[row * stride..][..of_row]))
    }
}
