//! Products with compressed matrices, against the numbers that the codes stand for.

use proptest::prelude::*;
use tract_core::internal::*;

use super::format::Format;
use super::product::FEW_ROWS;
use super::{CompressedMatrix, DequantizedConst, Precision, multiply};
use crate::isa::Instructions;
use crate::product::activation::Activation;
use crate::product::tests::{rounded_to_bf16, with_all_vectors};

const FORMATS: [Format; 6] =
    [Format::F16, Format::BF16, Format::I8, Format::U8, Format::I4, Format::U4];

/// A product of some rows of data with a compressed matrix.
#[derive(Debug, Clone)]
struct CompressedCase {
    format: Format,
    data_rows: usize,
    rows: usize,
    groups: usize,
    group: usize,
    /// Their type.
    zero_points: Option<DatumType>,
    half_scales: bool,
    /// So that the data has no digits.
    is_tiny_first: bool,
    seed: u32,
}

impl CompressedCase {
    fn numbers(&self, salt: u32) -> impl Iterator<Item = u32> {
        let mut state = self.seed ^ salt;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            state >> 8
        })
    }

    fn floats(&self, salt: u32) -> impl Iterator<Item = f32> {
        self.numbers(salt).map(|number| number as f32 / (1 << 23) as f32 - 1.)
    }

    fn depth(&self) -> usize {
        self.groups * self.group
    }

    fn constant(&self) -> TractResult<DequantizedConst> {
        let shape = [self.rows, self.groups, self.group];
        let count = self.rows * self.depth();
        let mut bytes: Vec<u8> = match self.format {
            Format::F16 => self
                .floats(1)
                .flat_map(|it| f16::from_f32(it).to_le_bytes())
                .take(count * 2)
                .collect(),
            Format::BF16 => self
                .floats(1)
                .flat_map(|it| it.to_le_bytes().into_iter().skip(2))
                .take(count * 2)
                .collect(),
            _ => self.numbers(1).map(|it| it as u8).take(count).collect(),
        };
        bytes.truncate((count * self.format.bits()).div_ceil(8));
        let groups = self.rows * self.groups;
        let operand =
            |numbers: Vec<f32>| Tensor::from_shape(&[self.rows, self.groups, 1], &numbers);
        let zero_point = self.zero_points.map(|dt| {
            // Some are negative if they may be, have a fraction, or are no signed bytes.
            let number = |it: u32| match dt {
                DatumType::U8 => (it % 16 + it % 3 / 2 * 200) as f32,
                DatumType::I8 => (it % 16) as f32 - 8.,
                _ => (it % 64) as f32 / 4. - 8.,
            };
            let numbers = self.numbers(2).map(number).take(groups).collect();
            TractResult::Ok(operand(numbers)?.cast_to_dt(dt)?.into_owned())
        });
        let mut scale = operand(self.floats(3).take(groups).collect())?;
        if self.half_scales {
            scale = scale.cast_to::<f16>()?.into_owned();
        }
        let constant = DequantizedConst::of_bytes(
            tensor1(&bytes),
            self.format,
            &shape,
            zero_point.transpose()?,
            (self.format.bits() <= 8 || self.half_scales).then_some(scale),
        )?;
        constant.into_shape(&[self.rows, self.depth()])
    }

    /// With the vectors that this thread has selected, or on several threads with those that all have.
    fn check(&self) {
        self.check_with(Precision::Exact);
        self.check_with(Precision::Dynamic);
        if let Some(isa) = Instructions::detect().bf16() {
            self.check_with(Precision::Bf16(isa));
        }
    }

    /// What data is multiplied, as its documentation says.
    fn data_in_bytes(&self, data: &[f32]) -> Vec<f32> {
        let groups = data.chunks(self.depth()).flat_map(|row| row.chunks(32));
        let rounded = groups.flat_map(|group| {
            let largest = group.iter().fold(0f32, |most, number| most.max(number.abs()));
            group.iter().map(move |number| match largest < 1e-30 {
                true => 0.,
                false => (number * (127. / largest)).round_ties_even() * (largest / 127.),
            })
        });
        rounded.collect()
    }

    fn check_with(&self, precision: Precision) {
        let constant = self.constant().unwrap();
        let weights = constant.value().unwrap();
        let weights = weights.try_as_plain_ram().unwrap();
        let mut weights = weights.as_slice::<f32>().unwrap().to_vec();
        let matrix = CompressedMatrix::new(&constant, self.rows).unwrap().unwrap();
        let mut data: Vec<f32> = self.floats(4).take(self.data_rows * self.depth()).collect();
        if self.is_tiny_first {
            data.iter_mut().take(32).for_each(|number| *number *= 1e-33);
        }
        let bias: Vec<f32> = self.floats(5).take(self.rows).collect();
        let activation = Activation::Clamp { min: -1., max: f32::INFINITY };
        let mut output = vec![f32::NAN; self.data_rows * self.rows];
        multiply(&matrix, &data, precision, &bias, activation, &mut output).unwrap();
        if precision == Precision::Dynamic
            && self.data_rows > FEW_ROWS
            && self.format.bits() <= 8
            && has_bytes()
        {
            data = self.data_in_bytes(&data);
        }
        if matches!(precision, Precision::Bf16(_)) && self.data_rows > FEW_ROWS {
            data.iter_mut().chain(&mut weights).for_each(|it| *it = rounded_to_bf16(*it));
        }
        for (place, found) in output.iter().enumerate() {
            let (of_data, row) = (place / self.rows, place % self.rows);
            let data = &data[of_data * self.depth()..][..self.depth()];
            let weights = &weights[row * self.depth()..][..self.depth()];
            let terms = || data.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let size: f64 = terms().map(f64::abs).sum();
            let expected = (terms().sum::<f64>() + f64::from(bias[row])).max(-1.);
            let error = (f64::from(*found) - expected).abs();
            // Zero points are multiplied with the sums of groups.
            assert!(
                error <= 4e-6 * size + 1e-5,
                "{self:?}: {found} at {place}, expected {expected}"
            );
        }
    }
}

/// Whether the selected vectors multiply bytes.
fn has_bytes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_bytes = Instructions::detect().avx512_vnni().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let has_bytes = false;
    has_bytes
}

const NUMBERS: [DatumType; 4] = [DatumType::F32, DatumType::F16, DatumType::U8, DatumType::I8];

fn cases() -> impl Strategy<Value = CompressedCase> {
    let groups = prop_oneof![
        (1usize..150).prop_map(|depth| (1, depth)),
        (1usize..4, 1usize..5).prop_map(|(groups, size)| (groups, 32 * size)),
        // More of them than a vector of codes has, and a part of one.
        (2usize..40, 0u32..3).prop_map(|(groups, size)| (groups, 32 << size)),
        Just((3, 160)),
        // Many rows of data are packed, also for AVX-512.
        Just((8, 128)),
    ];
    (0usize..6, 1usize..10, 1usize..90, groups, any::<[bool; 3]>(), any::<u32>()).prop_map(
        |(format, data_rows, rows, (groups, group), flags, seed)| {
            let format = FORMATS[format];
            // A row has whole bytes.
            let group = if format.bits() == 4 { group.next_multiple_of(2) } else { group };
            let [has_zero_points, half_scales, is_tiny_first] = flags;
            let zero_points = has_zero_points.then_some(NUMBERS[seed as usize % NUMBERS.len()]);
            CompressedCase {
                format,
                data_rows,
                rows,
                groups,
                group,
                zero_points,
                half_scales,
                is_tiny_first,
                seed,
            }
        },
    )
}

proptest! {
    #[test]
    fn products_are_those_of_the_numbers(case in cases()) {
        with_all_vectors(|| case.check());
    }
}

/// Products of rows of data with codes of a format that have no scales.
fn products(format: Format, codes: &[u8], depth: usize, data: &[f32]) -> Vec<f32> {
    let rows = codes.len() * 8 / format.bits() / depth;
    let constant =
        DequantizedConst::of_bytes(tensor1(codes), format, &[rows, depth], None, None).unwrap();
    let matrix = CompressedMatrix::new(&constant, rows).unwrap().unwrap();
    let mut output = vec![f32::NAN; data.len() / depth * rows];
    let bias = vec![0.; rows];
    multiply(&matrix, data, Precision::Exact, &bias, Activation::Identity, &mut output).unwrap();
    output
}

const INTEGERS: [Format; 4] = [Format::I8, Format::U8, Format::I4, Format::U4];

/// Data that has no digits is multiplied as it is, wherever it is.
#[test]
fn data_may_be_tiny_or_not_finite() {
    let rows = 5;
    for (format, depth) in INTEGERS.into_iter().flat_map(|it| [(it, 136), (it, 648)]) {
        // Codes of one.
        let byte = if format.bits() == 4 { 0x11 } else { 1u8 };
        let codes = vec![byte; rows * depth * format.bits() / 8];
        for number in [1e-36, -1e-44, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for place in [1, depth / 2, depth - 2] {
                // A row that has digits comes after it.
                let mut data = vec![0.; 2 * depth];
                data[place] = number;
                with_all_vectors(|| {
                    let found = products(format, &codes, depth, &data);
                    let bits = found.iter().map(|found| found.to_bits());
                    let expected = [[number.to_bits(); 5], [0; 5]].concat();
                    assert!(bits.eq(expected), "{format:?}, {number} at {place}: {found:?}");
                });
            }
        }
    }
}

/// The same in groups, which have no zero points.
#[test]
fn groups_of_data_that_is_not_finite() -> TractResult<()> {
    for format in INTEGERS {
        let byte = if format.bits() == 4 { 0x11 } else { 1u8 };
        let codes = tensor1(&vec![byte; 128 * format.bits() / 8]);
        let scales = Tensor::from_shape(&[1, 4, 1], &[1f32; 4])?;
        let constant = DequantizedConst::of_bytes(codes, format, &[1, 4, 32], None, Some(scales))?
            .into_shape(&[1, 128])?;
        let matrix = CompressedMatrix::new(&constant, 1)?.unwrap();
        let mut data = [0.; 128];
        data[40] = f32::INFINITY;
        with_all_vectors(|| {
            let (mut output, none) = ([0.], Activation::Identity);
            multiply(&matrix, &data, Precision::Exact, &[0.], none, &mut output).unwrap();
            assert_eq!(output, [f32::INFINITY], "{format:?}");
        });
    }
    Ok(())
}

/// What signed codes add as unsigned ones is taken back without a rest, for numbers of any size, and of any signs.
#[test]
fn codes_of_zero_add_nothing() {
    let rows = 5;
    let places = [(200, 77), (200, 92), (712, 77), (712, 95), (712, 705)];
    let cases = places.into_iter().flat_map(|case| [1., 1e38].map(|size| (case, size)));
    for (format, ((depth, place), size)) in
        INTEGERS.into_iter().flat_map(|it| cases.clone().map(move |case| (it, case)))
    {
        // One code of the first row is 1.
        let mut codes = vec![0u8; rows * depth * format.bits() / 8];
        let bit = place * format.bits();
        codes[bit / 8] = 1 << (bit % 8);
        for least in [-1., 0.5] {
            let between = |it: usize| (1. + least + (1. - least) * (it as f32 * 0.7).cos()) / 2.;
            let data: Vec<f32> = (0..depth).map(|it| size * between(it)).collect();
            with_all_vectors(|| {
                let found = products(format, &codes, depth, &data);
                assert_eq!(found[1..], [0.; 4], "{format:?}");
                let error = (found[0] - data[place]).abs();
                let most = size * 2f32.powi(if format.bits() == 4 { -22 } else { -23 });
                assert!(error <= most, "{format:?}, {place} of {depth}: {error}");
            });
        }
    }
}

/// Matrices have such, and no scales, too.
#[test]
fn zero_points_are_enough() -> TractResult<()> {
    let shape = [5, 4, 32];
    let data: Vec<f32> = (0..128).map(|it| (it as f32 * 0.7).sin()).collect();
    for format in [Format::I4, Format::U4] {
        let codes: Vec<u8> = (0..5 * 64).map(|it| (it * 37) as u8).collect();
        let zero_points: Vec<u8> = (0..20).map(|it| it % 16).collect();
        let zero_points = Tensor::from_shape(&[5, 4, 1], &zero_points)?;
        let constant =
            DequantizedConst::of_bytes(tensor1(&codes), format, &shape, Some(zero_points), None)?
                .into_shape(&[5, 128])?;
        let value = constant.value()?;
        let numbers = value.try_as_plain_ram()?;
        let numbers = numbers.as_slice::<f32>()?;
        let matrix = CompressedMatrix::new(&constant, 5)?.unwrap();
        with_all_vectors(|| {
            let mut output = [0.; 5];
            let (exact, none) = (Precision::Exact, Activation::default());
            multiply(&matrix, &data, exact, &[0.; 5], none, &mut output).unwrap();
            for (found, row) in output.iter().zip(numbers.chunks(128)) {
                let products = row.iter().zip(&data).map(|(a, b)| a * b);
                let (expected, size) = products.fold((0., 0.), |(a, b), it| (a + it, b + it.abs()));
                assert!((found - expected).abs() <= 4e-6 * size, "{format:?}: {found} {expected}");
            }
        });
    }
    Ok(())
}

/// The largest sums of products with codes of four bits have room, of each sign: the largest codes, and data that is of one size, or nearly
/// all of whose middle digits are -128 (AVX2).
#[test]
fn the_largest_sums_have_room() {
    let depth = 712;
    for (format, byte, code) in
        [(Format::U4, 0xff, 15.), (Format::I4, 0x88, -8.), (Format::I4, 0x77, 7.)]
    {
        let codes = vec![byte; depth / 2];
        let parts = [1., 0.753, (40. * 32768. - 16384.) / 4_161_500.];
        for (part, sign) in parts.into_iter().flat_map(|part| [(part, 1.), (part, -1.)]) {
            let number = |it: usize| sign * if it.is_multiple_of(32) { 1. } else { part };
            let data: Vec<f32> = (0..depth).map(number).collect();
            let sum: f64 = data.iter().copied().map(f64::from).sum();
            with_all_vectors(|| {
                let found = f64::from(products(format, &codes, depth, &data)[0]);
                let error = (found - sum * code).abs();
                assert!(error <= 1e-6 * (sum * code).abs(), "{format:?}, {part}, {sign}: {found}");
            });
        }
    }
}

/// Zeros give zero with any codes.
#[test]
fn zeros_add_nothing() {
    for (format, depth) in INTEGERS.into_iter().flat_map(|it| [(it, 100), (it, 612)]) {
        let codes = [0x80, 0x7f, 1, 0xff, 0].into_iter().cycle();
        let codes: Vec<u8> = codes.take(4 * depth).collect();
        with_all_vectors(|| {
            let found = products(format, &codes, depth, &vec![0.; depth]);
            assert!(found.iter().all(|found| *found == 0.), "{format:?}: {found:?}");
        });
    }
}

/// Checks products of each format with each type of zero points, or none: few rows and more than are multiplied at once, and pairs of rows
/// of data.
fn check_shapes(formats: [Format; 2], all_groups: &[(usize, usize)], half_scales: bool) {
    let zero_points = [None].into_iter().chain(NUMBERS.map(Some));
    for (format, zero_points) in zero_points.flat_map(|it| formats.map(|format| (format, it))) {
        let rows = [(3, 1), (4, 2), (17, 3), (67, 1)];
        for (&(groups, group), (rows, data_rows)) in
            all_groups.iter().flat_map(|groups| rows.map(|rows| (groups, rows)))
        {
            let case = CompressedCase {
                format,
                data_rows,
                rows,
                groups,
                group,
                zero_points,
                half_scales,
                is_tiny_first: false,
                seed: (groups * group + rows) as u32,
            };
            with_all_vectors(|| case.check_with(Precision::Exact));
        }
    }
}

/// Codes of 8 bits and rows of one group: blocks that are whole and not, fewer than four rows, and pairs of rows of data.
#[test]
fn rows_of_one_group() {
    let groups = [1, 63, 64, 65, 200].map(|depth| (1, depth));
    check_shapes([Format::I8, Format::U8], &groups, false);
}

/// Codes of 4 bits: blocks of four vectors and of one, whole and not; groups that are as long as a lane of 128 bits, longer, and not a
/// multiple of a block.
#[test]
fn rows_of_four_bits() {
    let groups =
        [(1, 2), (1, 512), (1, 1022), (16, 32), (31, 32), (9, 64), (6, 96), (7, 160), (2, 640)];
    for half_scales in [false, true] {
        check_shapes([Format::I4, Format::U4], &groups, half_scales);
    }
}

/// Many rows become bytes if they may and can, in groups; others stay as they are.
#[test]
fn data_that_is_not_finite_stays() -> TractResult<()> {
    let (depth, rows, data_rows) = (64, 3, FEW_ROWS + 1);
    let codes: Vec<u8> = (0..rows * depth).map(|place| place as u8).collect();
    let constant =
        DequantizedConst::of_bytes(tensor1(&codes), Format::U8, &[rows, depth], None, None)?;
    let matrix = CompressedMatrix::new(&constant, rows)?.unwrap();
    let multiplied = |data: &[f32], precision| {
        let mut output = vec![0.; data_rows * rows];
        multiply(&matrix, data, precision, &[0.; 3], Activation::Identity, &mut output).unwrap();
        output
    };
    let mut data: Vec<f32> = (0..data_rows * depth).map(|place| (place as f32).sin()).collect();
    let [exact, bytes] = [Precision::Exact, Precision::Dynamic].map(|it| multiplied(&data, it));
    assert_eq!(exact != bytes, has_bytes());
    data[depth + 5] = f32::INFINITY;
    let [exact, bytes] = [Precision::Exact, Precision::Dynamic].map(|it| multiplied(&data, it));
    assert_eq!(exact, bytes);
    assert_eq!(exact[rows..2 * rows], [f32::INFINITY; 3]);
    Ok(())
}

/// Few rows of data and many, of which threads share the columns that are left over.
#[cfg(feature = "multithread-mm")]
#[test]
fn threads_share_a_product() {
    use tract_core::prelude::multithread::{
        Executor, multithread_tract_scope, set_threading_element_threshold,
    };

    set_threading_element_threshold(0);
    for (format, data_rows, rows) in [
        (Format::I8, 4, 500),
        (Format::U4, 2, 300),
        (Format::F16, 64, 500),
        (Format::U4, 77, 300),
        (Format::I8, 100, 40),
    ] {
        // So many numbers that AVX-512 reads rows where they are.
        let (groups, group) = (2, 64);
        let case = CompressedCase {
            format,
            data_rows,
            rows,
            groups,
            group,
            zero_points: Some(DatumType::U8),
            half_scales: false,
            is_tiny_first: false,
            seed: 7,
        };
        multithread_tract_scope(Executor::multithread(2), || case.check());
    }
}

/// The formats, by hand.
#[test]
fn codes_stand_for_numbers() -> TractResult<()> {
    let numbers = |format: Format, bytes: &[u8], expected: &[f32]| -> TractResult<()> {
        let shape = [1, expected.len()];
        let constant = DequantizedConst::of_bytes(tensor1(bytes), format, &shape, None, None)?;
        assert_eq!(*constant.value()?, Tensor::from_shape(&shape, expected)?, "{format:?}");
        Ok(())
    };
    numbers(Format::I4, &[0x87, 0x1f, 0x08], &[7., -8., -1., 1., -8.])?;
    numbers(Format::U4, &[0x87, 0x1f, 0x08], &[7., 8., 15., 1., 8.])?;
    numbers(Format::I8, &[0x80, 0x7f, 0xff], &[-128., 127., -1.])?;
    numbers(Format::U8, &[0x80, 0xff, 0], &[128., 255., 0.])?;
    numbers(Format::F16, &[0x00, 0x3c, 0x01, 0x00], &[1., f16::from_bits(1).to_f32()])?;
    numbers(Format::BF16, &[0x80, 0x3f, 0x00, 0xc0], &[1., -2.])
}

#[test]
fn other_constants_are_refused() -> TractResult<()> {
    let refusal = |codes: Tensor, scale: Option<Tensor>, rows: usize| -> TractResult<String> {
        let constant = DequantizedConst::new(codes, None, scale)?;
        let matrix = CompressedMatrix::new(&constant, rows)?;
        Ok(matrix.err().unwrap_or_default())
    };
    let codes = |shape: &[usize]| Tensor::zero::<u8>(shape);
    let scale = |shape: &[usize]| Tensor::zero::<f32>(shape).map(Some);
    assert_eq!(refusal(codes(&[2, 8])?, scale(&[2, 1])?, 2)?, "");
    assert_eq!(refusal(codes(&[2, 8])?, scale(&[])?, 2)?, "");
    assert_eq!(refusal(codes(&[2, 2, 32])?, scale(&[2, 1, 1])?, 2)?, "");
    let reason = refusal(codes(&[2, 8])?, scale(&[8])?, 2)?;
    assert!(reason.contains("have a scale each"), "{reason}");
    let reason = refusal(codes(&[2, 2, 16])?, scale(&[2, 2, 1])?, 2)?;
    assert!(reason.contains("groups of 16"), "{reason}");
    let reason = refusal(codes(&[0, 8])?, None, 0)?;
    assert!(reason.contains("no elements"), "{reason}");
    let reason = refusal(Tensor::zero::<i32>(&[2, 8])?, None, 2)?;
    assert!(reason.contains("of type I32"), "{reason}");
    assert!(DequantizedConst::of_bytes(codes(&[3])?, Format::U4, &[1, 7], None, None).is_err());
    Ok(())
}

#[test]
fn operands_that_do_not_fit() {
    let combined = |count: usize, shape: &[usize], operand: &[usize]| {
        let operand = Tensor::zero::<f32>(operand).unwrap();
        super::combine(&mut vec![1.; count], shape, &operand, |number, _| number)
    };
    combined(6, &[2, 3], &[3]).unwrap();
    combined(6, &[2, 3], &[2, 1]).unwrap();
    combined(0, &[model_cases::MANY, model_cases::MANY, 0], &[]).unwrap_err();
    for operand in [&[1, 2, 3][..], &[2], &[3, 1], &[0]] {
        let error = combined(6, &[2, 3], operand).unwrap_err().to_string();
        assert!(error.contains("must be broadcast to [2, 3]"), "{error}");
    }
    let error = combined(5, &[2, 3], &[3]).unwrap_err().to_string();
    assert!(error.contains("there are 5 numbers"), "{error}");
}
