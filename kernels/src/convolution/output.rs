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
    /// How far rows of the residual are apart; `rows` know that of the output.
    pub stride: usize,
}

/// What is added to sums, if something is.
#[derive(Clone, Copy)]
pub(crate) enum Residual<'a> {
    /// These elements, from the first channel of all on. They are none if nothing is added.
    Elements(&'a [u8]),
    /// What is in the output, in the place of each sum.
    Output,
}

impl<'a> Residual<'a> {
    /// Without the first bytes.
    pub fn skip(self, bytes: usize) -> Residual<'a> {
        match self {
            Residual::Elements(elements) => {
                Residual::Elements(elements.get(bytes..).unwrap_or(&[]))
            }
            Residual::Output => Residual::Output,
        }
    }
}

impl<'a> OutputRows<'a> {
    /// The rows without the first ones.
    pub fn skip_rows(&mut self, rows: usize) -> OutputRows<'_> {
        let residual = self.residual.skip(rows * self.stride);
        OutputRows { rows: self.rows.skip_rows(rows), residual, ..*self }
    }

    /// The rows with so many joined as one, of so many times the channels.
    pub fn with_rows_joined(self, count: usize) -> OutputRows<'a> {
        let (rows, stride) = (self.rows.with_rows_joined(count), self.stride * count);
        OutputRows { rows, stride, ..self }
    }

    /// What is added from a byte of a row on, if it is not in the output.
    #[inline(always)]
    pub fn residual(&self, row: usize, byte: usize) -> &'a [u8] {
        let Residual::Elements(elements) = self.residual else {
            unreachable!("codes are not written over those that are added")
        };
        &elements[row * self.stride + byte..]
    }

    /// What is added to so many elements of some rows, from a channel on. An element that is added has as many bytes as one of the output.
    #[inline(always)]
    pub fn residuals<const R: usize>(
        &mut self,
        first_row: usize,
        channel: usize,
        width: usize,
    ) -> [&[u8]; R] {
        let mut residuals = [&[][..]; R];
        match self.residual {
            Residual::Elements(elements) => {
                for (row, residual) in residuals.iter_mut().enumerate() {
                    let begin = (first_row + row) * self.stride + channel * self.size;
                    *residual = &elements[begin..][..width * self.size];
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
        &mut self.rows.row(row)[(channel - self.first_channel) * self.size..][..width * self.size]
    }
}
