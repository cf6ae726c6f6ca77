//! Vectors of x86, with intrinsics.

// Vectors are only made where the machine has them. Codes of 4 bits, one row, in floats: 4.6 times as fast as portable ones.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pulp::x86::{V3, V4};

use super::{Isa, Lanes, On};

/// AVX2, FMA and F16C: 256 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(V3);

/// The same, and AVX-VNNI: bytes are multiplied four at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AvxVnni(Avx2);

/// AVX-512: 512 bits; with `VNNI`, bytes are multiplied four at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<const VNNI: bool>(V4);

/// 512 bits, with VNNI.
pub(crate) type Vnni = Avx512<true>;

/// The same, and tiles of codes, which the system lets the process use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amx(Vnni);

impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        V3::try_new().map(Avx2)
    }

    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> V3 {
        self.0
    }
}

impl AvxVnni {
    pub fn detect() -> Option<AvxVnni> {
        Avx2::detect().filter(|_| is_x86_feature_detected!("avxvnni")).map(AvxVnni)
    }

    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        self.0
    }
}

impl Avx512<false> {
    pub fn detect() -> Option<Avx512<false>> {
        // All that has AVX-512 has AVX2.
        Avx2::detect().and_then(|_| V4::try_new()).map(Avx512)
    }
}

impl Vnni {
    pub fn detect() -> Option<Vnni> {
        let avx512 = Avx512::<false>::detect()?;
        is_x86_feature_detected!("avx512vnni").then_some(Avx512(avx512.0))
    }

    #[inline(always)]
    pub fn avx512(self) -> Avx512<false> {
        Avx512(self.0)
    }
}

impl<const VNNI: bool> Avx512<VNNI> {
    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> V4 {
        self.0
    }

    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        Avx2(*self.0)
    }
}

impl Amx {
    pub fn detect() -> Option<Amx> {
        Vnni::detect().filter(|_| tract_linalg::x86_64::amx::has_amx_int8()).map(Amx)
    }

    #[inline(always)]
    pub fn vnni(self) -> Vnni {
        self.0
    }
}

/// Implements [`Isa`]: these features are among those that [`detect`](Avx2::detect) has found.
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

// `avx512dq` is for activations: without it each of them calls functions that flip a sign, and all that is in registers goes to
// memory.
isa!(Avx2, "avx2,fma,f16c");
isa!(AvxVnni, "avx2,fma,f16c,avxvnni");
isa!(Avx512<false>, "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq");
isa!(Vnni, "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni");

/// Implements [`Lanes`] with intrinsics.
///
/// SAFETY of all of them: there is a value of the type only where the machine has the instructions, and what they read and
/// write are arrays of their size.
macro_rules! lanes {
    ([$($generic:tt)*] $name:ty, $lanes:literal, $numbers:ty, $words:ty,
        splat: $splat:ident, load: $load:ident, store: $store:ident, add: $add:ident, sub: $sub:ident, mul: $mul:ident,
        fmadd: $fmadd:ident, load_bytes: $load_bytes:ident, load_half: $load_half:ident, load_words: $load_words:ident,
        widen_i8: $widen_i8:ident, widen_u8: $widen_u8:ident, widen_u16: $widen_u16:ident, floats: $floats:ident,
        of_f16: $of_f16:ident, cast: $cast:ident, and: $and:ident, set: $set:ident, shift_left: $shift_left:ident,
        shift_right: $shift_right:ident, shift_signed: $shift_signed:ident, lower_halves: $lower_halves:ident,
        of_nibble: $of_nibble:ident, permute: $permute:expr, sum: $sum:expr, transpose: $transpose:ident) => {
        impl<$($generic)*> Lanes<$lanes> for $name
        where
            $name: Isa,
        {
            type Floats = $numbers;
            type Words = $words;

            #[inline(always)]
            fn splat(self, number: f32) -> $numbers {
                unsafe { $splat(number) }
            }

            #[inline(always)]
            fn load(self, numbers: &[f32; $lanes]) -> $numbers {
                unsafe { $load(numbers.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, place: &mut [f32; $lanes], numbers: $numbers) {
                unsafe { $store(place.as_mut_ptr(), numbers) }
            }

            #[inline(always)]
            fn add(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $add(a, b) }
            }

            #[inline(always)]
            fn sub(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $sub(a, b) }
            }

            #[inline(always)]
            fn mul(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $mul(a, b) }
            }

            #[inline(always)]
            fn mul_add(self, a: $numbers, b: $numbers, c: $numbers) -> $numbers {
                unsafe { $fmadd(a, b, c) }
            }

            #[inline(always)]
            fn sum(self, numbers: $numbers) -> f32 {
                #[allow(clippy::redundant_closure_call)]
                unsafe {
                    $sum(numbers)
                }
            }

            #[inline(always)]
            fn load_words(self, words: &[[u8; 4]; $lanes]) -> $words {
                unsafe { $load_words(words.as_ptr().cast()) }
            }

            #[inline(always)]
            fn transpose(self, vectors: [$words; $lanes]) -> [$words; $lanes] {
                unsafe { $transpose(vectors) }
            }

            #[inline(always)]
            fn of_i8(self, codes: &[u8; $lanes]) -> $numbers {
                unsafe { $floats($widen_i8($load_bytes(codes.as_ptr().cast()))) }
            }

            #[inline(always)]
            fn of_u8(self, codes: &[u8; $lanes]) -> $numbers {
                unsafe { $floats($widen_u8($load_bytes(codes.as_ptr().cast()))) }
            }

            #[inline(always)]
            fn of_f16(self, bytes: &[[u8; 2]; $lanes]) -> $numbers {
                unsafe { $of_f16($load_half(bytes.as_ptr().cast())) }
            }

            #[inline(always)]
            fn of_bf16(self, bytes: &[[u8; 2]; $lanes]) -> $numbers {
                unsafe { $cast($shift_left::<16>($widen_u16($load_half(bytes.as_ptr().cast())))) }
            }

            #[inline(always)]
            fn f32_of_words(self, words: $words) -> $numbers {
                unsafe { $cast(words) }
            }

            #[inline(always)]
            fn f16_of_words(self, words: $words) -> [$numbers; 2] {
                unsafe {
                    let second = $shift_right::<16>(words);
                    [$of_f16($lower_halves(words)), $of_f16($lower_halves(second))]
                }
            }

            #[inline(always)]
            fn bf16_of_words(self, words: $words) -> [$numbers; 2] {
                unsafe {
                    let second = $and(words, $set(!0xffff));
                    [$cast($shift_left::<16>(words)), $cast(second)]
                }
            }

            #[inline(always)]
            fn bytes_of_words<const SIGNED: bool>(self, words: $words) -> [$numbers; 4] {
                unsafe {
                    let codes = match SIGNED {
                        true => [
                            $shift_signed::<24>($shift_left::<24>(words)),
                            $shift_signed::<24>($shift_left::<16>(words)),
                            $shift_signed::<24>($shift_left::<8>(words)),
                            $shift_signed::<24>(words),
                        ],
                        false => [
                            $and(words, $set(255)),
                            $and($shift_right::<8>(words), $set(255)),
                            $and($shift_right::<16>(words), $set(255)),
                            $shift_right::<24>(words),
                        ],
                    };
                    [$floats(codes[0]), $floats(codes[1]), $floats(codes[2]), $floats(codes[3])]
                }
            }

            #[inline(always)]
            fn nibbles_of_words<const SIGNED: bool>(self, words: $words) -> [$numbers; 8] {
                unsafe {
                    [
                        $of_nibble::<SIGNED, 28, 0>(words),
                        $of_nibble::<SIGNED, 24, 4>(words),
                        $of_nibble::<SIGNED, 20, 8>(words),
                        $of_nibble::<SIGNED, 16, 12>(words),
                        $of_nibble::<SIGNED, 12, 16>(words),
                        $of_nibble::<SIGNED, 8, 20>(words),
                        $of_nibble::<SIGNED, 4, 24>(words),
                        $of_nibble::<SIGNED, 0, 28>(words),
                    ]
                }
            }

            #[inline(always)]
            fn permute(self, numbers: $numbers, places: &[u32; $lanes]) -> $numbers {
                unsafe { $permute(numbers, $load_words(places.as_ptr().cast())) }
            }
        }
    };
}

/// A code of four bits of each word: so many bits are above it, and so many below.
///
/// # Safety
///
/// The machine has AVX2.
#[inline(always)]
unsafe fn of_nibble_256<const SIGNED: bool, const ABOVE: i32, const BELOW: i32>(
    words: __m256i,
) -> __m256 {
    unsafe {
        _mm256_cvtepi32_ps(match SIGNED {
            true => _mm256_srai_epi32::<28>(_mm256_slli_epi32::<ABOVE>(words)),
            false => _mm256_and_si256(_mm256_srli_epi32::<BELOW>(words), _mm256_set1_epi32(15)),
        })
    }
}

/// The same: a code is the place of its number in a vector.
///
/// # Safety
///
/// The machine has AVX-512F.
#[inline(always)]
unsafe fn of_nibble_512<const SIGNED: bool, const ABOVE: i32, const BELOW: u32>(
    words: __m512i,
) -> __m512 {
    unsafe {
        let numbers = match SIGNED {
            true => _mm512_setr_ps(
                0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.,
            ),
            false => {
                _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.)
            }
        };
        _mm512_permutexvar_ps(_mm512_srli_epi32::<BELOW>(words), numbers)
    }
}

lanes!([] Avx2, 8, __m256, __m256i,
    splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, add: _mm256_add_ps, sub: _mm256_sub_ps,
    mul: _mm256_mul_ps, fmadd: _mm256_fmadd_ps, load_bytes: _mm_loadl_epi64, load_half: _mm_loadu_si128,
    load_words: _mm256_loadu_si256, widen_i8: _mm256_cvtepi8_epi32, widen_u8: _mm256_cvtepu8_epi32,
    widen_u16: _mm256_cvtepu16_epi32, floats: _mm256_cvtepi32_ps, of_f16: _mm256_cvtph_ps, cast: _mm256_castsi256_ps,
    and: _mm256_and_si256, set: _mm256_set1_epi32, shift_left: _mm256_slli_epi32, shift_right: _mm256_srli_epi32,
    shift_signed: _mm256_srai_epi32, lower_halves: lower_halves_256, of_nibble: of_nibble_256,
    permute: |numbers, places| _mm256_permutevar8x32_ps(numbers, places),
    sum: |numbers| {
        let halves = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps::<1>(numbers));
        let pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)))
    },
    transpose: transpose_8);

lanes!([const VNNI: bool] Avx512<VNNI>, 16, __m512, __m512i,
    splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, add: _mm512_add_ps, sub: _mm512_sub_ps,
    mul: _mm512_mul_ps, fmadd: _mm512_fmadd_ps, load_bytes: _mm_loadu_si128, load_half: _mm256_loadu_si256,
    load_words: _mm512_loadu_si512, widen_i8: _mm512_cvtepi8_epi32, widen_u8: _mm512_cvtepu8_epi32,
    widen_u16: _mm512_cvtepu16_epi32, floats: _mm512_cvtepi32_ps, of_f16: _mm512_cvtph_ps, cast: _mm512_castsi512_ps,
    and: _mm512_and_si512, set: _mm512_set1_epi32, shift_left: _mm512_slli_epi32, shift_right: _mm512_srli_epi32,
    shift_signed: _mm512_srai_epi32, lower_halves: _mm512_cvtepi32_epi16, of_nibble: of_nibble_512,
    permute: |numbers, places| _mm512_permutexvar_ps(places, numbers),
    sum: |numbers| _mm512_reduce_add_ps(numbers),
    transpose: transpose_16);

/// The lower halves of words.
///
/// # Safety
///
/// The machine has AVX2.
#[inline(always)]
unsafe fn lower_halves_256(words: __m256i) -> __m128i {
    unsafe {
        let halves = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
        let turns = _mm256_packus_epi32(halves, halves);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(turns))
    }
}

/// By pairs of vectors: their lanes in turn, then pairs of lanes, and halves.
///
/// # Safety
///
/// The machine has AVX2.
#[inline(always)]
unsafe fn transpose_8(v: [__m256i; 8]) -> [__m256i; 8] {
    // Closures would not be compiled for the vectors.
    unsafe {
        let mut fours = [[_mm256_setzero_si256(); 4]; 2];
        for (half, four) in fours.iter_mut().enumerate() {
            let v = &v[4 * half..][..4];
            *four = transpose_halves([v[0], v[1], v[2], v[3]]);
        }
        let mut lanes = [_mm256_setzero_si256(); 8];
        for lane in 0..4 {
            let [a, b] = [fours[0][lane], fours[1][lane]];
            lanes[lane] = _mm256_permute2x128_si256::<0x20>(a, b);
            lanes[lane + 4] = _mm256_permute2x128_si256::<0x31>(a, b);
        }
        lanes
    }
}

/// Transposes the four words that each half of four vectors has: vector `n` comes to have the words of lanes `n` and `n + 4` of all, by
/// halves.
///
/// # Safety
///
/// The machine has AVX2.
#[inline(always)]
pub(crate) unsafe fn transpose_halves(v: [__m256i; 4]) -> [__m256i; 4] {
    unsafe {
        let [a, b] = [_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1])];
        let [c, d] = [_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3])];
        [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ]
    }
}

/// By pairs of vectors: their lanes in turn, then pairs of lanes, and quarters.
///
/// # Safety
///
/// The machine has AVX-512F.
#[inline(always)]
unsafe fn transpose_16(v: [__m512i; 16]) -> [__m512i; 16] {
    unsafe {
        let mut fours = [[_mm512_setzero_si512(); 4]; 4];
        for (quarter, four) in fours.iter_mut().enumerate() {
            let v = &v[4 * quarter..][..4];
            *four = transpose_quarters([v[0], v[1], v[2], v[3]]);
        }
        let mut lanes = [_mm512_setzero_si512(); 16];
        for lane in 0..4 {
            let [a, b] = [fours[0][lane], fours[1][lane]];
            let [c, d] = [fours[2][lane], fours[3][lane]];
            // The quarters with even numbers of two of them, and those with odd ones.
            let even = [_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d)];
            let odd = [_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d)];
            lanes[lane] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
            lanes[lane + 4] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
            lanes[lane + 8] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
            lanes[lane + 12] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
        }
        lanes
    }
}

/// Transposes the four words that each quarter of four vectors has: vector `n` comes to have the words of lanes `n`, `n + 4`, `n + 8` and
/// `n + 12` of all, by quarters.
///
/// # Safety
///
/// The machine has AVX-512F.
#[inline(always)]
pub(crate) unsafe fn transpose_quarters(v: [__m512i; 4]) -> [__m512i; 4] {
    unsafe {
        let [a, b] = [_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])];
        let [c, d] = [_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3])];
        [
            _mm512_unpacklo_epi64(a, c),
            _mm512_unpackhi_epi64(a, c),
            _mm512_unpacklo_epi64(b, d),
            _mm512_unpackhi_epi64(b, d),
        ]
    }
}
