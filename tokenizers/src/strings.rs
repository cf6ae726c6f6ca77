//! Strings and rows of strings, as tensors have them: where each begins and ends, and the bytes of all.
//!
//! Everything is checked once, when a view is made: later code may rely on what its fields say.

use tract_core::internal::*;

/// The strings of three tensors: begins and ends (`i32`, of one shape) and bytes (`u8`).
#[derive(Clone, Copy)]
pub(crate) struct Strings<'a> {
    begins: &'a [i32],
    ends: &'a [i32],
    bytes: &'a [u8],
}

/// Rows of elements: where the elements of each row begin and end (`i32`, of one shape).
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    begins: &'a [i32],
    ends: &'a [i32],
}

/// The elements of a tensor of this type.
pub(crate) fn slice<'a, T: Datum>(tensor: &'a Tensor, what: &str) -> TractResult<&'a [T]> {
    ensure!(
        tensor.datum_type() == T::datum_type(),
        "{what} are of type {:?}, but must be {:?}",
        tensor.datum_type(),
        T::datum_type()
    );
    tensor.try_as_plain_ram()?.as_slice::<T>()
}

/// The only element of a tensor of integers.
pub(crate) fn integer(tensor: &Tensor, what: &str) -> TractResult<i64> {
    ensure!(tensor.len() == 1, "{what} has shape {:?}, but must be one element", tensor.shape());
    ensure!(
        tensor.datum_type().is_integer() || tensor.datum_type() == DatumType::Bool,
        "{what} is of type {:?}, but must be an integer",
        tensor.datum_type()
    );
    Ok(slice::<i64>(&*tensor.cast_to::<i64>()?, what)?[0])
}

/// Checks that ranges are ranges, within a number of elements.
fn check_ranges(begins: &[i32], ends: &[i32], len: usize, what: &str, of: &str) -> TractResult<()> {
    ensure!(
        begins.len() == ends.len(),
        "the {what} have {} begins, but {} ends",
        begins.len(),
        ends.len()
    );
    for (number, (&begin, &end)) in begins.iter().zip(ends).enumerate() {
        // As unsigned numbers, negative ones are too large.
        if begin as u32 > end as u32 || end as u32 as usize > len || end < 0 {
            bail!("{what}[{number}] is {begin}..{end}, but must be a range within the {len} {of}")
        }
    }
    Ok(())
}

impl<'a> Strings<'a> {
    /// The strings of three tensors.
    pub fn new(inputs: &[&'a Tensor]) -> TractResult<Strings<'a>> {
        let [begins, ends, bytes] = inputs else { bail!("strings are three tensors") };
        let begins = slice(begins, "the begins of strings")?;
        let ends = slice(ends, "the ends of strings")?;
        let bytes = slice(bytes, "the bytes of strings")?;
        check_ranges(begins, ends, bytes.len(), "strings", "bytes")?;
        Ok(Strings { begins, ends, bytes })
    }

    /// The strings of three inputs.
    pub fn of(inputs: &'a [TValue]) -> TractResult<Strings<'a>> {
        ensure!(inputs.len() >= 3, "strings are three tensors, but {} are left", inputs.len());
        Strings::new(&[&inputs[0], &inputs[1], &inputs[2]])
    }

    pub fn len(&self) -> usize {
        self.begins.len()
    }

    /// The bytes of all strings.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn begin(&self, number: usize) -> usize {
        self.begins[number] as usize
    }

    pub fn end(&self, number: usize) -> usize {
        self.ends[number] as usize
    }

    pub fn get(&self, number: usize) -> &'a [u8] {
        &self.bytes[self.begin(number)..self.end(number)]
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let strings = *self;
        (0..self.len()).map(move |number| strings.get(number))
    }
}

impl<'a> Rows<'a> {
    /// Rows of so many elements. The two tensors have where each begins and ends.
    pub fn new(begins: &'a Tensor, ends: &'a Tensor, elements: usize) -> TractResult<Rows<'a>> {
        let begins = slice(begins, "the begins of rows")?;
        let ends = slice(ends, "the ends of rows")?;
        check_ranges(begins, ends, elements, "rows", "elements")?;
        Ok(Rows { begins, ends })
    }

    pub fn len(&self) -> usize {
        self.begins.len()
    }

    pub fn get(&self, row: usize) -> std::ops::Range<usize> {
        self.begins[row] as usize..self.ends[row] as usize
    }

    pub fn iter(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<'a> {
        let rows = *self;
        (0..self.len()).map(move |row| rows.get(row))
    }
}

/// Rows of strings, of five inputs.
pub(crate) fn rows_of_strings(inputs: &[TValue]) -> TractResult<(Rows<'_>, Strings<'_>)> {
    ensure!(inputs.len() >= 5, "rows of strings are five tensors, but there are {}", inputs.len());
    let strings = Strings::of(&inputs[2..])?;
    Ok((Rows::new(&inputs[0], &inputs[1], strings.len())?, strings))
}

/// An offset, as tensors have it.
pub(crate) fn offset(offset: usize) -> TractResult<i32> {
    let offset = i32::try_from(offset);
    offset.ok().context("the outputs have more elements than offsets of 32 bits can count")
}

/// Ranges that are written one after the other.
#[derive(Default)]
pub(crate) struct Ranges {
    pub begins: Vec<i32>,
    pub ends: Vec<i32>,
}

impl Ranges {
    pub fn with_capacity(count: usize) -> Ranges {
        Ranges { begins: Vec::with_capacity(count), ends: Vec::with_capacity(count) }
    }

    pub fn push(&mut self, begin: usize, end: usize) -> TractResult<()> {
        self.begins.push(offset(begin)?);
        self.ends.push(offset(end)?);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.begins.len()
    }

    pub fn into_tensors(self, shape: &[usize]) -> TractResult<[Tensor; 2]> {
        Ok([vector(self.begins).into_shape(shape)?, vector(self.ends).into_shape(shape)?])
    }
}

/// A tensor of rank 1.
pub(crate) fn vector<T: Datum>(elements: Vec<T>) -> Tensor {
    // This takes the elements as they are, where `tensor1` copies them.
    Tensor::from(tract_core::ndarray::Array1::from_vec(elements))
}

/// Strings that are made one after the other.
pub(crate) struct NewStrings {
    ranges: Ranges,
    pub bytes: Vec<u8>,
}

impl NewStrings {
    pub fn with_capacity(strings: usize, bytes: usize) -> NewStrings {
        NewStrings { ranges: Ranges::with_capacity(strings), bytes: Vec::with_capacity(bytes) }
    }

    /// The next string is what was added to the bytes since this position.
    pub fn end(&mut self, begin: usize) -> TractResult<()> {
        self.ranges.push(begin, self.bytes.len())
    }

    pub fn push(&mut self, string: &[u8]) -> TractResult<()> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(string);
        self.end(begin)
    }

    /// Begins and ends of this shape, and bytes.
    pub fn into_tensors(self, shape: &[usize]) -> TractResult<TVec<Tensor>> {
        let [begins, ends] = self.ranges.into_tensors(shape)?;
        Ok(tvec!(begins, ends, vector(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let bytes = tensor1(b"abc");
        let view = |begins: &[i32], ends: &[i32]| {
            let (begins, ends) = (tensor1(begins), tensor1(ends));
            let strings =
                Strings::new(&[&begins, &ends, &bytes]).map_err(|error| error.to_string());
            strings.map(|strings| strings.iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        assert_eq!(view(&[1, 0], &[3, 0]), Ok(vec![b"bc".to_vec(), vec![]]));
        for (begins, ends) in
            [([0, 2], [1, 1]), ([0, 1], [1, 4]), ([0, -1], [1, 1]), ([0, -2], [1, -1])]
        {
            let error = view(&begins, &ends).unwrap_err();
            assert!(error.starts_with("strings[1] is ") && error.contains("3 bytes"), "{error}");
        }
        assert!(view(&[0], &[1, 2]).unwrap_err().contains("1 begins, but 2 ends"));
    }
}
