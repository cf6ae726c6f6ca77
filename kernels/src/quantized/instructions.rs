//! Which microkernels multiply codes on the instructions of the machine.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::product::QuantizedGemmTask;
use crate::isa::Instructions;

/// Computes all tiles of a task.
pub(super) fn multiply(task: &mut QuantizedGemmTask) {
    match (task.filters.instructions, task.filters.are_widened()) {
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
        (Instructions::Amx(isa), false) => amx::multiply(isa, task),
        #[cfg(target_arch = "aarch64")]
        (Instructions::Neon(isa), false) => task.multiply_on(isa),
        #[cfg(target_arch = "aarch64")]
        (Instructions::NeonDot(isa), false) => task.multiply_on(isa),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        (Instructions::Simd128(isa), true) => task.multiply_on(isa),
        (instructions, widened) => unreachable!("{instructions:?}, widened codes: {widened}"),
    }
}
