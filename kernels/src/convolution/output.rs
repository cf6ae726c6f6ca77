//! Where a convolution writes, and what it adds.

use crate::product::Output;

/// Where rows of channels are written to: all of them, or some that follow each other. Rows and strides are in bytes.
pub(crate) struct OutputRows<'a> {
    pub rows: Output<'a, u8>,
    /// The bytes of an element.
    pub size: usize,
    /// The channel that each row begins with.
    pub first_channel: usize,
    /// The residual: elements that are added, from the first channel of all on. It is empty if nothing is added.
    pub residual: &'a [u8],
    /// How far rows of the residual are apart; `rows` know that of the output.
    pub stride: usize,
}

impl<'a> OutputRows<'a> {
    /// The rows without the first ones.
    pub fn skip_rows(&mut self, rows: usize) -> OutputRows<'_> {
        let residual = self.residual.get(rows * self.stride..).unwrap_or(&[]);
        OutputRows { rows: self.rows.skip_rows(rows), residual, ..*self }
    }

    /// The rows with so many joined as one, of so many times the channels.
    pub fn with_rows_joined(self, count: usize) -> OutputRows<'a> {
        let (rows, stride) = (self.rows.with_rows_joined(count), self.stride * count);
        OutputRows { rows, stride, ..self }
    }

    /// What is added from a byte of a row on.
    #[inline(always)]
    pub fn residual(&self, row: usize, byte: usize) -> &'a [u8] {
        &self.residual[row * self.stride + byte..]
    }

    /// The rows from a channel on.
    #[inline(always)]
    pub fn behind_channel(&mut self, channel: usize) -> Output<'_, u8> {
        self.rows.skip_columns((channel - self.first_channel) * self.size)
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
