//! Which microkernels multiply codes on the instructions of the machine.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::product::QuantizedGemmTask;
use crate::isa::Instructions;

/// Types of codes of data that are multiplied with packed weights.
pub(super) trait DataCode: Copy {
    /// Computes all tiles of a task.
    fn multiply(task: &mut QuantizedGemmTask<Self>);
}

impl DataCode for u8 {
    fn multiply(task: &mut QuantizedGemmTask<u8>) {
        match task.filters.instructions {
            Instructions::Portable(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::AvxVnni(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Vnni(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx(isa) => amx::multiply(isa, task),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "aarch64")]
            Instructions::NeonDot(isa) => task.multiply_on(isa),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            instructions => unreachable!("{instructions:?} widen codes"),
        }
    }
}

/// Codes that are widened.
impl DataCode for i16 {
    fn multiply(task: &mut QuantizedGemmTask<i16>) {
        match task.filters.instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(isa) => task.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(isa) => task.multiply_on(isa),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Instructions::Simd128(isa) => task.multiply_on(isa),
            instructions => unreachable!("{instructions:?} do not widen codes"),
        }
    }
}
