//! The instructions that multiply codes: each kind has the same loops around them.
//!
//! Codes of data are unsigned, those of weights signed, and four neighbours of each are multiplied and added to one sum of 32
//! bits at a time. The processor has one instruction for that (`vpdpbusd`, of VNNI), or one that adds two products in 16
//! bits (`vpmaddubsw`), which is exact if they fit: if two neighbours of the weights are together at most 128 from 0, as
//! NNCF makes them if it is asked to. Others are widened to 16 bits first, and so is the data.

// Each kind is called where the processor was found to have it, and vectors are read from arrays and written to them.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::finish::{ClampKind, CodesOrFloats, Epilogue, ScaleVectors, Written, put};
use super::product::QuantizedGemmTask;
use super::{arithmetic, depthwise, levels};
use crate::isa::Instructions;
use crate::product::activation::Activation;

impl Instructions {
    /// How many vectors of sums a panel has.
    pub fn vectors_of_panel(self) -> usize {
        match self {
            Instructions::Portable(_) | Instructions::Avx2(_) | Instructions::AvxVnni(_) => 2,
            Instructions::Avx512(_) | Instructions::Avx512Vnni(_) => 3,
            Instructions::Amx(_) => 2,
        }
    }

    /// The rows of a tile of sums.
    pub fn rows(self) -> usize {
        match self {
            Instructions::Portable(_) => 4,
            Instructions::Avx2(_) | Instructions::AvxVnni(_) => 6,
            Instructions::Avx512(_) | Instructions::Avx512Vnni(_) | Instructions::Amx(_) => 8,
        }
    }

    /// The steps of a tap are packed in multiples of this number.
    pub fn steps(self) -> usize {
        if self.takes_lines() { 16 } else { 1 }
    }

    /// How many taps of a convolution of single channels are multiplied at once, and how many vectors a block of its channels has.
    pub fn taps_at_once(self) -> usize {
        match self {
            Instructions::Portable(_) | Instructions::Avx2(_) | Instructions::Avx512(_) => 2,
            Instructions::AvxVnni(_) | Instructions::Avx512Vnni(_) | Instructions::Amx(_) => 4,
        }
    }

    /// Whether rows of codes must have equal distances to be multiplied fast.
    pub fn takes_lines(self) -> bool {
        matches!(self, Instructions::Amx(_))
    }

    /// Whether codes are widened to 16 bits first, unless the weights are narrow.
    pub fn widens(self) -> bool {
        matches!(self, Instructions::Avx2(_) | Instructions::Avx512(_))
    }

    /// Computes a part of a convolution of single channels.
    pub fn multiply_channels(self, part: &mut depthwise::DepthwiseTask) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the instructions: `all` has found them.
        unsafe {
            match self {
                Instructions::Portable(_) => portable::channels(part),
                Instructions::Avx2(_) => avx2_narrow::channels(part),
                Instructions::AvxVnni(_) => avx_vnni::channels(part),
                Instructions::Avx512(_) => avx512_narrow::channels(part),
                Instructions::Avx512Vnni(_) | Instructions::Amx(_) => avx512_vnni::channels(part),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable::channels(part);
    }

    /// Adds or multiplies what codes stand for.
    pub fn combine(self, part: &mut arithmetic::ArithmeticTask) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the instructions: `all` has found them.
        unsafe {
            match self {
                Instructions::Portable(_) => portable::combine(part),
                Instructions::Avx2(_) | Instructions::AvxVnni(_) => avx2_narrow::combine(part),
                _ => avx512_narrow::combine(part),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable::combine(part);
    }
}

/// Codes of data that are multiplied with packed filters.
pub(crate) trait Code: Copy {
    /// Computes a part of a product.
    fn multiply(instructions: Instructions, part: &mut QuantizedGemmTask<Self>);
}

impl Code for u8 {
    fn multiply(instructions: Instructions, part: &mut QuantizedGemmTask<u8>) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the instructions: `all` has found them.
        unsafe {
            match instructions {
                Instructions::Portable(_) => portable::product(part),
                Instructions::Avx2(_) => avx2_narrow::product(part),
                Instructions::AvxVnni(_) => avx_vnni::product(part),
                Instructions::Avx512(_) => avx512_narrow::product(part),
                Instructions::Avx512Vnni(_) => avx512_vnni::product(part),
                Instructions::Amx(_) => amx::product(part),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable::product(part);
    }
}

/// Those that are widened.
impl Code for i16 {
    fn multiply(instructions: Instructions, part: &mut QuantizedGemmTask<i16>) {
        assert!(instructions.widens(), "{instructions:?} do not widen codes");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the instructions: `all` has found them.
        unsafe {
            match instructions {
                Instructions::Avx512(_) => avx512_wide::product(part),
                _ => avx2_wide::product(part),
            }
        }
    }
}

/// Two vectors of numbers, from number `first` on.
#[inline(always)]
fn vectors<const LANES: usize>(numbers: &[f32], first: usize) -> &[[f32; LANES]; 2] {
    &numbers[first..][..2 * LANES].as_chunks().0.as_chunks().0[0]
}

/// The loops around some instructions. The `items` are
///
/// * `LANES`, the sums of a vector `Sums`, which `load` takes from an array;
/// * `Left` and `Right`, four codes of data for all lanes and four codes of weights for each of them, by `left` and `right`;
/// * `dot`, which adds their products to sums;
/// * `TAPS`, which `interleaved` takes at once from as many channels as so many vectors have sums, for `add_taps`, which adds
///   their products to the sums of a vector; `in_order` puts these into their order (see [`depthwise::channel_of_lane`]);
/// * `floats`, `line`, `between`, `activated`, `store` and `put_codes`, which make numbers and codes of sums, and `load_floats`;
/// * `widened`, `rounded` and `sum`, for codes that are added and multiplied.
macro_rules! loops {
    ($name:ident, $code:ty, $width:literal, [$($features:literal)?], rows: [$($rows:literal)*], vectors: [$($vectors:literal)*], {$($items:item)*}) => {
        // Where kinds differ in products alone, the other loops of one of them are for all. Loops of constants keep the sums
        // in registers.
        #[allow(dead_code, clippy::needless_range_loop)]
        pub(super) mod $name {
            use super::*;

            $($items)*

            /// All tiles of a part of a product.
            $(#[target_feature(enable = $features)])?
            pub fn product(part: &mut QuantizedGemmTask<$code>) {
                for panel in part.panels.clone() {
                    let vectors = part.vectors(panel, LANES);
                    for (first, rows) in part.tiles() {
                        match (rows, vectors) {
                            $(($rows, vectors) => of_rows::<$rows>(part, panel, first, vectors),)*
                            _ => unreachable!("a tile has {rows} rows"),
                        }
                    }
                }
            }

            $(#[target_feature(enable = $features)])?
            pub fn of_rows<const N: usize>(part: &mut QuantizedGemmTask<$code>, panel: usize, first: usize, vectors: usize) {
                match vectors {
                    $($vectors => tile::<N, $vectors>(part, panel, first),)*
                    _ => unreachable!("a panel has {vectors} vectors"),
                }
            }

            $(#[target_feature(enable = $features)])?
            fn tile<const N: usize, const V: usize>(part: &mut QuantizedGemmTask<$code>, panel: usize, first: usize) {
                let (weights, offsets) = part.panel::<$width, LANES, V>(panel);
                let mut sums = [[load(&offsets[0]); V]; N];
                for row in 0..N {
                    for vector in 1..V {
                        sums[row][vector] = load(&offsets[vector]);
                    }
                }
                for (tap, weights) in part.of_taps(weights).enumerate() {
                    let rows: [&[[$code; $width]]; N] = part.rows(first, tap, weights.len());
                    for step in 0..weights.len() {
                        let mut right_factors = [right(&weights[step][0]); V];
                        for vector in 1..V {
                            right_factors[vector] = right(&weights[step][vector]);
                        }
                        for row in 0..N {
                            let factor = left(rows[row][step]);
                            for vector in 0..V {
                                sums[row][vector] =
                                    dot(sums[row][vector], factor, right_factors[vector]);
                            }
                        }
                    }
                }
                // A copy, so that the sums themselves need no place in memory: written there in each step, products took
                // 1.8 times as long on 32 registers (Intel Xeon with VNNI).
                let mut stored = [[load(&offsets[0]); V]; N];
                for row in 0..N {
                    for vector in 0..V {
                        stored[row][vector] = sums[row][vector];
                    }
                }
                let (channel, width) = part.channels(panel);
                finish(part.finish, &stored, channel, width, first, &mut part.output);
            }

            /// Numbers of a vector of channels on their lines.
            $(#[target_feature(enable = $features)])?
            #[inline]
            fn on_line<const V: usize>(x: Floats, lines: ScaleVectors<LANES, V>, vector: usize) -> Floats {
                let addends = load_floats(&lines.addends[vector]);
                limited(line(x, load_floats(&lines.factors[vector]), addends), lines, vector)
            }

            /// Numbers between the limits of their lines, unless they are limited when they become codes.
            $(#[target_feature(enable = $features)])?
            #[inline]
            fn limited<const V: usize>(x: Floats, lines: ScaleVectors<LANES, V>, vector: usize) -> Floats {
                match lines.limits {
                    ClampKind::None => x,
                    ClampKind::OfCodes if PUTTING_LIMITS => x,
                    _ => {
                        let (least, most) = (&lines.least[vector], &lines.most[vector]);
                        between(x, load_floats(least), load_floats(most))
                    }
                }
            }

            /// Finishes the sums of some channels, for some rows.
            $(#[target_feature(enable = $features)])?
            #[inline]
            pub fn finish<const N: usize, const V: usize>(
                finish: &Epilogue,
                sums: &[[Sums; V]; N],
                first: usize,
                width: usize,
                first_row: usize,
                output: &mut Written,
            ) {
                let lines = finish.lines.of::<LANES, V>(first);
                if finish.is_of_lines()
                    && let Some(mut codes) = output.codes(first)
                {
                    for row in 0..N {
                        let mut numbers = [floats(sums[row][0]); V];
                        for vector in 0..V {
                            numbers[vector] = on_line(floats(sums[row][vector]), lines, vector);
                        }
                        put_codes(numbers, &mut codes.row(first_row + row)[..width]);
                    }
                    return;
                }
                finish_with_all(finish, sums, first, width, first_row, output);
            }

            /// The same with whatever there is, one after the other for all rows.
            //
            // Apart from the lines alone, which are faster by themselves.
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            fn finish_with_all<const N: usize, const V: usize>(
                finish: &Epilogue,
                sums: &[[Sums; V]; N],
                first: usize,
                width: usize,
                first_row: usize,
                output: &mut Written,
            ) {
                let lines = finish.lines.of::<LANES, V>(first);
                let mut numbers = [[floats(sums[0][0]); V]; N];
                for row in 0..N {
                    for vector in 0..V {
                        numbers[row][vector] = on_line(floats(sums[row][vector]), lines, vector);
                    }
                }
                if let Some(activation) = finish.activation {
                    for row in 0..N {
                        for vector in 0..V {
                            numbers[row][vector] = activated(numbers[row][vector], activation);
                        }
                    }
                }
                if let Some(second) = &finish.second {
                    let second = second.of::<LANES, V>(first);
                    for row in 0..N {
                        for vector in 0..V {
                            numbers[row][vector] = on_line(numbers[row][vector], second, vector);
                        }
                    }
                }
                if let Some(addition) = &finish.addition {
                    let own = addition.own.of::<LANES, V>(first);
                    let factors = addition.factors_of::<LANES, V>(first);
                    let (zero, highest) = (load_floats(&[0.; LANES]), load_floats(&[255.; LANES]));
                    let mut last = [[0; LANES]; V];
                    for row in 0..N {
                        let others = output.others(first_row + row, first);
                        let others: &[[u8; LANES]; V] = match others.as_chunks().0.as_chunks().0 {
                            [whole, ..] => whole,
                            _ => {
                                last.as_flattened_mut()[..width].copy_from_slice(&others[..width]);
                                &last
                            }
                        };
                        for vector in 0..V {
                            let code = rounded(between(numbers[row][vector], zero, highest));
                            let sum = load_floats(&own.addends[vector]);
                            let sum = line(widened(&others[vector]), load_floats(&factors[vector]), sum);
                            let sum = line(code, load_floats(&own.factors[vector]), sum);
                            numbers[row][vector] = limited(sum, own, vector);
                        }
                    }
                }
                for row in 0..N {
                    match output.row(first_row + row, first) {
                        CodesOrFloats::Codes(places) => put_codes(numbers[row], &mut places[..width]),
                        CodesOrFloats::Floats(places) => {
                            let mut elements = [[0.; LANES]; V];
                            for vector in 0..V {
                                store(&mut elements[vector], numbers[row][vector]);
                            }
                            put(&elements, &mut places[..width]);
                        }
                    }
                }
            }

            /// Adds or multiplies what codes stand for.
            $(#[target_feature(enable = $features)])?
            pub fn combine(part: &mut arithmetic::ArithmeticTask) {
                match part.lines.are_the_same {
                    true => combined::<true>(part),
                    false => combined::<false>(part),
                }
            }

            /// The same, if all elements have the `SAME` lines, or if channels differ.
            $(#[target_feature(enable = $features)])?
            fn combined<const SAME: bool>(part: &mut arithmetic::ArithmeticTask) {
                const AT_ONCE: usize = 2 * LANES;
                const { assert!(AT_ONCE <= arithmetic::MOST_LANES) };
                let arithmetic::OperandScales { factors, addends, shifts, least, most, .. } = part.lines;
                let count = part.a.len();
                let mut last = [[0; AT_ONCE]; 2];
                for first in (0..count).step_by(AT_ONCE) {
                    let width = AT_ONCE.min(count - first);
                    if width < AT_ONCE {
                        last[0][..width].copy_from_slice(&part.a[first..]);
                        last[1][..width].copy_from_slice(&part.b[first..][..width]);
                    }
                    let codes = match (part.a[first..].first_chunk(), part.b[first..].first_chunk()) {
                        (Some(a), Some(b)) => [a, b],
                        _ => [&last[0], &last[1]],
                    };
                    let line_of = if SAME { 0 } else { first };
                    let lines = |numbers| vectors::<LANES>(numbers, line_of);
                    let mut results = [floats(load(&[0; LANES])); 2];
                    for half in 0..2 {
                        let mut numbers = results;
                        for operand in 0..2 {
                            let number = widened(&codes[operand].as_chunks().0[half]);
                            let factors = load_floats(&lines(&factors[operand])[half]);
                            let addends = load_floats(&lines(&addends[operand])[half]);
                            numbers[operand] = line(number, factors, addends);
                        }
                        let [x, y] = numbers;
                        let shifts = load_floats(&lines(shifts)[half]);
                        let both = match part.operation {
                            arithmetic::Operation::Add => sum(sum(x, y), shifts),
                            arithmetic::Operation::Multiply => line(x, y, shifts),
                        };
                        let (least, most) = (&lines(least)[half], &lines(most)[half]);
                        results[half] = between(both, load_floats(least), load_floats(most));
                    }
                    match &mut part.places {
                        CodesOrFloats::Codes(places) => put_codes(results, &mut places[first..][..width]),
                        CodesOrFloats::Floats(places) => {
                            let mut numbers = [[0.; LANES]; 2];
                            for half in 0..2 {
                                store(&mut numbers[half], results[half]);
                            }
                            put(&numbers, &mut places[first..][..width]);
                        }
                    }
                }
            }

            /// All pixels of a part of a convolution of single channels.
            $(#[target_feature(enable = $features)])?
            pub fn channels(part: &mut depthwise::DepthwiseTask) {
                for line in &part.lines() {
                    // Four vectors of four taps, and up to eight of two.
                    for (first, blocks) in part.blocks(TAPS * LANES, if TAPS == 4 { 1 } else { 4 }) {
                        match (blocks, part.shape()) {
                            (4, _) => columns_in_memory::<4, 8>(part, line, first),
                            (2, _) => columns_in_memory::<2, 4>(part, line, first),
                            (_, [3, 1]) => columns_in_registers::<3, 1>(part, line, first),
                            _ => columns_in_memory::<1, TAPS>(part, line, first),
                        }
                    }
                }
            }

            /// Some blocks of channels, which have so many vectors.
            $(#[target_feature(enable = $features)])?
            fn columns_in_memory<const B: usize, const V: usize>(
                part: &mut depthwise::DepthwiseTask,
                line: &depthwise::OutputLine,
                first: usize,
            ) {
                let [columns, groups] = part.shape();
                let (weights, offsets) = part.kernels_of::<LANES, TAPS, B>(first);
                let mut last = [[[0; TAPS * LANES]; B]; TAPS];
                let mut held = vec![[[load(&[0; LANES]); TAPS]; B]; columns * groups];
                let mut tile = [[load(&[0; LANES]); V]; PIXELS];
                let moved = part.new_columns();
                // Where the first column is held.
                let mut place = 0;
                for begin in (0..line.pixels).step_by(PIXELS) {
                    let count = PIXELS.min(line.pixels - begin);
                    for number in 0..count {
                        let pixel = begin + number;
                        let missing = if pixel == 0 { columns } else { moved };
                        place = wrapped(place + missing, columns);
                        for column in columns - missing..columns {
                            let held = &mut held[wrapped(place + column, columns) * groups..][..groups];
                            for (group, held) in held.iter_mut().enumerate() {
                                let codes = line.codes(pixel, column, group, first, &mut last);
                                for block in 0..B {
                                    held[block] = interleaved(codes.map(|codes| &codes[block]));
                                }
                            }
                        }
                        let mut sums = [[load(&[0; LANES]); TAPS]; B];
                        for block in 0..B {
                            for vector in 0..TAPS {
                                sums[block][vector] = load(&offsets[block][vector]);
                            }
                        }
                        for column in 0..columns {
                            let held = &held[wrapped(place + column, columns) * groups..][..groups];
                            for (group, codes) in held.iter().enumerate() {
                                for block in 0..B {
                                    let weights = &weights[block][column * groups + group];
                                    for vector in 0..TAPS {
                                        let sum = sums[block][vector];
                                        sums[block][vector] = add_taps(sum, codes[block][vector], &weights[vector]);
                                    }
                                }
                            }
                        }
                        for block in 0..B {
                            let sums = in_order(sums[block]);
                            for vector in 0..TAPS {
                                tile[number][block * TAPS + vector] = sums[vector];
                            }
                        }
                    }
                    finish_first(part, &tile, count, first, line.first + begin);
                }
            }

            /// A block of channels, of a kernel with so few columns that their codes stay in registers.
            $(#[target_feature(enable = $features)])?
            fn columns_in_registers<const K: usize, const G: usize>(
                part: &mut depthwise::DepthwiseTask,
                line: &depthwise::OutputLine,
                first: usize,
            ) {
                let ([weights], [offsets]) = part.kernels_of::<LANES, TAPS, 1>(first);
                let [weights] = weights.as_chunks::<G>().0.as_chunks::<K>().0 else { return };
                let mut last = [[[0; TAPS * LANES]; 1]; TAPS];
                let mut held = [[[load(&[0; LANES]); TAPS]; G]; K];
                let mut tile = [[load(&[0; LANES]); TAPS]; PIXELS];
                let moved = part.new_columns();
                for begin in (0..line.pixels).step_by(PIXELS) {
                    let count = PIXELS.min(line.pixels - begin);
                    for number in 0..count {
                        let pixel = begin + number;
                        let missing = if pixel == 0 { K } else { moved };
                        for column in K - missing..K {
                            for next in 1..K {
                                held[next - 1] = held[next];
                            }
                            for group in 0..G {
                                let codes = line.codes::<{ TAPS * LANES }, TAPS, 1>(pixel, column, group, first, &mut last);
                                held[K - 1][group] = interleaved(codes.map(|[codes]| codes));
                            }
                        }
                        let mut sums = [load(&offsets[0]); TAPS];
                        for vector in 1..TAPS {
                            sums[vector] = load(&offsets[vector]);
                        }
                        for column in 0..K {
                            for group in 0..G {
                                for vector in 0..TAPS {
                                    let codes = held[column][group][vector];
                                    sums[vector] = add_taps(sums[vector], codes, &weights[column][group][vector]);
                                }
                            }
                        }
                        tile[number] = in_order(sums);
                    }
                    finish_first(part, &tile, count, first, line.first + begin);
                }
            }

            /// So many pixels are finished at once.
            const PIXELS: usize = 4;

            /// Finishes the sums of the first ones of some pixels.
            $(#[target_feature(enable = $features)])?
            fn finish_first<const V: usize>(
                part: &mut depthwise::DepthwiseTask,
                sums: &[[Sums; V]; PIXELS],
                count: usize,
                first: usize,
                pixel: usize,
            ) {
                if count == PIXELS && part.is_whole(pixel + count - 1) {
                    return finish_pixels(part, sums, first, pixel);
                }
                for row in 0..count {
                    finish_pixels(part, &[sums[row]], first, pixel + row);
                }
            }

            /// Finishes the sums of some blocks, of the first vectors alone if there are channels for no more.
            $(#[target_feature(enable = $features)])?
            #[inline]
            fn finish_pixels<const N: usize, const V: usize>(
                part: &mut depthwise::DepthwiseTask,
                sums: &[[Sums; V]; N],
                first: usize,
                pixel: usize,
            ) {
                let (channel, width) = part.channels(first, TAPS * LANES, V * LANES, pixel);
                match width.div_ceil(LANES) {
                    1 => finish(part.finish, &taken::<N, V, 1>(sums), channel, width, pixel, &mut part.output),
                    2 => finish(part.finish, &taken::<N, V, 2>(sums), channel, width, pixel, &mut part.output),
                    _ => finish(part.finish, sums, channel, width, pixel, &mut part.output),
                }
            }

            $(#[target_feature(enable = $features)])?
            #[inline]
            fn taken<const N: usize, const V: usize, const M: usize>(sums: &[[Sums; V]; N]) -> [[Sums; M]; N] {
                let mut taken = [[sums[0][0]; M]; N];
                for row in 0..N {
                    taken[row].copy_from_slice(&sums[row][..M]);
                }
                taken
            }
        }
    };
}

/// The rest of a division by `count`, of a number that is less than twice that.
#[inline(always)]
fn wrapped(number: usize, count: usize) -> usize {
    if number >= count { number - count } else { number }
}

loops!(portable, u8, 4, [], rows: [4 2 1], vectors: [1 2], {
    pub const LANES: usize = 8;
    const PUTTING_LIMITS: bool = false;
    type Sums = [i32; LANES];

    fn load(numbers: &[i32; LANES]) -> Sums {
        *numbers
    }

    fn left(codes: [u8; 4]) -> [i32; 4] {
        codes.map(i32::from)
    }

    fn right(codes: &[[i8; 4]; LANES]) -> [[i8; 4]; LANES] {
        *codes
    }

    fn dot(sums: Sums, left: [i32; 4], right: [[i8; 4]; LANES]) -> Sums {
        std::array::from_fn(|lane| {
            let products = left.iter().zip(right[lane]).map(|(a, b)| a * i32::from(b));
            sums[lane].wrapping_add(products.sum())
        })
    }

    const TAPS: usize = 2;

    /// Each lane has two codes of 16 bits.
    fn interleaved([first, second]: [&[u8; 2 * LANES]; 2]) -> [Sums; 2] {
        let mut pairs = [[0; LANES]; 2];
        for (lane, pair) in pairs.as_flattened_mut().iter_mut().enumerate() {
            let channel = depthwise::channel_of_lane(lane, LANES, 2);
            *pair = i32::from(first[channel]) | i32::from(second[channel]) << 16;
        }
        pairs
    }

    fn add_taps(sums: Sums, codes: Sums, weights: &[[u8; 4]; LANES]) -> Sums {
        std::array::from_fn(|lane| {
            let [a, b, c, d] = weights[lane];
            let [one, other] = [[a, b], [c, d]].map(|it| i32::from(i16::from_le_bytes(it)));
            sums[lane].wrapping_add((codes[lane] & 0xffff) * one + (codes[lane] >> 16) * other)
        })
    }

    fn in_order(sums: [Sums; 2]) -> [Sums; 2] {
        let mut ordered = sums;
        for (lane, sum) in sums.as_flattened().iter().enumerate() {
            ordered.as_flattened_mut()[depthwise::channel_of_lane(lane, LANES, 2)] = *sum;
        }
        ordered
    }

    type Floats = [f32; LANES];

    fn floats(sums: Sums) -> Floats {
        sums.map(|sum| sum as f32)
    }

    fn load_floats(numbers: &[f32; LANES]) -> Floats {
        *numbers
    }

    fn line(x: Floats, factors: Floats, addends: Floats) -> Floats {
        std::array::from_fn(|lane| x[lane] * factors[lane] + addends[lane])
    }

    fn between(x: Floats, least: Floats, most: Floats) -> Floats {
        std::array::from_fn(|lane| levels::limited(x[lane], least[lane], most[lane]))
    }

    fn activated(x: Floats, activation: Activation) -> Floats {
        x.map(|x| activation.apply(pulp::Scalar::new(), x))
    }

    fn put_codes<const V: usize>(x: [Floats; V], places: &mut [u8]) {
        put(&x.map(|x| x.map(levels::rounded)), places);
    }

    fn widened(codes: &[u8; LANES]) -> Floats {
        codes.map(f32::from)
    }

    fn rounded(x: Floats) -> Floats {
        x.map(|x| f32::from(levels::rounded(x)))
    }

    fn sum(a: Floats, b: Floats) -> Floats {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    fn store(places: &mut [f32; LANES], x: Floats) {
        *places = x;
    }
});

/// `left` and `right` where codes of data have 8 bits.
#[cfg(target_arch = "x86_64")]
macro_rules! factors_of_bytes {
    ($features:literal, $vector:ty, $set1:ident) => {
        #[target_feature(enable = $features)]
        #[inline]
        fn left(codes: [u8; 4]) -> $vector {
            $set1(i32::from_le_bytes(codes))
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn right(codes: &[[i8; 4]; LANES]) -> $vector {
            codes_of(codes)
        }
    };
}

/// What all vectors have in common, with the intrinsics of their size. Halves and quarters are those of a vector of codes.
#[cfg(target_arch = "x86_64")]
macro_rules! common_items {
    (
        $features:literal,
        simd: $simd:ident,
        load: $load:ident,
        load_quarter: $load_quarter:ident,
        load_floats: $load_floats:ident,
        store_floats: $store_floats:ident,
        to_floats: $to_floats:ident,
        to_integers: $to_integers:ident,
        widen_to_32: $widen_to_32:ident,
        multiply_add: $multiply_add:ident,
        min: $min:ident,
        max: $max:ident,
        add_floats: $add_floats:ident,
    ) => {
        #[target_feature(enable = $features)]
        #[inline]
        fn load(numbers: &[i32; LANES]) -> Sums {
            // SAFETY: the array has the size of the vector.
            unsafe { $load(numbers.as_ptr().cast()) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn codes_of(codes: &[[i8; 4]; LANES]) -> Sums {
            // SAFETY: the array has the size of the vector.
            unsafe { $load(codes.as_ptr().cast()) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn floats(sums: Sums) -> Floats {
            $to_floats(sums)
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn load_floats(numbers: &[f32; LANES]) -> Floats {
            // SAFETY: the array has the size of the vector.
            unsafe { $load_floats(numbers.as_ptr()) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn line(x: Floats, factors: Floats, addends: Floats) -> Floats {
            $multiply_add(x, factors, addends)
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn between(x: Floats, least: Floats, most: Floats) -> Floats {
            // Of NaN the second operand is the larger one.
            $min($max(x, least), most)
        }

        /// An activation as products in single precision have it.
        #[target_feature(enable = $features)]
        #[inline]
        fn activated_as_floats(x: Floats, activation: Activation) -> Floats {
            // SAFETY: the machine has these instructions, or this function is not called.
            let simd = unsafe { pulp::x86::$simd::new_unchecked() };
            pulp::cast(activation.apply(simd, pulp::cast(x)))
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn widened(codes: &[u8; LANES]) -> Floats {
            // SAFETY: so many bytes are read as the array has.
            let codes = unsafe { $load_quarter(codes.as_ptr().cast()) };
            $to_floats($widen_to_32(codes))
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn rounded(x: Floats) -> Floats {
            $to_floats($to_integers(x))
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn sum(a: Floats, b: Floats) -> Floats {
            $add_floats(a, b)
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store(places: &mut [f32; LANES], x: Floats) {
            // SAFETY: the array has the size of the vector.
            unsafe { $store_floats(places.as_mut_ptr(), x) };
        }
    };
}

/// Two taps at once: each lane has two codes of 16 bits.
#[cfg(target_arch = "x86_64")]
macro_rules! two_taps {
    (
        $features:literal,
        load_half: $load_half:ident,
        load: $load:ident,
        widen: $widen:ident,
        low: $low:ident,
        high: $high:ident,
        multiply: $multiply:ident,
        add: $add:ident,
    ) => {
        const TAPS: usize = 2;

        #[target_feature(enable = $features)]
        #[inline]
        fn interleaved(codes: [&[u8; 2 * LANES]; 2]) -> [Sums; 2] {
            // SAFETY: the arrays have half the size of a vector.
            let [one, other] =
                codes.map(|codes| $widen(unsafe { $load_half(codes.as_ptr().cast()) }));
            [$low(one, other), $high(one, other)]
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn add_taps(sums: Sums, codes: Sums, weights: &[[u8; 4]; LANES]) -> Sums {
            // SAFETY: the array has the size of the vector.
            let weights = unsafe { $load(weights.as_ptr().cast()) };
            $add(sums, $multiply(codes, weights))
        }
    };
}

/// The same in vectors of 256 bits.
#[cfg(target_arch = "x86_64")]
macro_rules! two_taps_of_256_bits {
    ($features:literal) => {
        two_taps! {
            $features,
            load_half: _mm_loadu_si128,
            load: _mm256_loadu_si256,
            widen: _mm256_cvtepu8_epi16,
            low: _mm256_unpacklo_epi16,
            high: _mm256_unpackhi_epi16,
            multiply: _mm256_madd_epi16,
            add: _mm256_add_epi32,
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn in_order(sums: [Sums; 2]) -> [Sums; 2] {
            let low = _mm256_permute2x128_si256::<0x20>(sums[0], sums[1]);
            [low, _mm256_permute2x128_si256::<0x31>(sums[0], sums[1])]
        }
    };
}

/// The same in vectors of 512 bits.
#[cfg(target_arch = "x86_64")]
macro_rules! two_taps_of_512_bits {
    ($features:literal) => {
        two_taps! {
            $features,
            load_half: _mm256_loadu_si256,
            load: _mm512_loadu_si512,
            widen: _mm512_cvtepu8_epi16,
            low: _mm512_unpacklo_epi16,
            high: _mm512_unpackhi_epi16,
            multiply: _mm512_madd_epi16,
            add: _mm512_add_epi32,
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn in_order(sums: [Sums; 2]) -> [Sums; 2] {
            let order = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
            let low = _mm512_permutex2var_epi64(sums[0], order, sums[1]);
            let order = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
            [low, _mm512_permutex2var_epi64(sums[0], order, sums[1])]
        }
    };
}

/// Four taps at once: each lane has four codes of 8 bits.
#[cfg(target_arch = "x86_64")]
macro_rules! four_taps {
    (
        $features:literal,
        load: $load:ident,
        low_bytes: $low_bytes:ident,
        high_bytes: $high_bytes:ident,
        low: $low:ident,
        high: $high:ident,
        dot: $dot:ident,
    ) => {
        const TAPS: usize = 4;

        #[target_feature(enable = $features)]
        #[inline]
        fn interleaved(codes: [&[u8; 4 * LANES]; 4]) -> [Sums; 4] {
            // SAFETY: the arrays have the size of a vector.
            let [a, b, c, d] = codes.map(|codes| unsafe { $load(codes.as_ptr().cast()) });
            let (low, high) =
                (($low_bytes(a, b), $low_bytes(c, d)), ($high_bytes(a, b), $high_bytes(c, d)));
            [$low(low.0, low.1), $high(low.0, low.1), $low(high.0, high.1), $high(high.0, high.1)]
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn add_taps(sums: Sums, codes: Sums, weights: &[[u8; 4]; LANES]) -> Sums {
            // SAFETY: the array has the size of the vector.
            let weights = unsafe { $load(weights.as_ptr().cast()) };
            $dot(sums, codes, weights)
        }
    };
}

/// What vectors of 256 bits have in common.
#[cfg(target_arch = "x86_64")]
macro_rules! loops_of_256_bits {
    ($name:ident, $code:ty, $width:literal, $features:literal, rows: [$($rows:literal)*], {$($items:item)*}) => {
        loops!($name, $code, $width, [$features], rows: [$($rows)*], vectors: [1 2], {
            pub const LANES: usize = 8;
            const PUTTING_LIMITS: bool = true;
            type Sums = __m256i;
            type Floats = __m256;

            common_items! {
                $features,
                simd: V3,
                load: _mm256_loadu_si256,
                load_quarter: _mm_loadl_epi64,
                load_floats: _mm256_loadu_ps,
                store_floats: _mm256_storeu_ps,
                to_floats: _mm256_cvtepi32_ps,
                to_integers: _mm256_cvtps_epi32,
                widen_to_32: _mm256_cvtepu8_epi32,
                multiply_add: _mm256_fmadd_ps,
                min: _mm256_min_ps,
                max: _mm256_max_ps,
                add_floats: _mm256_add_ps,
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn activated(x: Floats, activation: Activation) -> Floats {
                activated_as_floats(x, activation)
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn put_codes<const V: usize>(x: [Floats; V], places: &mut [u8]) {
                let mut codes = [[0; LANES]; V];
                // Two vectors at a time.
                for first in (0..V).step_by(2) {
                    let second = if first + 1 < V { first + 1 } else { first };
                    let [one, other] = [_mm256_cvtps_epi32(x[first]), _mm256_cvtps_epi32(x[second])];
                    let words = _mm256_packs_epi32(one, other);
                    let bytes = _mm256_packus_epi16(words, words);
                    // Halves of the vectors take turns.
                    let order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
                    let bytes = _mm256_permutevar8x32_epi32(bytes, order);
                    let bytes = _mm256_castsi256_si128(bytes);
                    codes[first] = _mm_cvtsi128_si64(bytes).to_le_bytes();
                    if second > first {
                        codes[second] = _mm_extract_epi64::<1>(bytes).to_le_bytes();
                    }
                }
                put(&codes, places);
            }

            $($items)*
        });
    };
}

#[cfg(target_arch = "x86_64")]
loops_of_256_bits!(avx2_narrow, u8, 4, "avx2,fma", rows: [6 4 2 1], {
    two_taps_of_256_bits! { "avx2,fma" }

    factors_of_bytes! { "avx2,fma", __m256i, _mm256_set1_epi32 }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn dot(sums: Sums, left: __m256i, right: __m256i) -> Sums {
        let pairs = _mm256_maddubs_epi16(left, right);
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
});

#[cfg(target_arch = "x86_64")]
loops_of_256_bits!(avx2_wide, i16, 2, "avx2,fma", rows: [6 4 2 1], {
    two_taps_of_256_bits! { "avx2,fma" }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn left(codes: [i16; 2]) -> __m256i {
        let [low, high] = codes.map(|code| u32::from(code.cast_unsigned()));
        _mm256_set1_epi32((high << 16 | low).cast_signed())
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn right(codes: &[[i8; 2]; LANES]) -> __m256i {
        // SAFETY: the array has the size of the vector.
        let codes: __m128i = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
        _mm256_cvtepi8_epi16(codes)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn dot(sums: Sums, left: __m256i, right: __m256i) -> Sums {
        _mm256_add_epi32(sums, _mm256_madd_epi16(left, right))
    }
});

#[cfg(target_arch = "x86_64")]
loops_of_256_bits!(avx_vnni, u8, 4, "avx2,fma,avxvnni", rows: [6 4 2 1], {
    four_taps! {
        "avx2,fma,avxvnni",
        load: _mm256_loadu_si256,
        low_bytes: _mm256_unpacklo_epi8,
        high_bytes: _mm256_unpackhi_epi8,
        low: _mm256_unpacklo_epi16,
        high: _mm256_unpackhi_epi16,
        dot: _mm256_dpbusd_avx_epi32,
    }

    #[target_feature(enable = "avx2,fma,avxvnni")]
    #[inline]
    fn in_order(sums: [Sums; 4]) -> [Sums; 4] {
        let [a, b, c, d] = sums;
        let low = [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)];
        let high = [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)];
        [low[0], low[1], high[0], high[1]]
    }

    factors_of_bytes! { "avx2,fma,avxvnni", __m256i, _mm256_set1_epi32 }

    #[target_feature(enable = "avx2,fma,avxvnni")]
    #[inline]
    fn dot(sums: Sums, left: __m256i, right: __m256i) -> Sums {
        _mm256_dpbusd_avx_epi32(sums, left, right)
    }
});

/// What vectors of 512 bits have in common. `avx512dq` is for activations: without it each of them calls functions that flip a
/// sign, and all that is in registers goes to memory. EfficientNet then took 1.12 times as long (AMD EPYC, Zen 4).
#[cfg(target_arch = "x86_64")]
macro_rules! loops_of_512_bits {
    ($name:ident, $code:ty, $width:literal, $features:literal, {$($items:item)*}) => {
        loops!($name, $code, $width, [$features], rows: [8 4 2 1], vectors: [1 2 3], {
            pub const LANES: usize = 16;
            const PUTTING_LIMITS: bool = true;
            type Sums = __m512i;
            type Floats = __m512;

            common_items! {
                $features,
                simd: V4,
                load: _mm512_loadu_si512,
                load_quarter: _mm_loadu_si128,
                load_floats: _mm512_loadu_ps,
                store_floats: _mm512_storeu_ps,
                to_floats: _mm512_cvtepi32_ps,
                to_integers: _mm512_cvtps_epi32,
                widen_to_32: _mm512_cvtepu8_epi32,
                multiply_add: _mm512_fmadd_ps,
                min: _mm512_min_ps,
                max: _mm512_max_ps,
                add_floats: _mm512_add_ps,
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn activated(x: Floats, activation: Activation) -> Floats {
                match activation {
                    Activation::Swish => swish(x),
                    _ => activated_as_floats(x, activation),
                }
            }

            /// `x / (1 + exp(-x))`, within a millionth of itself or of one: with a series of fewer terms than products in single
            /// precision have, and a reciprocal, for which one step of Newton's is enough. EfficientNet takes 0.93 of the time (AMD
            /// EPYC, Zen 4).
            #[target_feature(enable = $features)]
            #[inline]
            fn swish(x: Floats) -> Floats {
                /// Of larger powers of two the reciprocal is no normal number.
                const MOST: f32 = 125.;
                let splat = |number: f32| _mm512_set1_ps(number);
                // Smaller numbers give 0, too. Of NaN the second operand is the larger one.
                let x = _mm512_max_ps(splat(-104.), x);
                let power = _mm512_mul_ps(x, splat(-std::f32::consts::LOG2_E));
                let power = _mm512_min_ps(power, splat(MOST));
                let whole = _mm512_roundscale_ps::<0>(power);
                let rest = _mm512_sub_ps(power, whole);
                // `2^rest` between -0.5 and 0.5, within 8e-8: the polynomial whose largest relative error is least.
                let mut series = splat(1.327_647_1e-3);
                for factor in [9.675_541e-3, 5.550_713e-2, 2.402_212e-1, 6.931_469_4e-1, 1.] {
                    series = _mm512_fmadd_ps(series, rest, splat(factor));
                }
                let below = _mm512_add_ps(_mm512_scalef_ps(series, whole), splat(1.));
                let near = _mm512_rcp14_ps(below);
                let error = _mm512_fnmadd_ps(below, near, splat(1.));
                _mm512_mul_ps(x, _mm512_fmadd_ps(near, error, near))
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn put_codes<const V: usize>(x: [Floats; V], places: &mut [u8]) {
                // Vectors go to their places at once. Codes that are put together in memory first were waited for there:
                // four fifths of the time of finishing sums (Intel Xeon with AMX).
                let coded = |vector: usize| {
                    let codes = _mm512_max_epi32(_mm512_cvtps_epi32(x[vector]), _mm512_setzero_si512());
                    _mm512_cvtusepi32_epi8(codes)
                };
                if let [whole] = places.as_chunks_mut::<LANES>().0.as_chunks_mut::<V>().0 {
                    for vector in (0..V - V % 2).step_by(2) {
                        let pair = [x[vector], x[vector + 1]].map(|x| _mm512_cvtps_epi32(x));
                        let words = _mm512_packus_epi32(pair[0], pair[1]);
                        let bytes = _mm512_cvtusepi16_epi8(words);
                        // Four codes of each vector take turns.
                        let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
                        let bytes = _mm256_permutevar8x32_epi32(bytes, order);
                        // SAFETY: so many codes are written as two vectors have.
                        unsafe { _mm256_storeu_si256(whole[vector..][..2].as_mut_ptr().cast(), bytes) };
                    }
                    if V % 2 == 1 {
                        // SAFETY: the array has the size of the vector.
                        unsafe { _mm_storeu_si128(whole[V - 1].as_mut_ptr().cast(), coded(V - 1)) };
                    }
                    return;
                }
                for (vector, places) in places.chunks_mut(LANES).enumerate() {
                    let mask = u16::MAX >> (LANES - places.len());
                    // SAFETY: so many codes are written as there are places.
                    unsafe { _mm_mask_storeu_epi8(places.as_mut_ptr().cast(), mask, coded(vector)) };
                }
            }

            $($items)*
        });
    };
}

#[cfg(target_arch = "x86_64")]
loops_of_512_bits!(avx512_narrow, u8, 4, "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq", {
    two_taps_of_512_bits! { "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq" }

    factors_of_bytes! { "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq", __m512i, _mm512_set1_epi32 }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
    #[inline]
    fn dot(sums: Sums, left: __m512i, right: __m512i) -> Sums {
        let pairs = _mm512_maddubs_epi16(left, right);
        _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
    }
});

#[cfg(target_arch = "x86_64")]
loops_of_512_bits!(avx512_wide, i16, 2, "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq", {
    two_taps_of_512_bits! { "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq" }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
    #[inline]
    fn left(codes: [i16; 2]) -> __m512i {
        let [low, high] = codes.map(|code| u32::from(code.cast_unsigned()));
        _mm512_set1_epi32((high << 16 | low).cast_signed())
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
    #[inline]
    fn right(codes: &[[i8; 2]; LANES]) -> __m512i {
        // SAFETY: the array has the size of the vector.
        let codes: __m256i = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
        _mm512_cvtepi8_epi16(codes)
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
    #[inline]
    fn dot(sums: Sums, left: __m512i, right: __m512i) -> Sums {
        _mm512_add_epi32(sums, _mm512_madd_epi16(left, right))
    }
});

#[cfg(target_arch = "x86_64")]
loops_of_512_bits!(avx512_vnni, u8, 4, "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni", {
    four_taps! {
        "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni",
        load: _mm512_loadu_si512,
        low_bytes: _mm512_unpacklo_epi8,
        high_bytes: _mm512_unpackhi_epi8,
        low: _mm512_unpacklo_epi16,
        high: _mm512_unpackhi_epi16,
        dot: _mm512_dpbusd_epi32,
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")]
    #[inline]
    fn in_order(sums: [Sums; 4]) -> [Sums; 4] {
        let [a, b, c, d] = sums;
        let low = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
        let high = [_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d)];
        [
            _mm512_shuffle_i32x4::<0x88>(low[0], low[1]),
            _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]),
            _mm512_shuffle_i32x4::<0x88>(high[0], high[1]),
            _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]),
        ]
    }

    factors_of_bytes! { "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni", __m512i, _mm512_set1_epi32 }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")]
    #[inline]
    fn dot(sums: Sums, left: __m512i, right: __m512i) -> Sums {
        _mm512_dpbusd_epi32(sums, left, right)
    }
});
