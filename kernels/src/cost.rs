//! What work costs: about how long one thread takes for it. That decides how many threads share it, so only the order of magnitude has to
//! be right, and what it is beside [`ELEMENT`].

/// How long one thread takes for one of something, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost(usize);

impl Cost {
    /// For so many, in picoseconds: the work that [`threads`](crate::threads) are asked to share.
    pub const fn of(self, count: usize) -> usize {
        self.0.saturating_mul(count)
    }
}

/// An element that is read, changed by an operation or two, and written. tract's threshold is a number of these. A third of a nanosecond
/// is as good an estimate; of this one the others are whole multiples or parts.
pub(crate) const ELEMENT: Cost = Cost(384);

/// A function of an element, or its rounding to levels: some operations that wait for each other.
pub(crate) const FUNCTION: Cost = Cost(1536);

/// An element of a softmax, which is read twice and has one exponential, whose operations overlap with those of its neighbours.
pub(crate) const SOFTMAX: Cost = Cost(768);

/// An element that an interpolation multiplies: which one it is must be looked up.
pub(crate) const TAP: Cost = Cost(768);

/// A product of a GEMM in single precision: vectors of two units, whose operands are in registers or in the first-level cache.
pub(crate) const PRODUCT: Cost = Cost(12);

/// A product, or a comparison, of a convolution or a pool of single channels: each operand is read for one product.
pub(crate) const PRODUCT_OF_CHANNELS: Cost = Cost(48);

/// An element that is packed into a panel: neighbours there come from rows that are far apart.
pub(crate) const PACKED: Cost = Cost(1152);

/// A product of a GEMM of codes of 8 bits: a vector has more of them.
pub(crate) const PRODUCT_OF_CODES: Cost = Cost(6);

/// A product of a GEMM in bf16 on tiles (AMX).
#[cfg(target_arch = "x86_64")]
pub(crate) const PRODUCT_IN_TILES: Cost = Cost(2);

/// A code that is compared with the greatest one so far: a vector has as many as it has bytes, but each is read for one comparison.
pub(crate) const COMPARED_CODE: Cost = Cost(12);

/// A weight in single precision that is read for each GEMM: with few rows, that takes longer than the products do.
pub(crate) const READ_WEIGHT: Cost = Cost(96);

/// The same of a weight of 8 bits: what is done once for each panel takes its time, too.
pub(crate) const READ_CODE: Cost = Cost(48);

/// A code of 8 bits that is copied with padding around lines, or made of a number: vectors are read and written in turn.
pub(crate) const WRITTEN_CODE: Cost = Cost(48);

/// A byte of compressed weights, which comes from memory and is used once.
pub(crate) const STREAMED_BYTE: Cost = Cost(128);

/// A byte that is copied with its neighbours: it comes from a cache or from memory, and goes there.
pub(crate) const COPIED_BYTE: Cost = Cost(96);

/// A byte that is copied to another place than its neighbours.
pub(crate) const TRANSPOSED_BYTE: Cost = Cost(192);

/// A byte of memory that is new: the system gives each page when it is first written, full of zeros.
pub(crate) const NEW_BYTE: Cost = Cost(384);

/// A step of a loop, which is an operator or some: a microsecond, mostly for calling them.
pub(crate) const STEP: Cost = Cost(1_152_000);
