//! What the files of instructions share.

/// Implements [`Isa`]: these features are among those that were detected, where there is a value of the type.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! isa {
    ($isa:ty, $features:literal) => {
        impl Isa for $isa {
            fn enter<B: On<$isa>>(self, body: B) {
                #[target_feature(enable = $features)]
                fn run<B: On<$isa>>(isa: $isa, body: B) {
                    body.run(isa)
                }
                // SAFETY: there is a value of the type only where `detect` has found the instructions.
                unsafe { run(self, body) }
            }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use isa;

/// Methods that are always inlined.
macro_rules! methods {
    ($(
        $name:ident $(<const $parameter:ident: $of:ty>)? ($($argument:ident: $type:ty),*)
            -> $result:ty = $body:expr;
    )*) => {$(
        #[inline(always)]
        #[allow(clippy::redundant_closure_call)]
        fn $name $(<const $parameter: $of>)? (self, $($argument: $type),*) -> $result {
            $body
        }
    )*};
}

pub(crate) use methods;

/// [`methods`] that are intrinsics.
///
/// SAFETY of all of them: there is a value of the type only where the machine has the instructions, and what they read and
/// write are arrays of their size.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! intrinsics {
    ($(
        $name:ident $(<const $parameter:ident: $of:ty>)? ($($arguments:tt)*) -> $result:ty = $body:expr;
    )*) => {
        $crate::isa::methods! {
            $($name $(<const $parameter: $of>)? ($($arguments)*) -> $result = unsafe { $body };)*
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use intrinsics;
