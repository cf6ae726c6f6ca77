//! Keys and values that grow from run to run.
//!
//! A sequence is a list of pages, each with some positions, packed as products read them. Tensors share their pages: what is
//! appended makes new ones, and a copy of the last one if it is not full. So a copy of a sequence costs nothing, and a beam that
//! several others continue is there once.
//!
//! The pages that a run adds are one piece of memory. As pieces of their own, among which large tensors come and go, those of
//! 1,024 tokens cost 330 MiB in a language model that needs 25 for them.

use std::fmt;

use tract_core::internal::*;
use tract_core::tract_data::internal::{PlainStorage, TensorStorage};

use crate::checks::{checked_volume, expect_input_count, volume};
use crate::product::{Tile, Vectors};

/// Which factor of attention it is. Each is packed in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PagedFactor {
    /// Keys: products of queries and these are scores.
    Keys,
    /// Values: products of weights and these are the result.
    Values,
}

impl PagedFactor {
    /// What is known of a tensor in pages, of this shape: `[.., positions, elements]`, of type F32.
    pub fn fact(self, shape: impl Into<ShapeFact>) -> TypedFact {
        f32::fact(shape).with_exotic_fact(PagedFact(self))
    }

    /// A tensor of type F32 and shape `[.., positions, elements]`, in pages.
    ///
    /// # Errors
    ///
    /// It is of another type, or has fewer than two axes, or no elements in a position.
    pub fn pack(self, tensor: &Tensor) -> TractResult<Tensor> {
        let shape = tensor.shape();
        let [.., _, width] = *shape else {
            bail!("{self:?} have shape {shape:?}, but must have [.., positions, elements]")
        };
        ensure!(width > 0, "{self:?} have shape {shape:?}, but must have elements");
        let elements = tensor.try_as_plain_ram()?;
        let elements = elements.as_slice::<f32>()?;
        let sequences = shape[..shape.len() - 2].iter().product();
        let tile = Tile::of(Vectors::detect());
        let empty =
            Pages { factor: self, width, length: 0, tile, sequences: vec![vec![]; sequences] };
        let sources: Vec<_> = (0..sequences).map(Some).collect();
        Ok(Tensor::from_storage(f32::datum_type(), shape, empty.append(&sources, elements)?))
    }
}

/// What a model knows of a tensor in pages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PagedFact(PagedFactor);

impl ExoticFact for PagedFact {
    fn buffer_sizes(&self) -> TVec<TDim> {
        tvec!()
    }
}

/// The storage of a tensor of shape `[.., positions, elements]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pages {
    factor: PagedFactor,
    /// The number of elements in a position.
    width: usize,
    /// The number of positions.
    length: usize,
    tile: Tile,
    sequences: Vec<Vec<Page>>,
}

// It has what tensors have, which are equal to themselves.
impl Eq for Pages {}

/// Some positions, packed: a part of what a run has added.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Page {
    memory: Arc<Vec<f32>>,
    begin: usize,
}

impl Page {
    /// From the first panel to the end of the memory.
    pub fn panels(&self) -> &[f32] {
        &self.memory[self.begin..]
    }
}

impl Pages {
    /// How many positions a page has room for: whole panels of keys, and few, as the last one is copied in each run.
    pub fn positions(tile: Tile) -> usize {
        32usize.next_multiple_of(tile.columns)
    }

    /// The pages of a tensor.
    pub fn of(tensor: &Tensor, tile: Tile) -> TractResult<&Pages> {
        let pages = tensor.try_storage_as::<Pages>()?;
        ensure!(pages.tile == tile, "pages for {:?} meet a product of {tile:?}", pages.tile);
        Ok(pages)
    }

    /// The sequence that begins with this element of the tensor.
    pub fn sequence(&self, element: usize) -> &[Page] {
        &self.sequences[element / (self.length * self.width)]
    }

    /// The elements of a page.
    fn page_size(&self) -> usize {
        let room = Pages::positions(self.tile);
        match self.factor {
            PagedFactor::Keys => room * self.width,
            PagedFactor::Values => room * self.width.next_multiple_of(self.tile.lanes),
        }
    }

    /// Sequences that continue some of these, or zeros, with `[sequences, positions, elements]`.
    fn append(&self, sources: &[Option<usize>], new: &[f32]) -> TractResult<Pages> {
        let Pages { factor, width, length, tile, .. } = *self;
        let (room, size) = (Pages::positions(tile), self.page_size());
        let of_sequence = new.len() / sources.len().max(1);
        let after = length + of_sequence / width;
        // Full pages are shared.
        let full = length / room;
        let added = (after.div_ceil(room) - full) * size;
        let elements = checked_volume("AppendToPages", &[sources.len(), added])?;
        let mut memory = vec![0.; elements];
        for (number, source) in sources.iter().enumerate() {
            let memory = &mut memory[number * added..][..added];
            if let Some(page) = source.and_then(|source| self.sequences[source].get(full)) {
                memory[..size].copy_from_slice(&page.panels()[..size]);
            }
            let new = new[number * of_sequence..][..of_sequence].chunks_exact(width);
            for (position, elements) in (length - full * room..).zip(new) {
                let page = &mut memory[position / room * size..][..size];
                write(factor, page, position % room, elements, tile);
            }
        }
        let memory = Arc::new(memory);
        let zeros = Page { memory: Arc::new(vec![0.; size]), begin: 0 };
        let sequences = sources.iter().enumerate().map(|(number, source)| {
            let mut pages = match source {
                Some(source) => self.sequences[*source][..full].to_vec(),
                None => vec![zeros.clone(); full],
            };
            let begins = (number * added..(number + 1) * added).step_by(size);
            pages.extend(begins.map(|begin| Page { memory: memory.clone(), begin }));
            pages
        });
        let sequences = sequences.collect();
        Ok(Pages { factor, width, length: after, tile, sequences })
    }
}

/// Writes a position into its place of a page. Keys are columns of panels, and values are rows of them.
fn write(factor: PagedFactor, page: &mut [f32], place: usize, elements: &[f32], tile: Tile) {
    let width = elements.len();
    match factor {
        PagedFactor::Keys => {
            let panel = place / tile.columns * tile.columns;
            let column = &mut page[panel * width + place - panel..];
            let places = column.iter_mut().step_by(tile.columns);
            places.zip(elements).for_each(|(place, element)| *place = *element);
        }
        PagedFactor::Values => {
            let room = Pages::positions(tile);
            for (number, part) in elements.chunks(tile.columns).enumerate() {
                let first = number * tile.columns;
                let padded = part.len().next_multiple_of(tile.lanes);
                page[first * room + place * padded..][..part.len()].copy_from_slice(part);
            }
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequences = self.sequences.len();
        write!(f, "{:?} of {sequences} sequences in pages", self.factor)
    }
}

impl TensorStorage for Pages {
    fn byte_len(&self) -> usize {
        self.sequences.len() * self.length * self.width * size_of::<f32>()
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
        let size = self.page_size();
        for element in self.sequences.iter().flatten().flat_map(|page| &page.panels()[..size]) {
            state.write_u32(element.to_bits());
        }
    }

    fn exotic_fact(&self, _shape: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        Ok(Some(Box::new(PagedFact(self.factor))))
    }
}

/// Keys or values of earlier positions, which are in pages, and those of new ones after them.
///
/// The inputs are a tensor in pages of shape `[batch, .., positions, elements]`, one in rows of shape
/// `[batch, .., new positions, elements]`, both of type F32, and, if there is a third one, for each index along the first axis
/// which of the earlier ones it continues, integers: numbers below 0 count from their end, and what is not among them gives
/// zeros. The output is in pages, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendToPages {
    /// What the pages have.
    pub factor: PagedFactor,
}

impl AppendToPages {
    fn shape<D: DimLike>(&self, before: &[D], new: &[D]) -> TractResult<TVec<D>> {
        let axes = before.len();
        let is_fit = axes > 2
            && new.len() == axes
            && before[1..axes - 2] == new[1..axes - 2]
            && before[axes - 1] == new[axes - 1];
        ensure!(
            is_fit,
            "{:?} of shape {new:?} cannot follow {before:?}: only the batch and the positions may differ",
            self.factor
        );
        let mut shape: TVec<D> = new.into();
        shape[axes - 2] = before[axes - 2].clone() + &new[axes - 2];
        Ok(shape)
    }
}

impl Op for AppendToPages {
    fn name(&self) -> StaticName {
        "AppendToPages".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("{:?}", self.factor)])
    }

    op_as_typed_op!();
}

impl EvalOp for AppendToPages {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        expect_input_count("AppendToPages", inputs.len(), 2..=3)?;
        let (before, new) = (&inputs[0], &inputs[1]);
        let shape = self.shape(before.shape(), new.shape())?;
        ensure!(volume(&shape).is_some(), "{:?} of shape {shape:?} are too large", self.factor);
        let pages = Pages::of(before, Tile::of(Vectors::detect()))?;
        let batches = before.shape()[0];
        let batch: Vec<i64> = match inputs.get(2) {
            Some(batch) => batch.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.to_vec(),
            None => (0..batches as i64).collect(),
        };
        ensure!(
            batch.len() == new.shape()[0],
            "{} sequences are continued by {} of {:?}",
            batch.len(),
            new.shape()[0],
            self.factor
        );
        let batch: Vec<Option<usize>> = batch
            .into_iter()
            .map(|index| {
                let index = if index < 0 { index + batches as i64 } else { index };
                usize::try_from(index).ok().filter(|index| *index < batches)
            })
            .collect();
        let inner: usize = shape[1..shape.len() - 2].iter().product();
        let sources: Vec<Option<usize>> = batch
            .into_iter()
            .flat_map(|batch| (0..inner).map(move |it| batch.map(|batch| batch * inner + it)))
            .collect();
        let pages = pages.append(&sources, new.try_as_plain_ram()?.as_slice()?)?;
        Ok(tvec!(Tensor::from_storage(f32::datum_type(), &shape, pages).into_tvalue()))
    }
}

impl TypedOp for AppendToPages {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("AppendToPages", inputs.len(), 2..=3)?;
        let shape = self.shape(&inputs[0].shape, &inputs[1].shape)?;
        Ok(tvec!(self.factor.fact(shape)))
    }

    as_op!();
}
