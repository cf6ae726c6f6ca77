//! What several families of operations need: checks of inputs, and small groups of nodes.

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Range};
use tract_core::ops::change_axes::AxisOp;
use tract_openvino_kernels::checks::listed;

use crate::context::{LayerContext, NotKnown};
use crate::workarounds::equal_shape::EqualShape;
use crate::workarounds::expressions::assert_size;
use crate::workarounds::least_sizes::LeastSizes;

/// From this number on, the bound of a slice means the end of an axis whose size is not known: files have 1e9
/// there, or the largest number of 32 or 64 bits. Pads and blocks must be smaller.
pub(super) const FAR: i64 = 1_000_000_000;

// Checks of inputs. `name` is what the specification calls an input.
impl LayerContext<'_, '_> {
    /// Checks that an input has floats, and gives their type.
    pub(super) fn expect_floats(&self, input: usize, name: &str) -> TractResult<DatumType> {
        self.expect_elements(input, name, "floats", |dt| dt.is_float())
    }

    /// Checks that an input has integers, and gives their type. Sizes are integers.
    pub(super) fn expect_integers(&self, input: usize, name: &str) -> TractResult<DatumType> {
        self.expect_elements(input, name, "integers", |dt| dt.is_integer() || dt.is_tdim())
    }

    /// Checks that an input has numbers, and gives their type. Sizes are numbers.
    pub(super) fn expect_numbers(&self, input: usize, name: &str) -> TractResult<DatumType> {
        self.expect_elements(input, name, "numbers", |dt| dt.is_number() || dt.is_tdim())
    }

    fn expect_elements(
        &self,
        input: usize,
        name: &str,
        expected: &str,
        is_one: impl FnOnce(DatumType) -> bool,
    ) -> TractResult<DatumType> {
        let dt = self.datum_type(input)?;
        ensure!(is_one(dt), "input {input} ({name}) is of type {dt:?}, but must be {expected}");
        Ok(dt)
    }

    /// Checks that outlets are of one element type, and gives it.
    pub(super) fn same_type(&self, outlets: &[OutletId]) -> TractResult<DatumType> {
        let (first, others) = outlets.split_first().context("there are no inputs")?;
        let dt = self.type_of(*first)?;
        for outlet in others {
            let other = self.type_of(*outlet)?;
            ensure!(
                other == dt,
                "the inputs are of types {dt:?} and {other:?}, but must be of one type"
            );
        }
        Ok(dt)
    }

    /// The shape of an input that must have this rank.
    pub(super) fn shape_of_rank(
        &self,
        input: usize,
        name: &str,
        rank: usize,
    ) -> TractResult<TVec<TDim>> {
        let shape = self.shape(input)?;
        ensure!(
            shape.len() == rank,
            "input {input} ({name}) has shape {shape}, but must have rank {rank}",
            shape = listed(&shape)
        );
        Ok(shape)
    }

    /// Checks that an axis of an input has a size, which an open dimension there gets. `doing` is as for
    /// [`LayerContext::require_equal`].
    pub(super) fn expect_size(
        &mut self,
        input: usize,
        axis: usize,
        size: usize,
        doing: &str,
    ) -> TractResult<()> {
        let size = size.to_dim();
        let dim = &self.shape(input)?[axis];
        self.require_equal(dim, &size, doing)?;
        ensure!(
            *dim == size,
            NotKnown::sizes(format!(
                "dimension {axis} of input {input} is {dim}, but must be {size}: give the inputs sizes"
            ))
        );
        Ok(())
    }

    /// Checks that an input has one element, of whatever rank it is. Its open dimensions become 1.
    pub(super) fn expect_one_element(&mut self, input: usize, name: &str) -> TractResult<()> {
        let shape = self.shape(input)?;
        ensure!(
            shape.iter().all(|dim| dim.as_i64().is_none_or(|size| size == 1)),
            "input {input} ({name}) has shape {shape}, but must have one element",
            shape = listed(&shape)
        );
        (0..shape.len()).try_for_each(|axis| {
            self.expect_size(input, axis, 1, &format!("has one element as {name}"))
        })
    }

    /// Notes that two shapes are equal, except for one axis if that is given. `doing` is as for
    /// [`LayerContext::require_equal`].
    pub(super) fn equal_shapes(
        &mut self,
        a: &[TDim],
        b: &[TDim],
        except: Option<usize>,
        doing: &str,
    ) -> TractResult<()> {
        ensure!(
            a.len() == b.len(),
            "shapes {a} and {b} have ranks {} and {}, but must have one rank",
            a.len(),
            b.len(),
            a = listed(a),
            b = listed(b)
        );
        for (axis, (a, b)) in a.iter().zip(b).enumerate() {
            if Some(axis) != except {
                self.require_equal(a, b, doing)?;
            }
        }
        Ok(())
    }

    /// The sizes of a constant input, none of which may be negative.
    pub(super) fn sizes(&self, input: usize, name: &str) -> TractResult<TVec<TDim>> {
        let sizes = self.dims(input, name)?;
        let negative = sizes.iter().find(|size| size.as_i64().is_some_and(|size| size < 0));
        if let Some(size) = negative {
            bail!("input {input} ({name}) has the size {size}, but sizes must be 0 or more")
        }
        Ok(sizes)
    }

    /// The attribute that says of which type indices are.
    pub(super) fn index_type(&self, name: &str, default: DatumType) -> TractResult<DatumType> {
        let types = [("i32", DatumType::I32), ("i64", DatumType::I64)];
        self.attribute_among(name, &types, Some(default))
    }
}

// Small nodes.
impl LayerContext<'_, '_> {
    /// The type in which sizes become numbers: that of the layer's output, if it has integers.
    fn type_of_sizes(&self) -> DatumType {
        self.output_type(0).filter(|dt| dt.is_integer()).unwrap_or(DatumType::I64)
    }

    /// Turns sizes into integers, for operators that take numbers only. Other outlets stay as they are.
    pub(super) fn numbers(&mut self, outlet: OutletId) -> TractResult<OutletId> {
        match self.type_of(outlet)?.is_tdim() {
            true => self.cast("numbers", outlet, self.type_of_sizes()),
            false => Ok(outlet),
        }
    }

    /// An input. Sizes are turned into integers.
    pub(super) fn number_input(&mut self, input: usize) -> TractResult<OutletId> {
        let outlet = self.input(input)?;
        self.numbers(outlet)
    }

    /// Gives outlets one element type. If there are sizes among them, all become sizes if all are constants,
    /// and otherwise the sizes become numbers. Other types must be the same.
    pub(super) fn unify(&mut self, outlets: &[OutletId]) -> TractResult<TVec<OutletId>> {
        let mut types = tvec![];
        let mut constants = true;
        for outlet in outlets {
            let fact = self.model.outlet_fact(*outlet)?;
            types.push(fact.datum_type);
            constants &= fact.konst.is_some();
        }
        let has_sizes = types.iter().any(|dt| dt.is_tdim());
        let numbers = types.into_iter().find(|dt| !dt.is_tdim());
        let dt = match numbers {
            Some(dt) if !(has_sizes && constants) => dt,
            _ => TDim::datum_type(),
        };
        let mut unified: TVec<OutletId> = outlets.into();
        for outlet in &mut unified {
            if dt.is_tdim() || self.type_of(*outlet)?.is_tdim() {
                *outlet = self.cast("sizes", *outlet, dt)?;
            }
        }
        self.same_type(&unified)?;
        Ok(unified)
    }

    /// Turns half-precision floats into single ones. In half precision sums of many numbers overflow or lose
    /// digits.
    pub(super) fn single(&mut self, suffix: &str, outlet: OutletId) -> TractResult<OutletId> {
        match self.type_of(outlet)? {
            DatumType::F16 => self.cast(suffix, outlet, DatumType::F32),
            _ => Ok(outlet),
        }
    }

    /// Turns integers into single-precision floats, as OpenVINO does for what it averages and filters, and
    /// half-precision ones too.
    pub(super) fn single_float(&mut self, suffix: &str, outlet: OutletId) -> TractResult<OutletId> {
        match self.type_of(outlet)? {
            DatumType::F64 => Ok(outlet),
            _ => self.cast(suffix, outlet, DatumType::F32),
        }
    }

    /// The data, some axes of which must have a number of elements at least. Those of known sizes are checked
    /// already; the others are checked when the model runs.
    pub(super) fn with_least_sizes(
        &mut self,
        data: OutletId,
        least: impl IntoIterator<Item = (usize, usize)>,
    ) -> TractResult<OutletId> {
        match LeastSizes::of_open(&self.shape_of(data)?, least) {
            Some(op) => self.wire("least_sizes", op, &[data]),
            None => Ok(data),
        }
    }

    /// Repeats data along axes of size 1. What sizes of the inputs and numbers of the file ask for together is
    /// checked when the model runs, where it may be much.
    pub(super) fn repeated(
        &mut self,
        suffix: &str,
        data: OutletId,
        shape: TVec<TDim>,
    ) -> TractResult<OutletId> {
        match EqualShape::is_needed_for(&shape) {
            true => self.wire(suffix, EqualShape::or_broadcast(shape), &[data]),
            false => self.wire(suffix, MultiBroadcastTo { shape: shape.into() }, &[data]),
        }
    }

    /// Computes in single precision instead of half (see [`LayerContext::single`]). The last node has the
    /// suffix.
    pub(super) fn in_single(
        &mut self,
        suffix: &str,
        input: OutletId,
        compute: impl FnOnce(&mut Self, &str, OutletId) -> TractResult<OutletId>,
    ) -> TractResult<OutletId> {
        let dt = self.type_of(input)?;
        let input = self.single("single", input)?;
        self.in_type(suffix, input, dt, compute)
    }

    /// Computes something, and casts it to another type. The last node has the suffix.
    pub(super) fn in_type(
        &mut self,
        suffix: &str,
        input: OutletId,
        dt: DatumType,
        compute: impl FnOnce(&mut Self, &str, OutletId) -> TractResult<OutletId>,
    ) -> TractResult<OutletId> {
        let same = self.type_of(input)? == dt;
        let output = compute(self, if same { suffix } else { "computed" }, input)?;
        self.cast(suffix, output, dt)
    }

    /// Gives an outlet of one element another rank.
    pub(super) fn one_element(
        &mut self,
        suffix: &str,
        outlet: OutletId,
        rank: usize,
    ) -> TractResult<OutletId> {
        let removed = std::iter::repeat_n(AxisOp::Rm(0), self.shape_of(outlet)?.len());
        let added = std::iter::repeat_n(AxisOp::Add(0), rank);
        self.change_axes(suffix, outlet, removed.chain(added))
    }

    /// The inputs of a range from 0 up to a size, in steps of 1.
    pub(super) fn range_ends(&mut self, suffix: &str, size: &TDim) -> TractResult<TVec<OutletId>> {
        let ends = [("start", 0.to_dim()), ("stop", size.clone()), ("step", 1.to_dim())];
        ends.into_iter()
            .map(|(end, dim)| self.add_const(&format!("{suffix}.{end}"), tensor0(dim)))
            .collect()
    }

    /// The numbers from 0 up to a size, of type i64.
    pub(super) fn positions(&mut self, suffix: &str, size: &TDim) -> TractResult<OutletId> {
        let ends = self.range_ends(suffix, size)?;
        let positions = self.wire(suffix, Range::new(size.clone()), &ends)?;
        self.cast(suffix, positions, DatumType::I64)
    }

    /// A size that is only known when the model runs: a symbol for dimensions of a node that gives it its value
    /// ([`Op::mints_runtime_symbols`]). Its name begins with the prefix.
    ///
    /// # Errors
    ///
    /// The prefix is no name of a symbol.
    pub fn size_at_run_time(&self, prefix: &str) -> TractResult<Symbol> {
        let (symbol, is_new) = self.symbol_of_a_run(prefix);
        if is_new {
            assert_size(&self.model.symbols, &symbol)?;
        }
        Ok(symbol)
    }
}
