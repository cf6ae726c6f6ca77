//! Compressed weights that stay packed, as tract's tables of blocks.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::konst::Const;
use tract_core::tract_linalg::block_quant::{BlockQuant, BlockQuantStorage, Q4_0};
use tract_openvino_kernels::combine;

use super::compressed::Compressed;
use super::{LayerContext, Value};
use crate::document::ElementType;
use crate::weights::Weights;

/// A matrix of compressed weights as a table of tract's `Q4_0`: blocks of 32 in a row, each with a scale in
/// half precision, of codes whose zero point is 8.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    storage: BlockQuantStorage,
    shape: [usize; 2],
    /// What is to be added to the values of each group in a row, if zero points are not 8.
    pub offsets: Option<Arc<Tensor>>,
}

impl Compressed {
    /// The table that these weights are, if they are one.
    fn table(&self, weights: &Weights) -> TractResult<Option<Table>> {
        if let Some(table) = self.table.get() {
            return Ok(table.clone());
        }
        let table = self.q4_0(weights)?;
        Ok(self.table.get_or_init(|| table).clone())
    }

    fn q4_0(&self, weights: &Weights) -> TractResult<Option<Table>> {
        let (&[rows, width], Some(group)) = (&*self.shape, self.group()) else { return Ok(None) };
        let Some(scale) = &self.scale else { return Ok(None) };
        let block = Q4_0.block_len();
        if width == 0 || !width.is_multiple_of(group) || !group.is_multiple_of(block) {
            return Ok(None);
        }
        let mut codes = match self.codes.element_type {
            ElementType::U4 => self.codes.bytes(weights)?,
            // Two's complement of 4 bits: 8 more is another highest bit.
            ElementType::I4 => self.codes.bytes(weights)?.iter().map(|byte| byte ^ 0x88).collect(),
            _ => return Ok(None),
        };
        codes.truncate(rows * width / 2);
        let scale = scale.load(weights)?;
        let mut scales = vec![1f32; rows * width / block];
        combine(&mut scales, &self.in_parts(block), &scale, |_, scale| scale)?;
        if scales.iter().any(|scale| f16::from_f32(*scale).to_f32() != *scale) {
            return Ok(None);
        }
        let blob = Q4_0.pack_prequantized_nibbles(&codes, &scales, rows, width)?;
        let storage = BlockQuantStorage::new(Box::new(Q4_0), rows, width, Arc::new(blob))?;
        // The codes of a table are -8 to 7. Those of i4 are the same, so that their zero point is 0 there; those of u4
        // are 8 more.
        let unsigned = self.codes.element_type == ElementType::U4;
        let mut offsets = vec![if unsigned { 8f32 } else { 0. }; rows * width / group];
        let in_groups = self.in_parts(group);
        if let Some(zero_point) = &self.zero_point {
            combine(&mut offsets, &in_groups, &zero_point.load(weights)?, |base, zero| {
                base - zero
            })?;
        }
        combine(&mut offsets, &in_groups, &scale, |offset, scale| offset * scale)?;
        let is_exact = offsets.iter().all(|offset| *offset == 0.);
        let offsets = Tensor::from_shape(&[rows, width / group], &offsets)?.into_arc_tensor();
        let shape = [rows, width];
        Ok(Some(Table { storage, shape, offsets: (!is_exact).then_some(offsets) }))
    }

    /// How many codes in a row have one scale and one zero point.
    fn group(&self) -> Option<usize> {
        let operands = self.scale.iter().chain(&self.zero_point);
        let mut last = operands.map(|operand| operand.shape.last());
        let one = last.all(|size| size.is_none_or(|size| *size == 1));
        self.codes.shape.last().copied().filter(|group| one && *group > 0)
    }

    /// The shape of the codes, with one for each part of their last axis.
    fn in_parts(&self, size: usize) -> Vec<usize> {
        let mut shape = self.codes.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last /= size;
        }
        shape
    }
}

impl LayerContext<'_, '_> {
    /// The table that an input is, if it is one, and the user wants it to stay packed.
    pub(crate) fn table(&self, input: usize) -> TractResult<Option<Table>> {
        match self.value(input)? {
            Value::Compressed(compressed)
                if self.options().block_quantized && compressed.datum_type == DatumType::F32 =>
            {
                self.translation.budget().take(DatumType::U8, &compressed.shape)?;
                let table = compressed.table(self.translation.weights);
                table.with_context(|| format!("in constant {:?}", self.names[input]))
            }
            _ => Ok(None),
        }
    }

    /// The table of an input in the model, with these axes in front.
    pub(crate) fn wire_table(
        &mut self,
        input: usize,
        table: Table,
        batch: &[usize],
    ) -> TractResult<OutletId> {
        let shape = [batch, &table.shape].concat();
        let fact = table.storage.exotic_fact(&shape)?.context("a table has a fact")?;
        let tensor = table.storage.into_tensor_with_shape(DatumType::F32, &shape);
        let name = self.translation.unique_name(self.model, self.names[input].clone());
        let op = Const::new_with_exotic_fact(tensor.into_arc_tensor(), fact)?;
        Ok(self.model.wire_node(name, op, &[])?[0])
    }
}
