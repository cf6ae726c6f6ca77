//! Which microkernels multiply codes on the instructions of the machine.

use super::depthwise::{DepthwiseKernels, multiply_rows};
use super::finish::{Epilogue, TileSums};
use super::vectors::{CodeLanes, Codes};
use crate::convolution::{
    ConvolutionElement, DepthwiseRows, FilterFormat, GemmTask, OutputRows, SumLanes, TilePlace,
    UnpackedFilters,
};
#[cfg(target_arch = "x86_64")]
use crate::convolution::{StridedLines, TileElement, amx};
use crate::cost::{self, Cost};
use crate::isa::Instructions;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Amx, Avx512Vnni, TileFactors};

/// The steps of a tile of AMX.
const STEPS_OF_AMX: usize = 16;

impl ConvolutionElement for Codes {
    type Data = u8;
    type Epilogue = Epilogue;
    type Depthwise = DepthwiseKernels;

    const PRODUCT: Cost = cost::PRODUCT_OF_CODES;
    const READ_WEIGHT: Cost = cost::READ_CODE;
    const LEAST_ROWS_FOR_AMX: usize = 3;

    fn multiply(task: &mut GemmTask<Codes>) {
        match (task.filters.instructions, task.filters.needs_wide_data()) {
            (Instructions::Portable(isa), false) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx2(isa), false) => task.multiply_on::<_, 4, 8>(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx2(isa), true) => task.multiply_on::<_, 2, 8>(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::AvxVnni(isa), false) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512(isa), false) => task.multiply_on::<_, 4, 16>(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512(isa), true) => task.multiply_on::<_, 2, 16>(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512Vnni(isa), false) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512Bf16(isa), false) => task.multiply_on(isa.avx512_vnni()),
            #[cfg(target_arch = "x86_64")]
            (Instructions::Amx(isa), false) => {
                if !amx::multiply(isa, task) {
                    task.multiply_on(isa.avx512_vnni());
                }
            }
            #[cfg(target_arch = "aarch64")]
            (Instructions::Neon(isa), false) => task.multiply_on(isa),
            #[cfg(target_arch = "aarch64")]
            (Instructions::NeonDot(isa), false) => task.multiply_on(isa),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            (Instructions::Simd128(isa), true) => task.multiply_on(isa),
            (instructions, widened) => unreachable!("{instructions:?}, widened codes: {widened}"),
        }
    }

    fn depthwise(kernels: &DepthwiseKernels, rows: DepthwiseRows<Codes>) {
        multiply_rows(kernels, rows);
    }
}

#[cfg(target_arch = "x86_64")]
impl TileElement for Codes {
    const FACTORS: TileFactors = TileFactors::Codes;

    type Lanes = Avx512Vnni;

    fn lanes(isa: Amx) -> Avx512Vnni {
        isa.avx512_vnni()
    }

    fn multiply_row(
        lanes: Avx512Vnni,
        task: &mut GemmTask<Codes>,
        lines: &StridedLines,
        panel: usize,
        row: usize,
    ) {
        task.row_on(lanes, lines, panel, row);
    }
}

impl<L: CodeLanes<N>, const N: usize> SumLanes<Codes, N> for L {
    type Sums = L::Words;

    #[inline(always)]
    fn first(self, words: &[i32; N]) -> L::Words {
        self.load_i32(words)
    }

    #[inline(always)]
    fn finish<const R: usize, const V: usize>(
        self,
        epilogue: &Epilogue,
        sums: &[[L::Words; V]; R],
        at: TilePlace,
        output: &mut OutputRows,
    ) {
        TileSums { epilogue, sums, at, output }.finish(self);
    }
}

impl Instructions {
    /// How codes of weights are packed. With AMX, the tile of vectors is for the rows that a tile of AMX does not take; it has the width
    /// of such a one.
    pub(super) fn format_of(self, weights: UnpackedFilters) -> FilterFormat {
        let tile = match self {
            _ if self.has_amx() => [8, 2],
            _ if self.lanes() == 16 => [8, 3],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) | Instructions::AvxVnni(_) => [6, 2],
            #[cfg(target_arch = "aarch64")]
            Instructions::NeonDot(_) => [6, 2],
            _ => [4, 2],
        };
        let bytes_of_step = if self.widens(weights) { 2 } else { 4 };
        let steps_of_amx = self.has_amx().then_some(STEPS_OF_AMX);
        FilterFormat { bytes_of_step, tile, steps_of_amx }
    }

    /// Whether codes are widened to 16 bits before they meet these weights.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    fn widens(self, weights: UnpackedFilters) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) | Instructions::Avx512(_) => !pairs_fit(weights),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Instructions::Simd128(_) => true,
            _ => false,
        }
    }
}

/// Whether each two neighbours are at most 128 from 0 together: their products with two codes of data have 16 bits then.
#[cfg(target_arch = "x86_64")]
fn pairs_fit(weights: UnpackedFilters) -> bool {
    let fits =
        |pair: &[i8]| pair.iter().map(|code| u16::from(code.unsigned_abs())).sum::<u16>() <= 128;
    let (of_tap, mut room) = (weights.bytes_of_tap(), vec![]);
    weights.filters().all(|filter| {
        let filter = weights.ordered(filter, &mut room);
        filter.chunks_exact(of_tap).all(|tap| tap.chunks(2).all(fits))
    })
}
