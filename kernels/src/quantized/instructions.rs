//! Which microkernels multiply codes on the instructions of the machine.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::product::QuantizedGemmTask;
use crate::isa::Instructions;

/// Codes of data that are multiplied with packed filters.
pub(super) trait Code: Copy {
    /// Computes a part of a product.
    fn multiply(part: &mut QuantizedGemmTask<Self>);
}

impl Code for u8 {
    fn multiply(part: &mut QuantizedGemmTask<u8>) {
        match part.filters.instructions {
            Instructions::Portable(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::AvxVnni(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Vnni(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx(isa) => amx::multiply(isa, part),
        }
    }
}

/// Those that are widened.
impl Code for i16 {
    fn multiply(part: &mut QuantizedGemmTask<i16>) {
        match part.filters.instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(isa) => part.multiply_on(isa),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(isa) => part.multiply_on(isa),
            instructions => unreachable!("{instructions:?} do not widen codes"),
        }
    }
}
