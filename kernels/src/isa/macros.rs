//! What the files with intrinsics share.

/// Implements [`Isa`]: these features are among those that its `detect` has found.
macro_rules! isa {
    ($isa:ty, $features:literal) => {
        impl Isa for $isa {
            fn enter<B: On<$isa>>(self, body: B) -> B::Output {
                #[target_feature(enable = $features)]
                fn run<B: On<$isa>>(isa: $isa, body: B) -> B::Output {
                    body.run(isa)
                }
                // SAFETY: there is a value of the type only where `detect` has found the instructions.
                unsafe { run(self, body) }
            }
        }
    };
}

pub(super) use isa;

/// Methods that are intrinsics.
///
/// SAFETY of all of them: there is a value of the type only where the machine has the instructions, and what they read and
/// write are arrays of their size.
macro_rules! intrinsics {
    ($(
        $name:ident $(<const $parameter:ident: $of:ty>)? ($($argument:ident: $type:ty),*)
            -> $result:ty = $body:expr;
    )*) => {$(
        #[inline(always)]
        fn $name $(<const $parameter: $of>)? (self, $($argument: $type),*) -> $result {
            #[allow(clippy::redundant_closure_call)]
            unsafe {
                $body
            }
        }
    )*};
}

pub(crate) use intrinsics;
