//! Where a product goes.

/// The rows of a result, each from the first column of the product on.
#[derive(Debug)]
pub(crate) enum Output<'a, 'b> {
    Matrix(Matrix<'a>),
    Parts(Parts<'a, 'b>),
}

/// Rows that follow each other in a distance.
#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    elements: &'a mut [f32],
    stride: usize,
}

/// A part of each row, from a column on. Other threads have the rest.
#[derive(Debug)]
pub(crate) struct Parts<'a, 'b> {
    rows: &'a mut [&'b mut [f32]],
    column: usize,
}

/// The kernel is compiled for each kind: with one that asks for it in each row, products take 1.03 times as long.
pub(crate) trait OutputRows {
    fn row(&mut self, row: usize) -> &mut [f32];
}

impl OutputRows for Matrix<'_> {
    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.elements[row * self.stride..]
    }
}

impl OutputRows for Parts<'_, '_> {
    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.rows[row][self.column..]
    }
}

impl<'a, 'b> Output<'a, 'b> {
    pub fn matrix(elements: &'a mut [f32], stride: usize) -> Output<'a, 'b> {
        Output::Matrix(Matrix { elements, stride })
    }

    pub fn row(&mut self, row: usize) -> &mut [f32] {
        match self {
            Output::Matrix(output) => output.row(row),
            Output::Parts(output) => output.row(row),
        }
    }

    /// The same rows, from one of their columns on.
    pub fn skip_columns(&mut self, column: usize) -> Output<'_, 'b> {
        match self {
            Output::Matrix(it) => Output::matrix(&mut it.elements[column..], it.stride),
            Output::Parts(it) => Output::Parts(Parts { rows: it.rows, column: it.column + column }),
        }
    }
}

/// What a thread writes of a matrix.
#[derive(Debug)]
pub(crate) enum Share<'a> {
    /// Whole rows of so many columns.
    Rows(&'a mut [f32], usize),
    /// A part of each row.
    Columns(Vec<&'a mut [f32]>),
}

impl<'a> Share<'a> {
    /// The columns of a matrix up to each of these, the last of which is the end of a row.
    pub fn of_columns(matrix: &'a mut [f32], columns: usize, ends: &[usize]) -> Vec<Share<'a>> {
        if ends.len() == 1 {
            return vec![Share::Rows(matrix, columns)];
        }
        let rows = matrix.len() / columns;
        let mut parts: Vec<_> = ends.iter().map(|_| Vec::with_capacity(rows)).collect();
        for mut row in matrix.chunks_exact_mut(columns) {
            let mut first = 0;
            for (part, end) in parts.iter_mut().zip(ends) {
                let (elements, others) = row.split_at_mut(end - first);
                part.push(elements);
                (row, first) = (others, *end);
            }
        }
        parts.into_iter().map(Share::Columns).collect()
    }

    pub fn output(&mut self) -> Output<'_, 'a> {
        match self {
            Share::Rows(elements, columns) => Output::matrix(elements, *columns),
            Share::Columns(rows) => Output::Parts(Parts { rows, column: 0 }),
        }
    }
}
