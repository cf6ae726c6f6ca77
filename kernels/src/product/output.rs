//! Where a product goes.

/// The rows of a result, each from the first column of the product on.
#[derive(Debug)]
pub(crate) enum Output<'a, 'b, T = f32> {
    Matrix(Matrix<'a, T>),
    Parts(Parts<'a, 'b, T>),
}

/// Rows that follow each other in a distance.
#[derive(Debug)]
pub(crate) struct Matrix<'a, T = f32> {
    elements: &'a mut [T],
    stride: usize,
}

/// A part of each row, from a column on. Other threads have the rest.
#[derive(Debug)]
pub(crate) struct Parts<'a, 'b, T = f32> {
    rows: &'a mut [&'b mut [T]],
    column: usize,
}

/// The kernel is compiled for each kind: with one that asks for it in each row, products take 1.03 times as long.
pub(crate) trait OutputRows<T = f32> {
    fn row(&mut self, row: usize) -> &mut [T];
}

impl<T> OutputRows<T> for Matrix<'_, T> {
    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.elements[row * self.stride..]
    }
}

impl<T> OutputRows<T> for Parts<'_, '_, T> {
    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.rows[row][self.column..]
    }
}

impl<'a, 'b, T> Output<'a, 'b, T> {
    pub fn matrix(elements: &'a mut [T], stride: usize) -> Output<'a, 'b, T> {
        Output::Matrix(Matrix { elements, stride })
    }

    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        match self {
            Output::Matrix(output) => output.row(row),
            Output::Parts(output) => output.row(row),
        }
    }

    /// The same rows, from one of their columns on.
    pub fn skip_columns(&mut self, column: usize) -> Output<'_, 'b, T> {
        match self {
            Output::Matrix(it) => Output::matrix(&mut it.elements[column..], it.stride),
            Output::Parts(it) => Output::Parts(Parts { rows: it.rows, column: it.column + column }),
        }
    }

    /// The rows of a whole matrix with so many of them as one.
    pub fn with_rows_joined(self, count: usize) -> Output<'a, 'b, T> {
        match self {
            Output::Matrix(it) => Output::matrix(it.elements, it.stride * count),
            Output::Parts(_) if count == 1 => self,
            Output::Parts(_) => unreachable!("parts of rows do not follow each other"),
        }
    }

    /// The same without the first rows.
    pub fn skip_rows(&mut self, rows: usize) -> Output<'_, 'b, T> {
        match self {
            Output::Matrix(it) => Output::matrix(&mut it.elements[rows * it.stride..], it.stride),
            Output::Parts(it) => {
                Output::Parts(Parts { rows: &mut it.rows[rows..], column: it.column })
            }
        }
    }
}

/// What a thread writes of a matrix.
#[derive(Debug)]
pub(crate) enum Share<'a, T = f32> {
    /// Whole rows of so many columns.
    Rows(&'a mut [T], usize),
    /// A part of each row.
    Columns(Vec<&'a mut [T]>),
}

impl<'a, T> Share<'a, T> {
    /// The columns of a matrix up to each of these, the last of which is the end of a row.
    pub fn of_columns(matrix: &'a mut [T], columns: usize, ends: &[usize]) -> Vec<Share<'a, T>> {
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

    pub fn output(&mut self) -> Output<'_, 'a, T> {
        match self {
            Share::Rows(elements, columns) => Output::matrix(elements, *columns),
            Share::Columns(rows) => Output::Parts(Parts { rows, column: 0 }),
        }
    }
}
