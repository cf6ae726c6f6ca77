//! Vectors of x86, with intrinsics.

// Proofs are only made where the machine has the instructions. Portable vectors are several times slower.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use pulp::x86::{V3, V4};
use tract_linalg::x86_64::amx::has_amx_int8;

use super::macros::{intrinsics, isa};
use super::{Bf16Pairs, Instructions, Isa, Lanes, On, put_first};

/// AVX2, FMA and F16C: 256 bits; with `VNNI`, bytes are multiplied four at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx256<const VNNI: bool>(V3);

/// 256 bits.
pub(crate) type Avx2 = Avx256<false>;

/// 256 bits, with AVX-VNNI.
pub(crate) type AvxVnni = Avx256<true>;

/// AVX-512: 512 bits; with `VNNI`, bytes are multiplied four at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<const VNNI: bool>(V4);

/// 512 bits, with VNNI.
pub(crate) type Avx512Vnni = Avx512<true>;

/// 512 bits, with VNNI, and products of numbers in bf16, two at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512Bf16(Avx512Vnni);

/// 512 bits, with VNNI and bf16, and tiles of codes and of numbers in bf16, which the system lets the process use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amx(Avx512Bf16);

/// What this machine has, the best ones last.
pub(super) fn detected() -> Vec<Instructions> {
    // pulp does not ask for it.
    let v3 = V3::try_new().filter(|_| is_x86_feature_detected!("f16c"));
    let Some(v3) = v3 else { return vec![] };
    let mut all = vec![Instructions::Avx2(Avx256(v3))];
    if is_x86_feature_detected!("avxvnni") {
        all.push(Instructions::AvxVnni(Avx256(v3)));
    }
    let Some(v4) = V4::try_new() else { return all };
    all.push(Instructions::Avx512(Avx512(v4)));
    if is_x86_feature_detected!("avx512vnni") {
        all.push(Instructions::Avx512Vnni(Avx512(v4)));
        if is_x86_feature_detected!("avx512bf16") {
            let bf16 = Avx512Bf16(Avx512(v4));
            all.push(Instructions::Avx512Bf16(bf16));
            let has_tiles = has_amx_int8() && has_amx_bf16();
            all.extend(has_tiles.then_some(Instructions::Amx(Amx(bf16))));
        }
    }
    all
}

/// Whether tiles multiply numbers in bf16.
#[allow(unused_unsafe, reason = "the function is unsafe in Rust 1.91")]
fn has_amx_bf16() -> bool {
    // SAFETY: all processors with vectors of 512 bits have this leaf.
    let CpuidResult { edx, .. } = unsafe { __cpuid_count(7, 0) };
    edx & 1 << 22 != 0
}

/// Whether a product of two pairs in bf16 takes as long as one in single precision, on vectors: with AMD it does. With Intel it takes more
/// than twice as long, as tiles are meant for bf16 there.
#[allow(unused_unsafe, reason = "the function is unsafe in Rust 1.91")]
pub(super) fn has_fast_bf16() -> bool {
    // SAFETY: all processors of 64 bits have the instruction.
    let CpuidResult { ebx, ecx, edx, .. } = unsafe { __cpuid(0) };
    [ebx, edx, ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

impl<const VNNI: bool> Avx256<VNNI> {
    /// Without VNNI.
    #[inline(always)]
    pub fn plain(self) -> Avx2 {
        Avx256(self.0)
    }

    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> V3 {
        self.0
    }
}

impl<const VNNI: bool> Avx512<VNNI> {
    /// Without VNNI.
    #[inline(always)]
    pub fn plain(self) -> Avx512<false> {
        Avx512(self.0)
    }

    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> V4 {
        self.0
    }

    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        Avx256(*self.0)
    }
}

impl Avx512Bf16 {
    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> V4 {
        self.0.pulp()
    }

    #[inline(always)]
    pub fn avx512_vnni(self) -> Avx512Vnni {
        self.0
    }
}

/// Where the numbers of pairs are, among 16 first ones and 16 second ones.
const IN_PAIRS: [u16; 32] = {
    let mut places = [0; 32];
    let mut pair = 0;
    while pair < 16 {
        (places[2 * pair], places[2 * pair + 1]) = (pair as u16, pair as u16 + 16);
        pair += 1;
    }
    places
};

impl Bf16Pairs for Avx512Bf16 {
    intrinsics! {
        // The instruction takes what comes first as its second operand.
        bf16_of_neighbours(numbers: &[[f32; 16]; 2]) -> [u32; 16] = {
            let second = _mm512_loadu_ps(numbers[1].as_ptr());
            std::mem::transmute(_mm512_cvtne2ps_pbh(second, _mm512_loadu_ps(numbers[0].as_ptr())))
        };
        bf16_of_lines(first: &[f32; 16], second: &[f32; 16]) -> [u32; 16] = {
            let first = _mm512_loadu_ps(first.as_ptr());
            std::mem::transmute(bf16_pairs_512(first, _mm512_loadu_ps(second.as_ptr())))
        };
    }
}

impl PartialEq for Avx512Bf16 {
    /// There is one processor.
    fn eq(&self, _: &Avx512Bf16) -> bool {
        true
    }
}

impl Amx {
    #[inline(always)]
    pub fn avx512_bf16(self) -> Avx512Bf16 {
        self.0
    }

    #[inline(always)]
    pub fn avx512_vnni(self) -> Avx512Vnni {
        self.0.avx512_vnni()
    }
}

// `avx512dq` is for activations: without it each of them calls functions that flip a sign, and all that is in registers goes to
// memory.
isa!(Avx2, "avx2,fma,f16c");
isa!(AvxVnni, "avx2,fma,f16c,avxvnni");
isa!(Avx512<false>, "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq");
isa!(Avx512Vnni, "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni");
isa!(Avx512Bf16, "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx512bf16");

/// That there is a function.
macro_rules! rounds_to_bf16 {
    ($function:ident) => {
        true
    };
}

/// Implements [`Lanes`].
macro_rules! lanes {
    ([$($generic:tt)*] $name:ty, $lanes:literal, $numbers:ty, $words:ty,
        splat: $splat:ident, load: $load:ident, store: $store:ident, load_part: $load_part:ident,
        store_part: $store_part:ident, add: $add:ident, sub: $sub:ident, mul: $mul:ident,
        fmadd: $fmadd:ident, load_bytes: $load_bytes:ident, load_half: $load_half:ident, load_words: $load_words:ident, store_words: $store_words:ident,
        widen_i8: $widen_i8:ident, widen_u8: $widen_u8:ident, widen_u16: $widen_u16:ident, floats: $floats:ident,
        of_f16: $of_f16:ident, cast: $cast:ident, and: $and:ident, set: $set:ident, shift_left: $shift_left:ident,
        shift_right: $shift_right:ident, shift_signed: $shift_signed:ident, lower_halves: $lower_halves:ident,
        of_nibble: $of_nibble:ident, $(to_bf16: $to_bf16:ident, bf16_of_both: $bf16_of_both:ident, bf16_pairs: $bf16_pairs:ident,)? repeat: $repeat:ident, permute: $permute:expr, sum: $sum:expr, transpose: $transpose:ident, min: $min:ident,
        max: $max:ident, integers: $integers:ident, put_bytes: $put_bytes:ident) => {
        impl<$($generic)*> Lanes<$lanes> for $name
        where
            $name: Isa,
        {
            type Floats = $numbers;
            type Words = $words;

            const LIMITS_BYTES: bool = true;
            const REPEATS: bool = true;
            $(const ROUNDS_TO_BF16: bool = rounds_to_bf16!($to_bf16);)?

            intrinsics! {
                splat(number: f32) -> $numbers = $splat(number);
                load(numbers: &[f32; $lanes]) -> $numbers = $load(numbers.as_ptr());
                repeat<const K: usize>(numbers: &[f32; K]) -> $numbers = $repeat(numbers);
                store(place: &mut [f32; $lanes], numbers: $numbers) -> () = {
                    $store(place.as_mut_ptr(), numbers)
                };
                load_part(part: &[f32]) -> $numbers = $load_part(part);
                store_part(part: &mut [f32], numbers: $numbers) -> () = $store_part(part, numbers);
                add(a: $numbers, b: $numbers) -> $numbers = $add(a, b);
                sub(a: $numbers, b: $numbers) -> $numbers = $sub(a, b);
                mul(a: $numbers, b: $numbers) -> $numbers = $mul(a, b);
                mul_add(a: $numbers, b: $numbers, c: $numbers) -> $numbers = $fmadd(a, b, c);
                sum(numbers: $numbers) -> f32 = $sum(numbers);
                // Of NaN the second operand is the larger one.
                clamp(x: $numbers, least: $numbers, most: $numbers) -> $numbers = {
                    $min($max(x, least), most)
                };
                nearest(numbers: $numbers) -> $numbers = $floats($integers(numbers));
                put_bytes<const V: usize>(vectors: [$numbers; V], places: &mut [u8]) -> () = {
                    $put_bytes(vectors, places)
                };
                load_words(words: &[[u8; 4]; $lanes]) -> $words = $load_words(words.as_ptr().cast());
                store_words(place: &mut [[u8; 4]; $lanes], words: $words) -> () = {
                    $store_words(place.as_mut_ptr().cast(), words)
                };
                load_i32(numbers: &[i32; $lanes]) -> $words = $load_words(numbers.as_ptr().cast());
                transpose(vectors: [$words; $lanes]) -> [$words; $lanes] = $transpose(vectors);
                of_i8(codes: &[u8; $lanes]) -> $numbers = {
                    $floats($widen_i8($load_bytes(codes.as_ptr().cast())))
                };
                of_u8(codes: &[u8; $lanes]) -> $numbers = {
                    $floats($widen_u8($load_bytes(codes.as_ptr().cast())))
                };
                of_f16(bytes: &[[u8; 2]; $lanes]) -> $numbers = {
                    $of_f16($load_half(bytes.as_ptr().cast()))
                };
                of_bf16(bytes: &[[u8; 2]; $lanes]) -> $numbers = {
                    $cast($shift_left::<16>($widen_u16($load_half(bytes.as_ptr().cast()))))
                };
                $(to_bf16(numbers: $numbers) -> [[u8; 2]; $lanes] = {
                    std::mem::transmute($to_bf16(numbers))
                };
                bf16_of_both(first: $numbers, second: $numbers) -> [[[u8; 2]; $lanes]; 2] = {
                    std::mem::transmute($bf16_of_both(first, second))
                };
                bf16_pairs(first: $numbers, second: $numbers) -> [[u8; 4]; $lanes] = {
                    std::mem::transmute($bf16_pairs(first, second))
                };)?
                i32_of_words(words: $words) -> $numbers = $floats(words);
                f32_of_words(words: $words) -> $numbers = $cast(words);
                f16_of_words(words: $words) -> [$numbers; 2] = {
                    [$of_f16($lower_halves(words)), $of_f16($lower_halves($shift_right::<16>(words)))]
                };
                bf16_of_words(words: $words) -> [$numbers; 2] = {
                    [$cast($shift_left::<16>(words)), $cast($and(words, $set(!0xffff)))]
                };
                bytes_of_words<const SIGNED: bool>(words: $words) -> [$numbers; 4] = {
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
                };
                nibbles_of_words<const SIGNED: bool>(words: $words) -> [$numbers; 8] = {
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
                };
                permute(numbers: $numbers, places: &[u32; $lanes]) -> $numbers = {
                    $permute(numbers, $load_words(places.as_ptr().cast()))
                };
            }
        }
    };
}

/// A mask of the lanes that a slice has numbers for.
#[target_feature(enable = "avx2")]
#[inline]
fn lanes_of_256(part: &[f32]) -> __m256i {
    let count = _mm256_set1_epi32(part.len().min(8) as i32);
    _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_part_256(part: &[f32]) -> __m256 {
    // SAFETY: the lanes that are read are those of the slice.
    unsafe { _mm256_maskload_ps(part.as_ptr(), lanes_of_256(part)) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_part_256(part: &mut [f32], numbers: __m256) {
    let lanes = lanes_of_256(part);
    // SAFETY: the lanes that are written are those of the slice.
    unsafe { _mm256_maskstore_ps(part.as_mut_ptr(), lanes, numbers) };
}

/// As [`lanes_of_256`].
fn lanes_of_512(part: &[f32]) -> __mmask16 {
    ((1u32 << part.len().min(16)) - 1) as __mmask16
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load_part_512(part: &[f32]) -> __m512 {
    // SAFETY: as in `load_part_256`.
    unsafe { _mm512_maskz_loadu_ps(lanes_of_512(part), part.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store_part_512(part: &mut [f32], numbers: __m512) {
    let lanes = lanes_of_512(part);
    // SAFETY: as in `store_part_256`.
    unsafe { _mm512_mask_storeu_ps(part.as_mut_ptr(), lanes, numbers) };
}

#[target_feature(enable = "avx2")]
#[inline]
fn repeat_256<const K: usize>(numbers: &[f32; K]) -> __m256 {
    const { assert!(8 % K == 0) };
    // SAFETY: there are as many numbers as are read.
    unsafe {
        match K {
            1 => _mm256_set1_ps(numbers[0]),
            2 => _mm256_castpd_ps(_mm256_set1_pd(numbers.as_ptr().cast::<f64>().read_unaligned())),
            4 => _mm256_set_m128(_mm_loadu_ps(numbers.as_ptr()), _mm_loadu_ps(numbers.as_ptr())),
            _ => _mm256_loadu_ps(numbers.as_ptr()),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn repeat_512<const K: usize>(numbers: &[f32; K]) -> __m512 {
    const { assert!(16 % K == 0) };
    // SAFETY: as in `repeat_256`.
    unsafe {
        match K {
            1 => _mm512_set1_ps(numbers[0]),
            2 => _mm512_castpd_ps(_mm512_set1_pd(numbers.as_ptr().cast::<f64>().read_unaligned())),
            4 => _mm512_broadcast_f32x4(_mm_loadu_ps(numbers.as_ptr())),
            8 => _mm512_broadcast_f32x8(_mm256_loadu_ps(numbers.as_ptr())),
            _ => _mm512_loadu_ps(numbers.as_ptr()),
        }
    }
}

/// A code of four bits of each word: so many bits are above it, and so many below.
#[target_feature(enable = "avx2")]
#[inline]
fn of_nibble_256<const SIGNED: bool, const ABOVE: i32, const BELOW: i32>(words: __m256i) -> __m256 {
    _mm256_cvtepi32_ps(match SIGNED {
        true => _mm256_srai_epi32::<28>(_mm256_slli_epi32::<ABOVE>(words)),
        false => _mm256_and_si256(_mm256_srli_epi32::<BELOW>(words), _mm256_set1_epi32(15)),
    })
}

/// The codes of four bits of words at some bits: a code is the place of its number in a vector.
#[target_feature(enable = "avx512f")]
#[inline]
fn of_nibble_512<const SIGNED: bool, const ABOVE: i32, const BELOW: u32>(words: __m512i) -> __m512 {
    let numbers = match SIGNED {
        true => {
            _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.)
        }
        false => {
            _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.)
        }
    };
    _mm512_permutexvar_ps(_mm512_srli_epi32::<BELOW>(words), numbers)
}

/// Numbers in bf16, by the instruction for it.
#[target_feature(enable = "avx512bf16")]
#[inline]
fn to_bf16_512(numbers: __m512) -> __m256bh {
    _mm512_cvtneps_pbh(numbers)
}

/// The numbers of two vectors in bf16. The instruction takes what comes first as its second operand.
#[target_feature(enable = "avx512bf16")]
#[inline]
fn bf16_of_both_512(first: __m512, second: __m512) -> __m512bh {
    _mm512_cvtne2ps_pbh(second, first)
}

/// Pairs of numbers in bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn bf16_pairs_512(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both types are vectors of 512 bits, and so are 32 numbers of 16.
    let (both, in_pairs) = unsafe {
        (
            std::mem::transmute::<__m512bh, __m512i>(bf16_of_both_512(first, second)),
            std::mem::transmute::<[u16; 32], __m512i>(IN_PAIRS),
        )
    };
    _mm512_permutexvar_epi16(in_pairs, both)
}

lanes!([const VNNI: bool] Avx256<VNNI>, 8, __m256, __m256i,
    splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, load_part: load_part_256, store_part: store_part_256,
    add: _mm256_add_ps, sub: _mm256_sub_ps,
    mul: _mm256_mul_ps, fmadd: _mm256_fmadd_ps, load_bytes: _mm_loadl_epi64, load_half: _mm_loadu_si128,
    load_words: _mm256_loadu_si256, store_words: _mm256_storeu_si256, widen_i8: _mm256_cvtepi8_epi32, widen_u8: _mm256_cvtepu8_epi32,
    widen_u16: _mm256_cvtepu16_epi32, floats: _mm256_cvtepi32_ps, of_f16: _mm256_cvtph_ps, cast: _mm256_castsi256_ps,
    and: _mm256_and_si256, set: _mm256_set1_epi32, shift_left: _mm256_slli_epi32, shift_right: _mm256_srli_epi32,
    shift_signed: _mm256_srai_epi32, lower_halves: lower_halves_256, of_nibble: of_nibble_256,
    repeat: repeat_256, permute: |numbers, places| _mm256_permutevar8x32_ps(numbers, places),
    sum: |numbers| {
        let halves = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps::<1>(numbers));
        let pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)))
    },
    transpose: transpose_8, min: _mm256_min_ps, max: _mm256_max_ps, integers: _mm256_cvtps_epi32, put_bytes: put_bytes_256);

/// [`lanes`] of 512 bits.
macro_rules! lanes_512 {
    ([$($generic:tt)*] $name:ty $(, to_bf16: $to_bf16:ident, bf16_of_both: $bf16_of_both:ident, bf16_pairs: $bf16_pairs:ident,)?) => {
        lanes!([$($generic)*] $name, 16, __m512, __m512i,
            splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, load_part: load_part_512, store_part: store_part_512,
            add: _mm512_add_ps, sub: _mm512_sub_ps,
            mul: _mm512_mul_ps, fmadd: _mm512_fmadd_ps, load_bytes: _mm_loadu_si128, load_half: _mm256_loadu_si256,
            load_words: _mm512_loadu_si512, store_words: _mm512_storeu_si512, widen_i8: _mm512_cvtepi8_epi32, widen_u8: _mm512_cvtepu8_epi32,
            widen_u16: _mm512_cvtepu16_epi32, floats: _mm512_cvtepi32_ps, of_f16: _mm512_cvtph_ps, cast: _mm512_castsi512_ps,
            and: _mm512_and_si512, set: _mm512_set1_epi32, shift_left: _mm512_slli_epi32, shift_right: _mm512_srli_epi32,
            shift_signed: _mm512_srai_epi32, lower_halves: _mm512_cvtepi32_epi16, of_nibble: of_nibble_512,
            $(to_bf16: $to_bf16, bf16_of_both: $bf16_of_both, bf16_pairs: $bf16_pairs,)? repeat: repeat_512, permute: |numbers, places| _mm512_permutexvar_ps(places, numbers),
            sum: |numbers| _mm512_reduce_add_ps(numbers),
            transpose: transpose_16, min: _mm512_min_ps, max: _mm512_max_ps, integers: _mm512_cvtps_epi32, put_bytes: put_bytes_512);
    };
}

lanes_512!([const VNNI: bool] Avx512<VNNI>);

lanes_512!([] Avx512Bf16, to_bf16: to_bf16_512, bf16_of_both: bf16_of_both_512, bf16_pairs: bf16_pairs_512,);

/// Two vectors at a time.
#[target_feature(enable = "avx2")]
#[inline]
fn put_bytes_256<const V: usize>(x: [__m256; V], places: &mut [u8]) {
    let mut codes = [[0; 8]; V];
    for first in (0..V).step_by(2) {
        let second = if first + 1 < V { first + 1 } else { first };
        let [one, other] = [_mm256_cvtps_epi32(x[first]), _mm256_cvtps_epi32(x[second])];
        let words = _mm256_packs_epi32(one, other);
        let bytes = _mm256_packus_epi16(words, words);
        // Halves of the vectors take turns.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
        let bytes = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
        codes[first] = _mm_cvtsi128_si64(bytes).to_le_bytes();
        if second > first {
            codes[second] = _mm_extract_epi64::<1>(bytes).to_le_bytes();
        }
    }
    put_first(&codes, places);
}

/// Up to four vectors at a time. They go to their places at once: bytes that are put together in memory first would be waited for there.
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512bw")]
#[inline]
fn put_bytes_512<const V: usize>(x: [__m512; V], places: &mut [u8]) {
    for first in (0..V).step_by(4) {
        let count = if V - first < 4 { V - first } else { 4 };
        let mut vectors = [x[first]; 4];
        for vector in 1..4 {
            if vector < count {
                vectors[vector] = x[first + vector];
            }
        }
        if count == 2 {
            // Of the same vectors the same instruction makes both halves.
            [vectors[2], vectors[3]] = [vectors[0], vectors[1]];
        }
        // Four codes of each vector take turns.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let bytes = _mm512_permutexvar_epi32(order, packed_bytes_512(vectors));
        store_bytes_512(bytes, count, places.get_mut(16 * first..).unwrap_or_default());
    }
}

/// The codes of four vectors, of which four of each take turns.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(crate) fn packed_bytes_512([a, b, c, d]: [__m512; 4]) -> __m512i {
    let [a, b] = [_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b)];
    let [c, d] = [_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d)];
    _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d))
}

/// Writes so many times 16 bytes, up to four, or as many as there are places.
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512bw")]
#[inline]
pub(crate) fn store_bytes_512(bytes: __m512i, vectors: usize, places: &mut [u8]) {
    let to = places.as_mut_ptr();
    // SAFETY: no more bytes are written than there are places.
    unsafe {
        match vectors {
            _ if places.len() < 16 * vectors.min(4) => {
                let mask = (1 << places.len()) - 1;
                _mm512_mask_storeu_epi8(to.cast(), mask, bytes);
            }
            4 => _mm512_storeu_si512(to.cast(), bytes),
            1 => _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(bytes)),
            2 | 3 => {
                _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(bytes));
                if vectors == 3 {
                    let last = _mm512_extracti32x4_epi32::<2>(bytes);
                    _mm_storeu_si128(to.add(32).cast(), last);
                }
            }
            _ => unreachable!("{vectors} vectors"),
        }
    }
}

/// The lower halves of words.
#[target_feature(enable = "avx2")]
#[inline]
fn lower_halves_256(words: __m256i) -> __m128i {
    let halves = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    let turns = _mm256_packus_epi32(halves, halves);
    _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(turns))
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
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn transpose_halves(v: [__m256i; 4]) -> [__m256i; 4] {
    let [a, b] = [_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1])];
    let [c, d] = [_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3])];
    [
        _mm256_unpacklo_epi64(a, c),
        _mm256_unpackhi_epi64(a, c),
        _mm256_unpacklo_epi64(b, d),
        _mm256_unpackhi_epi64(b, d),
    ]
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
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transpose_quarters(v: [__m512i; 4]) -> [__m512i; 4] {
    let [a, b] = [_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])];
    let [c, d] = [_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3])];
    [
        _mm512_unpacklo_epi64(a, c),
        _mm512_unpackhi_epi64(a, c),
        _mm512_unpacklo_epi64(b, d),
        _mm512_unpackhi_epi64(b, d),
    ]
}
