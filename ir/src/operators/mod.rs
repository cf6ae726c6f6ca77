//! Operators that tract does not have, or that fail there for values that a model may have. Those in `nnef.rs`
//! can be saved to NNEF; the others cannot.

pub(crate) mod activation;
pub(crate) mod adaptive_pool;
pub(crate) mod addressing;
pub(crate) mod arithmetic;
pub(crate) mod control;
pub(crate) mod ctc;
pub(crate) mod ctc_loss;
pub(crate) mod deformable;
pub(crate) mod detection;
pub(crate) mod grid_sample;
pub(crate) mod interpolate;
pub(crate) mod inverse;
pub(crate) mod non_zero;
mod number;
pub(crate) mod overlap_add;
mod paged;
pub(crate) mod random_uniform;
pub(crate) mod range;
pub(crate) mod reduction;
pub(crate) mod reshape;
pub(crate) mod reverse_sequence;
pub(crate) mod rounding;
pub(crate) mod scatter;
pub(crate) mod search_sorted;
pub(crate) mod segments;
pub(crate) mod slice_scatter;
pub(crate) mod sparse_fill_empty_rows;
pub(crate) mod strings;
pub(crate) mod take;
pub(crate) mod top_k;
pub(crate) mod unique;
pub(crate) mod variable;
pub(crate) mod windows;

use tract_openvino_kernels::checks::check_volume;

use crate::typed_op::{
    SetSymbols, change_axes, dispatch_number, floats, impl_op, impl_plain_op, integers,
    one_element, set_symbols,
};
