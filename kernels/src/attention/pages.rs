//! Keys and values that grow from run to run.
//!
//! A sequence is a list of pages, each with some positions, packed as products read them. Tensors share their pages: what is
//! appended makes new ones, and a copy of the last one if it is not full. So a copy of a sequence costs nothing, and a beam that
//! several others continue is there once.
//!
//! The pages that a run adds are one piece of memory. As pieces of their own, among which large tensors come and go, they would cost
//! many times the memory that they need.

use std::fmt;

use tract_core::internal::*;
use tract_core::tract_data::internal::{PlainStorage, TensorStorage};

use super::codes::{CodeRange, PageCodes};
use crate::checks::{checked_volume, ensure_allocatable, expect_input_count, listed};
use crate::product::{Element, Tile, Vectors, convert_panel};

const OPERATOR: &str = "AppendToPages";

/// Which factor of attention it is. Each is packed in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PagedFactor {
    /// Keys: products of queries and these are scores.
    Keys,
    /// Values: products of weights and these are the result.
    Values,
}

/// What keys and values of earlier positions are kept as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePrecision {
    /// As they are.
    #[default]
    F32,
    /// Bytes: the elements of a position, of one head, are rounded to 256 numbers in even steps from the least to the greatest of them.
    /// All of them are NaN, if one or the difference of these two is not finite.
    U8,
}

/// What pages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageFormat {
    /// Whether they have keys or values.
    pub factor: PagedFactor,
    /// What these are kept as.
    pub precision: CachePrecision,
}

impl fmt::Display for PageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} as {:?}", self.factor, self.precision)
    }
}

impl PageFormat {
    /// What is known of a tensor in pages, of this shape: `[.., positions, elements]`, of type F32.
    pub fn fact(self, shape: impl Into<ShapeFact>) -> TypedFact {
        f32::fact(shape).with_exotic_fact(PagedFact(self))
    }

    /// A tensor of type F32 and shape `[.., positions, elements]`, in pages.
    ///
    /// # Errors
    ///
    /// It is of another type, or has fewer than two axes, or no elements in a position; or there is no memory.
    pub fn pack(self, tensor: &Tensor) -> TractResult<Tensor> {
        let shape = tensor.shape();
        let factor = self.factor;
        let [.., count, width] = *shape else {
            bail!("{factor:?} have shape {shape:?}, but must have [.., positions, elements]")
        };
        ensure!(width > 0, "{factor:?} have shape {shape:?}, but must have elements");
        let elements = tensor.try_as_plain_ram()?.as_slice::<f32>()?;
        let layout = PageLayout { format: self, width, tile: Tile::of(Vectors::detect()) };
        let empty = Pages { layout, length: 0, sequences: vec![] };
        let pages = match checked_volume(OPERATOR, shape)? {
            0 => Pages { length: count, ..empty },
            _ => {
                let sequences: usize = shape[..shape.len() - 2].iter().product();
                let sources: Vec<_> = (0..sequences).map(Some).collect();
                empty.append(&sources, count, elements)?
            }
        };
        Ok(Tensor::from_storage(f32::datum_type(), shape, pages))
    }
}

/// What a model knows of a tensor in pages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PagedFact(PageFormat);

impl ExoticFact for PagedFact {
    fn buffer_sizes(&self) -> TVec<TDim> {
        tvec!()
    }
}

/// How pages are packed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageLayout {
    pub format: PageFormat,
    /// The number of elements in a position.
    pub width: usize,
    pub tile: Tile,
}

impl PageLayout {
    /// How many positions a page has room for: whole panels of keys, and few, as the last page is copied in each run.
    pub fn room(self) -> usize {
        32usize.next_multiple_of(self.tile.columns)
    }

    /// How many elements a page has.
    pub fn page_size<T: Element>(self) -> usize {
        self.size_of_positions::<T>(self.room())
    }

    /// How many elements so many positions have, packed as one page.
    pub fn size_of_positions<T: Element>(self, positions: usize) -> usize {
        match self.format.factor {
            PagedFactor::Keys => positions * T::count(self.width),
            PagedFactor::Values => {
                T::count(positions) * self.width.next_multiple_of(self.tile.lanes)
            }
        }
    }

    /// Makes other elements of a page, in one of so many positions: there are so many of them before. Those of the last page end with
    /// zeros.
    pub fn convert<T: Element>(
        self,
        numbers: &[f32],
        before: usize,
        positions: usize,
        packed: &mut [T],
    ) {
        let (width, columns, room) = (self.width, self.tile.columns, self.room());
        match self.format.factor {
            PagedFactor::Keys => {
                let depth = T::count(width);
                let page = &mut packed[before * depth..][..room * depth];
                let panels = page.chunks_exact_mut(columns * depth);
                for (numbers, panel) in numbers.chunks_exact(columns * width).zip(panels) {
                    convert_panel(numbers, columns, panel);
                }
            }
            PagedFactor::Values => {
                let depth = T::count(positions);
                let end = match before + room == positions {
                    true => depth,
                    false => (before + room) / T::STEPS,
                };
                let steps = before / T::STEPS..end;
                for first in (0..width).step_by(columns) {
                    let columns = self.columns_of_values(first);
                    let numbers = &numbers[first * room..][..columns * room];
                    let panel = &mut packed[first * depth..][..columns * depth];
                    let part = &mut panel[steps.start * columns..steps.end * columns];
                    convert_panel(numbers, columns, part);
                }
            }
        }
    }

    /// How many numbers a page is kept as, and how many codes.
    fn sizes(self) -> (usize, usize) {
        match self.format.precision {
            CachePrecision::F32 => (self.page_size::<f32>(), 0),
            CachePrecision::U8 => (2 * self.room(), self.page_size::<f32>()),
        }
    }

    /// How many columns the panel of values that begins with this one has.
    pub fn columns_of_values(self, first: usize) -> usize {
        (self.width - first).min(self.tile.columns).next_multiple_of(self.tile.lanes)
    }

    /// Writes a position into its place of a page. Keys are columns of panels, and values are rows of them.
    fn write<T>(self, page: &mut [T], place: usize, mut elements: impl Iterator<Item = T>) {
        let PageLayout { format, width, tile } = self;
        match format.factor {
            PagedFactor::Keys => {
                let panel = place / tile.columns * tile.columns;
                let column = &mut page[panel * width + place - panel..];
                let places = column.iter_mut().step_by(tile.columns);
                places.zip(elements).for_each(|(place, element)| *place = element);
            }
            PagedFactor::Values => {
                for first in (0..width).step_by(tile.columns) {
                    let columns = self.columns_of_values(first);
                    let row = &mut page[first * self.room() + place * columns..];
                    let row = row[..columns.min(width - first)].iter_mut();
                    row.zip(&mut elements).for_each(|(place, element)| *place = element);
                }
            }
        }
    }
}

/// The storage of a tensor of shape `[.., positions, elements]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pages {
    pub layout: PageLayout,
    /// The number of positions.
    length: usize,
    /// The pages of each sequence. None, if the tensor has no elements: its other sizes may be any.
    sequences: Vec<Vec<Page>>,
}

// It has what tensors have, which are equal to themselves.
impl Eq for Pages {}

/// Some positions, packed: a part of what a run has added.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Page {
    memory: Arc<PageMemory>,
    number: usize,
}

/// The pages of a run.
#[derive(Debug, Clone, PartialEq)]
struct PageMemory {
    /// The numbers of the panels of all pages; or, if they have codes, for each page the least numbers of its positions, and then the steps
    /// between two codes.
    numbers: Vec<f32>,
    codes: Vec<u8>,
}

impl PageMemory {
    fn zeros(layout: PageLayout, pages: usize) -> TractResult<PageMemory> {
        let (numbers, codes) = layout.sizes();
        let numbers = checked_volume(OPERATOR, &[pages, numbers])?;
        let codes = checked_volume(OPERATOR, &[pages, codes])?;
        ensure_allocatable(OPERATOR, numbers.saturating_mul(size_of::<f32>()))?;
        let numbers = vec![0.; numbers];
        ensure_allocatable(OPERATOR, codes)?;
        Ok(PageMemory { numbers, codes: vec![0; codes] })
    }

    /// What a page is kept as.
    fn page_mut(&mut self, layout: PageLayout, number: usize) -> (&mut [f32], &mut [u8]) {
        let (numbers, codes) = layout.sizes();
        let numbers = &mut self.numbers[number * numbers..][..numbers];
        (numbers, &mut self.codes[number * codes..][..codes])
    }

    /// Writes a position.
    fn write(&mut self, layout: PageLayout, number: usize, place: usize, elements: &[f32]) {
        let (numbers, codes) = self.page_mut(layout, number);
        match layout.format.precision {
            CachePrecision::F32 => layout.write(numbers, place, elements.iter().copied()),
            CachePrecision::U8 => {
                let range = CodeRange::of(elements);
                layout.write(codes, place, elements.iter().map(|element| range.code(*element)));
                numbers[place] = range.least;
                numbers[layout.room() + place] = range.scale;
            }
        }
    }
}

/// What a page has.
pub(super) enum PageContents<'a> {
    /// Its panels, and what follows them in memory.
    Numbers(&'a [f32]),
    Codes(PageCodes<'a>),
}

impl Page {
    /// The numbers and the codes that it is kept as.
    fn kept(&self, layout: PageLayout) -> (&[f32], &[u8]) {
        let PageMemory { numbers, codes } = &*self.memory;
        let (of_numbers, of_codes) = layout.sizes();
        let numbers = &numbers[self.number * of_numbers..][..of_numbers];
        (numbers, &codes[self.number * of_codes..][..of_codes])
    }

    pub fn contents(&self, layout: PageLayout) -> PageContents<'_> {
        match layout.format.precision {
            CachePrecision::F32 => PageContents::Numbers(
                &self.memory.numbers[self.number * layout.page_size::<f32>()..],
            ),
            CachePrecision::U8 => {
                let (numbers, codes) = self.kept(layout);
                let (least, scale) = numbers.split_at(layout.room());
                PageContents::Codes(PageCodes { layout, codes, least, scale })
            }
        }
    }
}

impl Pages {
    /// The pages of a tensor.
    pub fn of(tensor: &Tensor, tile: Tile) -> TractResult<&Pages> {
        let pages = tensor.try_storage_as::<Pages>()?;
        let of_pages = pages.layout.tile;
        ensure!(of_pages == tile, "pages for {of_pages:?} meet a product of {tile:?}");
        Ok(pages)
    }

    /// The sequence that begins with this element of the tensor.
    pub fn sequence(&self, element: usize) -> &[Page] {
        &self.sequences[element / (self.length * self.layout.width)]
    }

    /// Sequences that continue some of these, or zeros, with `[sequences, positions, elements]`. There is a sequence, and it has
    /// positions then.
    fn append(&self, sources: &[Option<usize>], count: usize, new: &[f32]) -> TractResult<Pages> {
        let Pages { layout, length, .. } = *self;
        let (room, width) = (layout.room(), layout.width);
        let of_sequence = count * width;
        let after = length + count;
        // Full pages are shared.
        let full = length / room;
        let added = after.div_ceil(room) - full;
        let pages = checked_volume(OPERATOR, &[sources.len(), added])?;
        let all = checked_volume(OPERATOR, &[sources.len(), full + added])?;
        ensure_allocatable(OPERATOR, all.saturating_mul(size_of::<Page>()))?;
        let mut memory = PageMemory::zeros(layout, pages)?;
        // A tensor without elements has no sequences, and these would have no pages.
        let before = |source: usize| self.sequences.get(source).map_or(&[][..], |pages| pages);
        for (number, source) in sources.iter().enumerate() {
            let first = number * added;
            if let Some(page) = source.and_then(|source| before(source).get(full)) {
                let (numbers, codes) = memory.page_mut(layout, first);
                let (of_page, codes_of_page) = page.kept(layout);
                numbers.copy_from_slice(of_page);
                codes.copy_from_slice(codes_of_page);
            }
            let new = new[number * of_sequence..][..of_sequence].chunks_exact(width);
            for (position, elements) in (length - full * room..).zip(new) {
                memory.write(layout, first + position / room, position % room, elements);
            }
        }
        let memory = Arc::new(memory);
        let zeros = match sources.contains(&None) {
            true => {
                vec![Page { memory: Arc::new(PageMemory::zeros(layout, 1)?), number: 0 }; full]
            }
            false => vec![],
        };
        let sequences = sources.iter().enumerate().map(|(number, source)| {
            let mut pages = match source {
                Some(source) => before(*source)[..full].to_vec(),
                None => zeros.clone(),
            };
            let numbers = number * added..(number + 1) * added;
            pages.extend(numbers.map(|number| Page { memory: memory.clone(), number }));
            pages
        });
        let sequences = sequences.collect();
        Ok(Pages { layout, length: after, sequences })
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequences = self.sequences.len();
        write!(f, "{} of {sequences} sequences in pages", self.layout.format)
    }
}

impl TensorStorage for Pages {
    fn byte_len(&self) -> usize {
        let of_element = match self.layout.format.precision {
            CachePrecision::F32 => size_of::<f32>(),
            CachePrecision::U8 => 1,
        };
        // Sequences share pages, so that all of them may be more than there is memory for.
        let sizes = [self.sequences.len(), self.length, self.layout.width];
        sizes.into_iter().fold(of_element, usize::saturating_mul)
    }

    fn is_empty(&self) -> bool {
        self.byte_len() == 0
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        Box::new(self.clone())
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        None
    }

    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        None
    }

    fn into_plain_ram(self: Box<Self>) -> Option<PlainStorage> {
        None
    }

    fn dyn_hash(&self, state: &mut dyn std::hash::Hasher) {
        for page in self.sequences.iter().flatten() {
            let (numbers, codes) = page.kept(self.layout);
            state.write(codes);
            for number in numbers {
                state.write_u32(number.to_bits());
            }
        }
    }

    fn exotic_fact(&self, _shape: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        Ok(Some(Box::new(PagedFact(self.layout.format))))
    }
}

/// Keys or values of earlier positions, which are in pages, and those of new ones after them.
///
/// The inputs are a tensor in pages of shape `[batch, .., positions, elements]`, one in rows of shape
/// `[batch, .., new positions, elements]`, both of type F32, and, if there is a third one, for each index along the first axis
/// which of the earlier ones it continues, integers: numbers below 0 count from their end, and what is not among them gives
/// zeros. The output is in pages, too.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendToPages {
    /// What the pages have.
    pub format: PageFormat,
}

impl_plain_op!(AppendToPages, OPERATOR, info = |op| vec![op.format.to_string()]);

impl AppendToPages {
    fn check_format(&self, before: PageFormat) -> TractResult<()> {
        ensure!(
            before == self.format,
            "{OPERATOR}: the pages have {before}, but must have {}",
            self.format
        );
        Ok(())
    }

    fn shape<D: DimLike>(&self, before: &[D], new: &[D]) -> TractResult<TVec<D>> {
        let axes = before.len();
        let is_fit = axes > 2
            && new.len() == axes
            && before[1..axes - 2] == new[1..axes - 2]
            && before[axes - 1] == new[axes - 1];
        ensure!(
            is_fit,
            "{:?} of shape {new} cannot follow {before}: only the batch and the positions may differ",
            self.format.factor,
            new = listed(new),
            before = listed(before)
        );
        let mut shape: TVec<D> = new.into();
        shape[axes - 2] = before[axes - 2].clone() + &new[axes - 2];
        Ok(shape)
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        expect_input_count(OPERATOR, inputs.len(), 2..=3)?;
        let (before, new) = (&inputs[0], &inputs[1]);
        let PageFormat { factor, .. } = self.format;
        let shape = self.shape(before.shape(), new.shape())?;
        let pages = Pages::of(before, Tile::of(Vectors::detect()))?;
        self.check_format(pages.layout.format)?;
        let batches = before.shape()[0];
        let batch = inputs.get(2).map(|batch| batch.cast_to::<i64>()).transpose()?;
        let batch = batch.as_ref().map(|batch| batch.try_as_plain_ram()).transpose()?;
        let batch = batch.as_ref().map(|batch| batch.as_slice::<i64>()).transpose()?;
        let continued = batch.map_or(batches, |batch| batch.len());
        ensure!(
            continued == new.shape()[0],
            "{continued} sequences are continued by {} of {factor:?}",
            new.shape()[0]
        );
        let count = new.shape()[shape.len() - 2];
        let pages = match checked_volume(OPERATOR, &shape)? {
            0 => Pages { layout: pages.layout, length: shape[shape.len() - 2], sequences: vec![] },
            _ => {
                let source = |number: usize| match batch {
                    Some(batch) => {
                        let index = i128::from(batch[number]);
                        let index = if index < 0 { index + batches as i128 } else { index };
                        usize::try_from(index).ok().filter(|index| *index < batches)
                    }
                    None => Some(number),
                };
                let inner: usize = shape[1..shape.len() - 2].iter().product();
                let sources = (0..continued).flat_map(|number| {
                    let batch = source(number);
                    (0..inner).map(move |it| batch.map(|batch| batch * inner + it))
                });
                let sources: Vec<Option<usize>> = sources.collect();
                pages.append(&sources, count, new.try_as_plain_ram()?.as_slice()?)?
            }
        };
        Ok(Tensor::from_storage(f32::datum_type(), &shape, pages))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count(OPERATOR, inputs.len(), 2..=3)?;
        let before = inputs[0].exotic_fact.as_ref().and_then(|it| it.downcast_ref::<PagedFact>());
        let before = before.with_context(|| {
            format!("{OPERATOR}: input 0 is {:?}, but must be in pages", inputs[0])
        })?;
        self.check_format(before.0)?;
        let shape = self.shape(&inputs[0].shape, &inputs[1].shape)?;
        Ok(self.format.fact(shape))
    }
}
