//! Attention: two products with a softmax in between.

mod codes;
mod kept;
mod masks;
mod pages;
mod softmax;
#[cfg(test)]
mod tests;

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ndarray::Dimension;

use crate::checks::expect_input_count;
use crate::contraction::{AxisStrides, BatchAxis, Contraction, ContractionSizes, offset};
use crate::isa::Instructions;
use crate::memory::{Scratch, filled_output, floats, zero_output};
use crate::product::activation::Activation;
use crate::product::{
    Addend, Bf16Pair, Element, GemmBlock, OperandA, OperandB, Output, PackedB, PackedBatchOfB,
    PackedGemm, Tile, UnpackedB, Vectors, parts,
};
use crate::strided::broadcast_strides;
use codes::UnpackPage;
pub(crate) use kept::AddendOfKept;
use masks::{Mask, MaskRows, bound_of_score, bounds_pay, rows_of_scores};
pub use pages::{AppendToPages, CachePrecision, PageFormat, PagedFactor};
use pages::{Page, PageContents, PageLayout, Pages};
use softmax::SoftmaxOfScores;

/// `Softmax(scale * factors * (queries * keys) + masks) * values`, some rows of queries at a time: the scores of these stay in the
/// caches, where those of all would be the largest tensor of many a model.
///
/// The inputs are those of the scores in their order, the values, a sink if there is one, factors if there are some, and masks of the
/// scores' rank. Keys and values are tensors, or both are in [pages](AppendToPages). A sink is one more score of each query, `[.., 1]` of
/// the scores' rank, which is neither scaled nor masked: it takes its part of the weights and has no value. Factors scale the scores of each
/// query, too, and have the shape of a sink.
///
/// Keys after the last one that a query sees are left out: those whose mask is `-inf`, or so low that their weights are 0 whatever the
/// scores are, by a bound of these.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    scores: Contraction,
    scale: f32,
    /// The product of the scores, which are its left factor, and the values.
    values: Contraction,
    has_sink: bool,
    has_factors: bool,
    is_paged: bool,
}

/// The input with the values.
const VALUES: usize = 2;

/// How many scores are computed before their product with the values.
const SCORES: usize = 1 << 15;

/// The processor's tiles are worth so many queries, as keys and values are read again for each block of them.
const LEAST_ROWS_FOR_TILES: usize = 32;

/// So many queries, or fewer, meet all keys at once.
const FEW: usize = 16;

/// So many rows, or fewer, are multiplied before the next page comes from memory. They are never rounded.
const WAITING: usize = 8;

/// Threads share queries in parts of so many or more; the last part may have fewer.
const LEAST_ROWS: usize = 16;

impl Attention {
    /// The two products as one operator, if the second one has the first one's rows, columns and batches in their
    /// places. An axis of the batch of which the scores, whose shape this is, have one may be missing.
    pub(crate) fn new(
        scores: Contraction,
        scale: f32,
        values: Contraction,
        [has_sink, has_factors]: [bool; 2],
        shape: &[TDim],
    ) -> Option<Attention> {
        let has = |output: usize| values.batch.iter().any(|axis| axis.left == Some(output));
        let is_known = |axis: &BatchAxis| {
            axis.left.is_none_or(|left| scores.batch.iter().any(|it| it.output == left))
        };
        let is_same = values.rows[0] == scores.rows[1]
            && scores.batch.iter().all(|axis| has(axis.output) || shape[axis.output].is_one())
            && values.batch.iter().all(is_known);
        is_same.then_some(Attention {
            scores,
            scale,
            values,
            has_sink,
            has_factors,
            is_paged: false,
        })
    }

    /// The input with factors, if there are some.
    fn factors(&self) -> usize {
        VALUES + 1 + usize::from(self.has_sink)
    }

    /// The first input with a mask.
    fn masks(&self) -> usize {
        self.factors() + usize::from(self.has_factors)
    }

    /// The inputs with the keys and with the values.
    pub fn keys_and_values(&self) -> [usize; 2] {
        [self.scores.right, VALUES]
    }

    /// The operator with keys and values in pages, if these are of shape `[.., positions, elements]`, for factors of this rank.
    pub fn on_pages(&self, rank: usize) -> Option<Attention> {
        let is_it = rank >= 2
            && !self.is_paged
            && self.scores.axes_of_right() == [rank - 2, rank - 1]
            && self.values.axes_of_right() == [rank - 1, rank - 2];
        is_it.then(|| Attention { is_paged: true, ..self.clone() })
    }
}

/// Keys or values of all sequences.
#[derive(Clone, Copy)]
enum KeysOrValues<'a> {
    Tensor(&'a [f32]),
    Pages(&'a Pages),
}

/// Keys or values of one sequence, in panels: some positions, and the next ones.
enum PackedKeysOrValues<'a, T> {
    Shared(&'a [T]),
    /// Those of elements that are numbers.
    Pages(&'a [Page], PageLayout),
    /// The elements of pages of so many each, which were made of codes; or of a tensor, or of pages of others, which are one.
    Own(Scratch<T>, usize),
}

impl<'a> KeysOrValues<'a> {
    /// Those of the sequence that begins with an element, for so many queries, which see so many positions of it: packed now, unless
    /// threads share them.
    fn pack<T: Element>(
        self,
        shared: Option<&'a PackedBatchOfB<T>>,
        unpacked: UnpackedB,
        begin: usize,
        queries: usize,
        count: usize,
        tile: Tile,
    ) -> PackedKeysOrValues<'a, T> {
        let pages = match (shared, self) {
            (Some(shared), _) => return PackedKeysOrValues::Shared(shared.elements(begin)),
            (None, KeysOrValues::Tensor(elements)) => {
                let packed = PackedB::pack_scratch(from(elements, begin), unpacked, tile);
                return PackedKeysOrValues::Own(packed.elements, 0);
            }
            (None, KeysOrValues::Pages(pages)) => pages,
        };
        let (pages, layout) = (pages.sequence(begin), pages.layout);
        let pages = &pages[..count.div_ceil(layout.room())];
        let are_numbers = layout.format.precision == CachePrecision::F32;
        if T::STEPS == 1 && (queries <= WAITING || are_numbers) {
            return PackedKeysOrValues::Pages(pages, layout);
        }
        let size = layout.page_size::<T>();
        let positions = pages.len() * layout.room();
        let mut packed = Scratch::of(layout.size_of_positions::<T>(positions));
        if let Some(numbers) = T::as_numbers(&mut packed) {
            for (page, numbers) in pages.iter().zip(numbers.chunks_mut(size)) {
                if let PageContents::Codes(codes) = page.contents(layout) {
                    Instructions::detect().run(UnpackPage { codes, numbers });
                }
            }
            return PackedKeysOrValues::Own(packed, size);
        }
        let mut room = Scratch::new(layout.page_size::<f32>());
        for (number, page) in pages.iter().enumerate() {
            let panels = match page.contents(layout) {
                PageContents::Numbers(panels) => panels,
                PageContents::Codes(codes) => {
                    Instructions::detect().run(UnpackPage { codes, numbers: &mut room });
                    &room
                }
            };
            layout.convert(panels, number * layout.room(), positions, &mut packed);
        }
        PackedKeysOrValues::Own(packed, 0)
    }
}

impl<T: Element> PackedKeysOrValues<'_, T> {
    /// Memory for the numbers of a page that has codes.
    fn buffer(&self) -> Scratch {
        match self {
            PackedKeysOrValues::Pages(_, layout)
                if layout.format.precision == CachePrecision::U8 =>
            {
                Scratch::new(layout.page_size::<f32>())
            }
            _ => Scratch::new(0),
        }
    }

    fn page<'s>(&'s self, number: usize, buffer: &'s mut [f32]) -> &'s [T] {
        let (pages, layout) = match self {
            PackedKeysOrValues::Shared(elements) => return elements,
            PackedKeysOrValues::Own(elements, size) => return &elements[number * size..],
            PackedKeysOrValues::Pages(pages, layout) => (pages, layout),
        };
        let numbers = match pages[number].contents(*layout) {
            PageContents::Numbers(panels) => panels,
            PageContents::Codes(codes) => {
                let next = pages.get(number + 1).map(|page| page.contents(*layout));
                if let Some(PageContents::Codes(next)) = next {
                    next.ask();
                }
                Instructions::detect().run(UnpackPage { codes, numbers: buffer });
                buffer
            }
        };
        T::as_they_are(numbers).expect("other elements are packed before")
    }

    /// The page after this one, if so many rows wait for the memory.
    fn next(&self, number: usize, rows: usize) -> Option<&[T]> {
        let PackedKeysOrValues::Pages(pages, layout) = self else { return None };
        let next = pages.get(number + 1).filter(|_| rows <= WAITING)?;
        match next.contents(*layout) {
            PageContents::Numbers(panels) => T::as_they_are(panels),
            PageContents::Codes(_) => None,
        }
    }
}

/// What the queries of one sequence meet.
struct Sequence<'a, T> {
    keys: PackedKeysOrValues<'a, T>,
    values: PackedKeysOrValues<'a, T>,
    /// How many positions a page has room for: those of a page begin with an element of the weights.
    page: usize,
    /// How long a key is, in elements of products, and a value, in numbers.
    depth: usize,
    width: usize,
    vectors: Vectors,
    tile: Tile,
}

impl<T: Element> Sequence<'_, T> {
    /// The numbers of the pages up to a position, and the positions of each.
    fn pages(&self, count: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let begins = (0..count).step_by(self.page).enumerate();
        begins.map(move |(number, begin)| (number, begin..(begin + self.page).min(count)))
    }

    /// The products of queries and the first keys. There may be some more in a row than keys.
    fn scores(&self, queries: OperandA<&[T]>, count: usize, scores: &mut [f32], stride: usize) {
        let mut buffer = self.keys.buffer();
        for (number, positions) in self.pages(count) {
            // Of whole panels: a part of one would be read as a narrower one. Keys of tensors end with a panel of their own.
            let columns = positions.len().next_multiple_of(self.tile.columns).min(self.page);
            let elements = self.keys.page(number, &mut buffer);
            let right = PackedB { depth: self.depth, columns: self.page, elements };
            let output = Output::matrix(&mut scores[positions.start..], stride);
            let next = self.keys.next(number, queries.rows);
            let product = PackedGemm::of(queries, right, output);
            PackedGemm { next, columns: 0..columns, ..product }.run(self.vectors);
        }
    }

    /// The greatest magnitude that keys have, of each number. NaN is greater than all others.
    fn greatest_of_keys(&self, count: usize) -> Vec<f32> {
        let mut greatest = vec![0; self.depth * T::STEPS];
        let mut buffer = self.keys.buffer();
        for (number, positions) in self.pages(count) {
            let elements = self.keys.page(number, &mut buffer);
            for first in (0..positions.len()).step_by(self.tile.columns) {
                let room = (self.page - first).min(self.tile.columns);
                let room = room.next_multiple_of(self.tile.lanes);
                let columns = room.min(positions.len() - first);
                let steps = elements[first * self.depth..].chunks_exact(room);
                for (step, greatest) in steps.zip(greatest.chunks_exact_mut(T::STEPS)) {
                    T::greatest_bits(&step[..columns], greatest);
                }
            }
        }
        greatest.into_iter().map(f32::from_bits).collect()
    }

    /// The products of weights of so many of the first values and these.
    fn values(&self, weights: OperandA<&[T]>, count: usize, output: &mut [f32], stride: usize) {
        let mut buffer = self.values.buffer();
        let depth = T::count(self.page);
        for (number, positions) in self.pages(count) {
            let elements = self.values.page(number, &mut buffer);
            let next = self.values.next(number, weights.rows);
            let before = positions.start / T::STEPS;
            for first in (0..self.width).step_by(self.tile.columns) {
                let columns = (self.width - first).min(self.tile.columns);
                let panels = &elements[first * depth..];
                for steps in parts::<T>(T::count(positions.len())) {
                    self.vectors.run(GemmBlock {
                        left: weights,
                        right: OperandB {
                            panels,
                            begin: steps.start,
                            depth,
                            next: next.map(|next| &next[first * depth..]),
                            asks: false,
                        },
                        rows: 0..weights.rows,
                        columns,
                        depth: weights.depth,
                        output: Output::matrix(&mut output[first..], stride),
                        addend: Addend::Zero,
                        activation: Activation::Identity,
                        steps: before + steps.start..before + steps.end,
                    });
                }
            }
        }
    }
}

impl_plain_op!(
    Attention,
    name = |op| if op.is_paged { "PagedAttention" } else { "Attention" },
    info = |op| vec![format!("scores: {:?}", op.scores), format!("values: {:?}", op.values)],
    validation = |_| Validation::Rounding
);

/// The axis of the rows, or one of the batch: how the scores have it, and which axis of them it is.
type OfScores<'a> = (usize, &'a AxisStrides);

impl Attention {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let queries = inputs[self.scores.left].shape()[self.scores.rows[0]];
        match self.scores.bf16 {
            Some(_) if queries > WAITING => self.attend::<Bf16Pair>(&inputs),
            _ => self.attend::<f32>(&inputs),
        }
    }

    fn attend<T: Element>(&self, inputs: &[TValue]) -> TractResult<Tensor> {
        let operator = self.name();
        let [keys, values] = self.keys_and_values().map(|slot| &inputs[slot]);
        let queries = &inputs[self.scores.left];
        let scores = self.scores.sizes(queries.shape(), keys.shape())?;
        let mut sizes = self.values.sizes(&scores.shape, values.shape())?;
        if scores.shape.contains(&0) || sizes.shape.contains(&0) {
            return zero_output(&operator, &sizes.shape);
        }
        let plain = |slot: usize| floats(&inputs[slot]);
        let queries = plain(self.scores.left)?;
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let factor = |slot: usize, expected: PagedFactor| {
            if !self.is_paged {
                return Ok(KeysOrValues::Tensor(plain(slot)?));
            }
            let pages = Pages::of(&inputs[slot], tile)?;
            let PageFormat { factor, .. } = pages.layout.format;
            ensure!(
                factor == expected,
                "{operator}: the pages of input {slot} have {factor:?}, but must have {expected:?}"
            );
            TractResult::Ok(KeysOrValues::Pages(pages))
        };
        let [of_keys, of_values] = self.keys_and_values();
        let keys = factor(of_keys, PagedFactor::Keys)?;
        let values = factor(of_values, PagedFactor::Values)?;
        let added = |slot: usize, keys: usize, what: &str| -> TractResult<ScoreAddend> {
            let strides = strides_of(inputs[slot].shape(), &scores.shape, keys)
                .with_context(|| format!("{operator}: input {slot} is the {what}"))?;
            Ok((plain(slot)?, strides))
        };
        let masks = self.masks()..inputs.len();
        let is_only = masks.len() == 1;
        let masks = masks.map(|slot| {
            let (shape, keys) = (inputs[slot].shape(), scores.right.columns);
            Mask::new(plain(slot)?, shape, &scores.shape, keys, is_only)
                .with_context(|| format!("{operator}: input {slot} is the mask"))
        });
        let masks: TVec<Mask> = masks.collect::<TractResult<_>>()?;
        let sink = match self.has_sink {
            true => Some(added(VALUES + 1, 1, "sink")?),
            false => None,
        };
        let factors = match self.has_factors {
            true => Some(added(self.factors(), 1, "factors")?),
            false => None,
        };
        let mut rows: OfScores = (self.scores.rows[1], &scores.rows);
        // For each axis of the output's batch, that of the scores.
        let mut batch: TVec<Option<OfScores>> = self
            .values
            .batch
            .iter()
            .map(|axis| {
                let is_it = |it: &BatchAxis| Some(it.output) == axis.left;
                let position = self.scores.batch.iter().position(is_it)?;
                Some((self.scores.batch[position].output, &scores.batch[position]))
            })
            .collect();
        // Queries of one token, of which several have the same keys and values, are rows.
        if scores.rows.size == 1 {
            let is_shared = |(of_values, of_scores): &(&AxisStrides, &Option<OfScores>)| {
                let has_queries = of_scores.is_some_and(|(_, it)| it.right == 0 && it.left > 0);
                of_values.size > 1 && of_values.right == 0 && has_queries
            };
            let position = sizes.batch.iter().zip(&batch).position(|axis| is_shared(&axis));
            if let Some(position) = position {
                let ContractionSizes { rows, batch, .. } = &mut sizes;
                std::mem::swap(rows, &mut batch[position]);
            }
            if let Some(position) = position
                && let Some(axis) = batch[position].take()
            {
                rows = axis;
            }
        }
        let (depth, count) = (scores.right.depth, scores.right.columns);
        let page = match keys {
            KeysOrValues::Tensor(_) => count,
            KeysOrValues::Pages(pages) if T::STEPS == 1 => pages.layout.room(),
            // Elements that are no numbers are packed as one page.
            KeysOrValues::Pages(pages) => count.next_multiple_of(pages.layout.room()),
        };
        // Room for whole pages. An odd number of vectors: rows in a distance of a power of two would have the same places in
        // the cache.
        let stride = (count.next_multiple_of(page).div_ceil(tile.lanes) | 1) * tile.lanes;
        let place = |index: &[usize], stride: &dyn Fn(usize, &AxisStrides) -> usize| -> usize {
            let axes = index.iter().zip(&batch);
            axes.map(|(index, axis)| axis.map_or(0, |(axis, it)| index * stride(axis, it))).sum()
        };
        let in_keys = |index: &[usize]| place(index, &|_, axis| axis.right);
        let in_values = |index: &[usize]| offset(index, &sizes.batch, |axis| axis.right);
        // Each part would pack all keys and values, if it had some queries of all sequences.
        let shares = sizes.shares(LEAST_ROWS);
        let begins = |of: &dyn Fn(&[usize]) -> usize| {
            let shape: Vec<usize> = sizes.batch.iter().map(|axis| axis.size).collect();
            tract_ndarray::indices(shape).into_iter().map(|index| of(index.slice())).collect()
        };
        let shared = match (keys, values) {
            (KeysOrValues::Tensor(keys), KeysOrValues::Tensor(values)) if shares.are_rows => [
                Some(PackedBatchOfB::pack_scratch(keys, begins(&in_keys), scores.right, tile)),
                Some(PackedBatchOfB::pack_scratch(values, begins(&in_values), sizes.right, tile)),
            ],
            _ => [None, None],
        };
        let [shared_keys, shared_values] = shared.each_ref().map(Option::as_ref);
        let multiply = |index: &[usize], of_output: Range<usize>, output: &mut [f32]| {
            let queries = from(queries, place(index, &|_, axis| axis.left));
            let (count_rows, right) = (of_output.len(), [scores.right, sizes.right]);
            let [in_keys, in_values] = [in_keys(index), in_values(index)];
            let of_keys = keys.pack(shared_keys, right[0], in_keys, count_rows, count, tile);
            let of_values =
                values.pack(shared_values, right[1], in_values, count_rows, count, tile);
            let sequence = Sequence {
                keys: of_keys,
                values: of_values,
                page,
                depth: T::count(depth),
                width: sizes.right.columns,
                vectors,
                tile,
            };
            let begin = |strides: &[usize]| place(index, &|axis, _| strides[axis]);
            let masks =
                masks.iter().map(|mask| mask.part(begin(&mask.strides), mask.strides[rows.0]));
            let masks: TVec<MaskRows> = masks.collect();
            let [sink, factors] = [&sink, &factors].map(|addend| {
                let (elements, strides) = addend.as_ref()?;
                Some((&elements[begin(strides)..], strides[rows.0]))
            });
            let have_bounds = count_rows > WAITING && bounds_pay(&masks, of_output.clone(), count);
            let greatest_of_keys = have_bounds.then(|| sequence.greatest_of_keys(count));
            // A bound of the scores of a query.
            let bound = |query: usize| {
                let Some(greatest_of_keys) = &greatest_of_keys else { return f32::INFINITY };
                let factor = factors.map_or(1., |(factors, stride)| factors[query * stride]);
                let query = &from(queries, query * rows.1.left)[..depth];
                (self.scale * factor).abs() * bound_of_score(query, greatest_of_keys)
            };
            let few = of_output.len().min(FEW);
            let least = if T::are_for_tiles() { LEAST_ROWS_FOR_TILES } else { tile.rows };
            let block = ((SCORES / stride).clamp(least, 64) / tile.rows * tile.rows).max(few);
            let mut part = Scratch::new(block.min(of_output.len()) * stride);
            for first in of_output.clone().step_by(block) {
                let count_rows = block.min(of_output.end - first);
                let of_block = first..first + count_rows;
                let of_rows = rows_of_scores(&masks, of_block, count, bound);
                let visible = of_rows.iter().map(|row| row.columns).max().unwrap_or(count);
                if depth == 0 {
                    // A sum of nothing writes nothing.
                    part.fill(0.);
                }
                let queries = from(queries, first * rows.1.left);
                let left = OperandA::<Scratch<T>>::pack_scratch(
                    queries,
                    rows.1.left,
                    count_rows,
                    depth,
                    tile,
                );
                sequence.scores(left.view(), visible, &mut part, stride);
                let softmax = |row: usize, scores: &mut [f32]| {
                    vectors.run(SoftmaxOfScores {
                        scores,
                        stride,
                        columns: visible,
                        rows: &of_rows[row..],
                        scale: self.scale,
                        first: first + row,
                        masks: &masks,
                        sink,
                        factors,
                    });
                };
                let weights =
                    OperandA::pack_made(&mut part, stride, count_rows, visible, tile, softmax);
                let output = &mut output[(first - of_output.start) * sizes.rows.output..];
                sequence.values(weights.view(), visible, output, sizes.rows.output);
            }
            Ok(())
        };
        filled_output(&operator, &sizes.shape, |output| sizes.for_each(shares, output, multiply))
    }
}

/// The elements from a place on. Keys and queries of depth 0 have none, wherever they begin.
fn from(elements: &[f32], begin: usize) -> &[f32] {
    elements.get(begin..).unwrap_or_default()
}

/// What is beside scores, or multiplies them: its elements, and the distances of neighbours along each axis of the scores.
type ScoreAddend<'a> = (&'a [f32], TVec<usize>);

/// The distances of neighbours in what is added to scores of this shape, and has so many elements along their last axis.
fn strides_of(shape: &[usize], scores: &[usize], keys: usize) -> TractResult<TVec<usize>> {
    let last = scores.len() - 1;
    let fits = shape.len() == scores.len()
        && shape[last] == keys
        && shape[..last].iter().zip(scores).all(|(size, score)| size == score || *size == 1);
    ensure!(
        fits,
        "it has shape {shape:?}, but must have {keys} elements in the last axis, and as many as the scores of shape {scores:?} \
         or one in each other axis"
    );
    Ok(broadcast_strides(shape))
}

impl Attention {
    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count(&self.name(), inputs.len(), self.masks()..=usize::MAX)?;
        let (queries, keys) = (inputs[self.scores.left], inputs[self.scores.right]);
        let scores = self.scores.shape(&queries.shape, &keys.shape)?;
        Ok(f32::fact(self.values.shape(&scores, &inputs[VALUES].shape)?))
    }
}
