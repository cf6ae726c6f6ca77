//! What a file, and the tensors that a model is fed, may ask for.
//!
//! A file of a few hundred bytes can ask for more memory or time than there is. So each number in it, and each that a
//! run computes, has a limit. A real network could only reach those of [`Limits`], which can be set; the others are
//! constants, far above what networks have and far below where sums overflow or memory ends.
//!
//! Sizes of blocks, and numbers up to which some way is the faster one, are no limits: they stay where they are used.

use tract_openvino_kernels::checks::power_of_two;

/// What a model may take that a real network could reach: see [`Ir::with_limits`](crate::Ir::with_limits).
///
/// ```
/// use tract_openvino_ir::{Limits, ir};
///
/// let mut limits = Limits::default();
/// limits.iterations = 1000;
/// let reader = ir().with_limits(limits);
/// # let _ = reader;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most memory, in bytes, that the constants of a model may take while it is loaded: those that are read from
    /// the weights, and those that are computed from them. A constant that is not kept counts, too.
    ///
    /// One layer is enough to repeat an element as often as a shape says, and many may read the same weights. If
    /// this is `None`, the limit is 256 MiB and 32 bytes for each byte of the weights. Loading fails above it.
    pub constant_bytes: Option<u64>,
    /// The most iterations of a loop, together with those of the loops within it: 2²⁴ by default. A run fails if a
    /// loop has more, because its condition stays true or its number of iterations is large.
    pub iterations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { iterations: 1 << 24, constant_bytes: None }
    }
}

impl Limits {
    /// The most memory, in bytes, of the constants of a model with so many bytes of weights.
    pub(crate) fn constant_bytes(&self, weights: u64) -> u64 {
        let default = || {
            BYTES_OF_CONSTANTS.saturating_add(weights.saturating_mul(BYTES_FOR_A_BYTE_OF_WEIGHTS))
        };
        self.constant_bytes.unwrap_or_else(default)
    }
}

/// What the constants of any model may take, in bytes: some are computed from nothing but a shape.
pub(crate) const BYTES_OF_CONSTANTS: u64 = 1 << 28;

/// What they may take for each byte of the weights. Elements of one bit become bytes, those of two or four
/// become floats, and some layers compute them in several steps.
const BYTES_FOR_A_BYTE_OF_WEIGHTS: u64 = 32;

// The file.

/// The most attributes of an XML element, and the most namespaces of a file. The parser compares each with all others.
/// Operations have up to 30 attributes, and files of IR have no namespaces.
pub(crate) const MAX_XML_ATTRIBUTES: usize = 256;

/// The most bodies of control flow within each other: networks have one or two. Each is a level of recursion.
pub(crate) const MAX_BODY_DEPTH: usize = 16;

/// The most times that bodies of control flow are translated, on an average of all their layers. Those within the body of a loop are translated again
/// whenever something is learnt of the sizes that the loop changes, so that the times multiply.
pub(crate) const MAX_BODY_TRANSLATIONS: usize = 1 << 7;

/// The most times that a loop's body is translated to learn which of its sizes an iteration changes, each of them from
/// others. If there are more to learn, all sizes of its states count as changed.
pub(crate) const MAX_LESSONS_OF_LOOP: usize = 4;

/// The most bytes of a text of an error. An error is a few of them, one in front of the other. Names, lists and shapes
/// of a file may be megabytes.
pub(crate) const MAX_ERROR_BYTES: usize = 4096;

/// The most bytes of the name of a node. It has the names of the layers around it in it, and each of several nodes
/// of a layer has it. Real names have some hundred.
pub(crate) const MAX_NAME_BYTES: usize = 512;

// Tensors.

/// The most axes of a tensor: NumPy has as many. Some operations make a node for each.
pub(crate) const MAX_AXES: usize = 64;

/// The most elements of the shape that an input or a constant declares: its sizes are multiplied and added later.
pub(crate) const MAX_DECLARED_ELEMENTS: usize = power_of_two(40);

/// The most elements of what is made of numbers and not of data: a range, a random tensor, the axis of a OneHot, the
/// segments of a sum, the signal of an inverse transform. 2²⁸ floats take 1 GiB.
pub(crate) const MAX_STATED_ELEMENTS: usize = 1 << 28;

// Windows and signals.

/// The most elements along an axis that a stride, a dilation, a pad or a kernel with its dilations may have, so that
/// sums of them do not overflow.
pub(crate) const MAX_WINDOW_EXTENT: i64 = i32::MAX as i64;

/// The most elements of the kernel of a convolution or a pool. tract makes a list of where they are in the data.
pub(crate) const MAX_KERNEL_ELEMENTS: usize = 1 << 24;

/// The most elements of the window of an LRN. tract looks at all of them for each element of the output.
pub(crate) const MAX_LRN_WINDOW: usize = 1 << 16;

/// The most elements that Pad adds at one end of an axis, or takes away. There would be no memory for many more.
pub(crate) const MAX_PAD: i64 = 1 << 24;

/// The most elements along an axis of a Fourier transform, whose factors take memory.
pub(crate) const MAX_SIGNAL: i64 = 1 << 24;

// Detectors and sparse tensors.

/// The most boxes that a file may ask for. An output has up to eight floats for each.
pub(crate) const MAX_BOXES: usize = 1 << 24;

/// The most anchors or prior boxes of a cell of a feature map. Networks have some ten.
pub(crate) const MAX_BOXES_OF_CELL: usize = 1 << 16;

/// The most samples of a region of ROIAlign along an axis.
pub(crate) const MAX_SAMPLES: usize = 1 << 16;

/// The most samples of all regions of ROIAlign together, if the file states how many a part has: they take time, 14 s here. A Mask
/// R-CNN with 1,000 regions has a twentieth of them.
pub(crate) const MAX_STATED_SAMPLES: u64 = 1u64 << 32;

/// The most rows of a SparseFillEmptyRows. A file may state any number, and each takes a place in the output.
pub(crate) const MAX_FILLED_ROWS: usize = 1 << 24;
