use std::array::from_fn;
use std::cell::Cell;

use super::{Instructions, Lanes, OnLanes, Portable};

thread_local! {
    /// What [`Instructions::detect`] finds in this thread.
    pub static SELECTED: Cell<Option<Instructions>> = const { Cell::new(None) };
}

fn with_each(all: impl IntoIterator<Item = Instructions>, test: impl Fn(Instructions)) {
    for instructions in all {
        SELECTED.set(Some(instructions));
        test(instructions);
        SELECTED.set(None);
    }
}

/// What tests run with: all that the machine has. With relaxed SIMD the compiler makes vectors of arrays whose minima and maxima of NaN
/// may be anything; then these are left out.
fn tested() -> Vec<Instructions> {
    let mut all = Instructions::all();
    if cfg!(target_feature = "relaxed-simd") {
        all.retain(|it| !matches!(it, Instructions::Portable(_)));
    }
    all
}

/// Runs a test with each kind of instructions that the machine has.
pub fn with_all_instructions(test: impl Fn(Instructions)) {
    with_each(tested(), test);
}

/// Runs a test with each kind of vectors that the machine has: the best instructions of each size.
pub fn with_all_vectors(test: impl Fn()) {
    let all = tested();
    let size = |it: &Instructions| (it.lanes(), matches!(it, Instructions::Portable(_)));
    let best = all.chunk_by(|a, b| size(a) == size(b)).filter_map(|of_size| of_size.last());
    with_each(best.copied(), |_| test());
}

/// What each function of [`Lanes`] makes of some numbers, as bits, of which all NaN are one.
struct AllFunctions<'a> {
    numbers: &'a [f32],
    others: &'a [f32],
    words: &'a [[u8; 4]],
    results: &'a mut Vec<(&'static str, Vec<u32>)>,
}

impl OnLanes for AllFunctions<'_> {
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let AllFunctions { numbers, words, .. } = self;
        let numbers = numbers.as_chunks::<N>().0;
        let bits = |vectors: &[L::Floats]| {
            let mut all = vec![];
            for vector in vectors {
                let mut numbers = [0.; N];
                lanes.store(&mut numbers, *vector);
                let canonical = |it: f32| if it.is_nan() { f32::NAN } else { it }.to_bits();
                all.extend(numbers.map(canonical));
            }
            all
        };
        let others = self.others.as_chunks::<N>().0;
        let of_pairs = |function: &dyn Fn(L::Floats, L::Floats) -> L::Floats| {
            let pairs = numbers.iter().zip(others);
            let pairs = pairs.map(|(a, b)| function(lanes.load(a), lanes.load(b)));
            bits(&pairs.collect::<Vec<_>>())
        };
        let limited = |it, least, most| lanes.clamp(it, lanes.splat(least), lanes.splat(most));
        let mut found = vec![
            ("add", of_pairs(&|a, b| lanes.add(a, b))),
            ("sub", of_pairs(&|a, b| lanes.sub(a, b))),
            ("mul", of_pairs(&|a, b| lanes.mul(a, b))),
            // The product is exact, so that it does not matter how often is rounded.
            (
                "mul_add",
                of_pairs(&|a, b| lanes.mul_add(limited(a, -1e30, 1e30), lanes.splat(2.), b)),
            ),
            ("clamp", of_pairs(&|a, _| limited(a, -3., 77.))),
            ("clamp to zeros", of_pairs(&|a, _| limited(a, -0., 0.))),
            ("nearest", of_pairs(&|a, _| lanes.nearest(limited(a, -1e6, 1e6)))),
            ("permute", of_pairs(&|a, _| lanes.permute(a, &from_fn(|lane| lane as u32 ^ 3)))),
        ];
        fn repeats<L: Lanes<N>, const N: usize, const K: usize>(lanes: L, numbers: &[f32]) {
            for numbers in numbers.as_chunks::<K>().0 {
                let mut repeated = [0.; N];
                lanes.store(&mut repeated, lanes.repeat(numbers));
                for again in repeated.as_chunks::<K>().0 {
                    assert_eq!(again.map(f32::to_bits), numbers.map(f32::to_bits), "repeat {K}");
                }
            }
        }
        repeats::<L, N, 1>(lanes, self.numbers);
        repeats::<L, N, 2>(lanes, self.numbers);
        repeats::<L, N, 4>(lanes, self.numbers);
        // Those of 16 whole numbers, which are exact.
        let sums = numbers.chunks(16 / N).map(|vectors| {
            #[expect(clippy::manual_clamp, reason = "NaN becomes a number")]
            let whole = |it: &[f32; N]| lanes.load(&it.map(|it| it.max(-99.).min(99.).round()));
            vectors.iter().map(|it| lanes.sum(whole(it))).sum::<f32>().to_bits()
        });
        found.push(("sum", sums.collect()));
        let mut bytes = vec![];
        for vectors in numbers.chunks(48 / N) {
            let limited = |it| limited(lanes.load(it), 0., 255.);
            let vectors: Vec<L::Floats> = vectors.iter().map(limited).collect();
            for vector in &vectors {
                let mut places = [0; N];
                lanes.put_bytes([*vector], &mut places);
                bytes.extend(places.map(u32::from));
            }
            for count in 1..=48 {
                let mut places = [7; 49];
                match *vectors.as_slice() {
                    [a, b, c] => lanes.put_bytes([a, b, c], &mut places[..count]),
                    [a, b, c, d, e, f] => lanes.put_bytes([a, b, c, d, e, f], &mut places[..count]),
                    _ => unreachable!("{N} lanes"),
                }
                bytes.extend(places.map(u32::from));
            }
            // Other numbers of vectors give the bytes that each gives alone.
            let six = [0, 1, 2, 0, 2, 1].map(|number| vectors[number]);
            let mut alone = [[0; N]; 6];
            for (vector, places) in six.iter().zip(&mut alone) {
                lanes.put_bytes([*vector], places);
            }
            for count in 1..=6 * N {
                let mut places = [7; 97];
                match count.div_ceil(N) {
                    1 | 2 => lanes.put_bytes([six[0], six[1]], &mut places[..count]),
                    3 | 4 => {
                        lanes.put_bytes([six[0], six[1], six[2], six[3]], &mut places[..count]);
                    }
                    _ => lanes.put_bytes(six, &mut places[..count]),
                }
                assert_eq!(places[..count], alone.as_flattened()[..count], "put_bytes {count}");
                assert!(places[count..].iter().all(|place| *place == 7), "behind {count}");
            }
        }
        found.push(("put_bytes", bytes));
        let vector = &numbers[0];
        for count in 0..=N {
            let mut loaded = [7.; N];
            lanes.store(&mut loaded, lanes.load_part(&vector[..count]));
            let is_same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
            assert!(loaded.iter().zip(vector).take(count).all(is_same), "load_part {count}");
            assert!(loaded[count..].iter().all(|it| it.to_bits() == 0), "load_part {count}");
            let mut stored = vec![7.; N + 1];
            lanes.store_part(&mut stored[..count], lanes.load(vector));
            assert!(stored.iter().zip(vector).take(count).all(is_same), "store_part {count}");
            assert!(stored[count..].iter().all(|it| *it == 7.), "store_part {count}");
        }
        let mut stored = [[0; 4]; N];
        lanes.store_words(&mut stored, lanes.load_words(&words.as_chunks().0[0]));
        assert_eq!(stored, words.as_chunks().0[0], "store_words");
        let all_codes: Vec<u8> = (0..=255).collect();
        let codes = all_codes.as_chunks::<N>().0;
        let of_codes = |function: &dyn Fn(&[u8; N]) -> L::Floats| {
            bits(&codes.iter().map(function).collect::<Vec<_>>())
        };
        found.push(("of_i8", of_codes(&|it| lanes.of_i8(it))));
        found.push(("of_u8", of_codes(&|it| lanes.of_u8(it))));
        for half in 0..2 {
            found.push(("signed of_nibbles", of_codes(&|it| lanes.of_nibbles::<true>(it)[half])));
            found.push(("of_nibbles", of_codes(&|it| lanes.of_nibbles::<false>(it)[half])));
        }
        let all_halves: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_le_bytes).collect();
        let halves = all_halves.as_chunks::<N>().0;
        let of_halves = |function: &dyn Fn(&[[u8; 2]; N]) -> L::Floats| {
            bits(&halves.iter().map(function).collect::<Vec<_>>())
        };
        found.push(("of_f16", of_halves(&|it| lanes.of_f16(it))));
        found.push(("of_bf16", of_halves(&|it| lanes.of_bf16(it))));
        let rounded = numbers.iter().flat_map(|it| lanes.to_bf16(lanes.load(it)));
        found.push(("to_bf16", rounded.map(|it| u32::from(u16::from_le_bytes(it))).collect()));
        for lines in numbers.chunks_exact(2) {
            let [first, second] = [&lines[0], &lines[1]].map(|it| lanes.load(it));
            let expected = lanes.to_bf16(first).into_iter().zip(lanes.to_bf16(second));
            let both = [first, second].map(|it| lanes.to_bf16(it));
            assert_eq!(lanes.bf16_of_both(first, second), both, "bf16_of_both of {lines:?}");
            let found = lanes.bf16_pairs(first, second).map(|[a, b, c, d]| ([a, b], [c, d]));
            assert!(expected.eq(found), "bf16_pairs of {lines:?}");
        }
        let words = words.as_chunks::<N>().0;
        let mut of_words = |name, function: &dyn Fn(L::Words) -> Vec<L::Floats>| {
            let vectors: Vec<Vec<L::Floats>> =
                words.iter().map(|it| function(lanes.load_words(it))).collect();
            // All that are first in their words, all that are second, and so on.
            for number in 0..vectors[0].len() {
                let those = vectors.iter().map(|of_word| of_word[number]);
                found.push((name, bits(&those.collect::<Vec<_>>())));
            }
        };
        of_words("i32_of_words", &|it| vec![lanes.i32_of_words(it)]);
        of_words("f32_of_words", &|it| vec![lanes.f32_of_words(it)]);
        of_words("f16_of_words", &|it| lanes.f16_of_words(it).to_vec());
        of_words("bf16_of_words", &|it| lanes.bf16_of_words(it).to_vec());
        of_words("signed bytes", &|it| lanes.bytes_of_words::<true>(it).to_vec());
        of_words("bytes", &|it| lanes.bytes_of_words::<false>(it).to_vec());
        of_words("signed nibbles", &|it| lanes.nibbles_of_words::<true>(it).to_vec());
        of_words("nibbles", &|it| lanes.nibbles_of_words::<false>(it).to_vec());
        let integers = words.iter().map(|it| lanes.load_i32(&it.map(i32::from_le_bytes)));
        let integers = integers.map(|it| lanes.i32_of_words(it));
        found.push(("load_i32", bits(&integers.collect::<Vec<_>>())));
        for square in words.as_chunks::<N>().0 {
            let transposed = lanes.transpose(square.map(|it| lanes.load_words(&it)));
            let columns: [[[u8; 4]; N]; N] =
                std::array::from_fn(|lane| std::array::from_fn(|vector| square[vector][lane]));
            let expected = columns.map(|it| lanes.f32_of_words(lanes.load_words(&it)));
            let found = transposed.map(|it| lanes.f32_of_words(it));
            assert_eq!(bits(&found), bits(&expected), "transpose");
        }
        *self.results = found;
    }
}

#[test]
fn all_vectors_do_what_arrays_do() {
    // Of any size, with halves of whole numbers among them, and what is no number.
    let steps = |scale: f32| (-800..=800).map(move |it| it as f32 * scale);
    let mut numbers: Vec<f32> = steps(0.5).chain(steps(0.37)).chain(steps(1e3)).collect();
    numbers.resize(numbers.len().next_multiple_of(48), 0.5);
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0., 0., 1e-40, 3e38, -3e38];
    numbers.extend((0..96).map(|it| special[it * it / 7 % 8]));
    let mut others = numbers.clone();
    others.rotate_left(1201);
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(0x3c6e_f35f);
        (state ^ state >> 15).to_le_bytes()
    };
    let words: Vec<[u8; 4]> = std::iter::repeat_with(&mut random).take(4 * 256).collect();
    let of = |instructions: Instructions| {
        let mut results = vec![];
        let (numbers, others, words) = (&numbers, &others, &words);
        instructions.run(AllFunctions { numbers, others, words, results: &mut results });
        if instructions.bf16().is_some() {
            results.clear();
            instructions.run_rounding(AllFunctions {
                numbers,
                others,
                words,
                results: &mut results,
            });
        }
        results
    };
    let expected = of(Instructions::Portable(Portable));
    with_all_instructions(|instructions| {
        for ((name, found), (_, expected)) in of(instructions).iter().zip(&expected) {
            assert_eq!(found.len(), expected.len(), "{instructions:?}: {name}");
            let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
            if let Some(first) = first {
                let [found, expected] = [found[first], expected[first]];
                panic!("{instructions:?}: {name} {first} is {found:x}, not {expected:x}");
            }
        }
    });
}
