//! What is here because of tract 0.23.9 alone: operators that compute nothing, but check, order, name or hide; rewrites of
//! models; and tests of what tract can do. Without it tract would give errors or other results, or never end.
//! `docs/tract.md` has more of tract's side.
//!
//! | file | what would make it go |
//! |---|---|
//! | `bias.rs` | tract moves the addition behind a convolution into its bias, also with groups, and `Conv::change_axes` does not take a change of the bias's axes for one of the data's |
//! | `bound.rs` | a plan runs each node after those that give it its symbols (`required_bound_symbols`, which `Slice` does not have), also where no tensor joins them |
//! | `broadcast.rs` | `declutter_broadcast` of `EinSum` keeps a broadcast where no other input has the size of the axis |
//! | `empty.rs` | the operators and the optimiser take tensors without elements of open sizes |
//! | `equal_node.rs` | the optimiser keeps what an output comes from when it makes equal nodes one |
//! | `equal_shape.rs` | operators compare sizes when they run, such as `EinSum`, and check how large a broadcast is |
//! | `expressions.rs` | the division of `TDim` rounds down, its numbers do not overflow, `simplify` takes no more time than there are terms, and `prove_positive_or_zero` knows products, conditions, and the least of several sizes |
//! | `least_sizes.rs` | convolutions and pools check that their kernel fits into the data, and `Fft` that there are elements |
//! | `named_sizes.rs` | an operator can give a symbol a value that is no size of its output |
//! | `opaque.rs` | `Opaque`: that of `broadcast.rs`; floats do not keep the `uniform_tdim` of the integers that they were; and constants without elements are not read. `Separate`: `Scan` changes the axes of both inputs in its body where one value is two inputs |
//! | `pool_indices.rs` | NNEF has text for a `MaxPool` with both outputs |
//! | `size_bounds.rs` | a run compares what it is fed with the bounds of symbols |
//!
//! Elsewhere are: `guard_downsamples` of the kernels, which `translate/` calls; operators that are wrong in tract
//! (`operators/`); layers that are translated when the model runs, as tract must know more of them (`translate/deferred.rs`);
//! and the choice of other nodes for a single case, with the reason, in the translator that makes it.

pub(crate) mod bias;
pub(crate) mod bound;
pub(crate) mod broadcast;
pub(crate) mod empty;
pub(crate) mod equal_node;
pub(crate) mod equal_shape;
pub(crate) mod expressions;
pub(crate) mod least_sizes;
pub(crate) mod named_sizes;
pub(crate) mod opaque;
pub(crate) mod pool_indices;
pub(crate) mod size_bounds;
