use std::hash::{BuildHasher, RandomState};

use tract_core::internal::*;
use tract_core::num_traits::Float;
use tract_openvino_kernels::checks::expect_inputs;

use super::{check_volume, impl_op, one_element, set_symbols};

/// OpenVINO's RandomUniform: the numbers of Philox4x32-10, in `[low, high)`.
///
/// Inputs are `low` and `high`. The numbers go on from run to run of a state. If both seeds are 0, each state has
/// other ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RandomUniform {
    /// `global_seed` and `op_seed`.
    pub seeds: [u64; 2],
    pub shape: TVec<TDim>,
}

impl_op!(
    RandomUniform,
    "OpenVinoRandomUniform",
    info = |op| vec![format!("seeds: {:?}", op.seeds)]
);

impl EvalOp for RandomUniform {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        // Each of the standard library's states has other keys.
        let random = || RandomState::new().hash_one(0);
        let [key, counter] = if self.seeds == [0; 2] { [random(), random()] } else { self.seeds };
        Ok(Some(Box::new(Generator { key, counter, number: 0 })))
    }
}

/// A sequence of groups of four numbers.
#[derive(Debug, Clone)]
struct Generator {
    key: u64,
    counter: u64,
    /// The number of the next group.
    number: u64,
}

/// How many groups a run leaves out for each element of its output, in OpenVINO as in TensorFlow.
const GROUPS_FOR_AN_ELEMENT: u64 = 256;

impl OpState for Generator {
    fn eval(
        &mut self,
        ctx: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<RandomUniform>().context("the state of another operator")?;
        let (low, high) = args_2!(inputs);
        let dims = op.shape.iter().map(|dim| dim.eval(ctx.symbols).to_usize());
        let shape = dims.collect::<Result<TVec<usize>, _>>()?;
        let count = check_volume("RandomUniform", low.datum_type(), &shape)?;
        let output = match low.datum_type() {
            DatumType::F16 => spread(self.words(count).map(half), &low, &high)?,
            DatumType::F32 => spread(self.words(count).map(single), &low, &high)?,
            DatumType::F64 => spread(self.doubles(count), &low, &high)?,
            DatumType::I32 => modulo::<i32>(self.words(count).map(u64::from), &low, &high)?,
            DatumType::I64 => modulo::<i64>(self.long_words(count), &low, &high)?,
            dt => bail!(
                "RandomUniform: the output is of type {dt:?}, but must be F16, F32, F64, I32 or I64"
            ),
        };
        let groups = (count as u64).wrapping_mul(GROUPS_FOR_AN_ELEMENT);
        self.number = self.number.wrapping_add(groups);
        Ok(tvec!(output.into_shape(&shape)?.into_tvalue()))
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        bail!("RandomUniform: one sequence cannot serve several streams")
    }
}

impl Generator {
    fn groups(&self) -> impl Iterator<Item = [u32; 4]> + '_ {
        (0..).map(|number| philox(self.key, self.counter, self.number.wrapping_add(number)))
    }

    fn words(&self, count: usize) -> impl Iterator<Item = u32> + '_ {
        self.groups().flatten().take(count)
    }

    /// Numbers of 64 bits: each is two words, the lower one first.
    fn long_words(&self, count: usize) -> impl Iterator<Item = u64> + '_ {
        self.groups().flat_map(|[a, b, c, d]| [long(b, a), long(d, c)]).take(count)
    }

    /// Each is two words, the higher one first.
    fn doubles(&self, count: usize) -> impl Iterator<Item = f64> + '_ {
        self.groups().flat_map(|[a, b, c, d]| [double(a, b), double(c, d)]).take(count)
    }
}

/// Philox4x32-10: ten rounds of multiplications.
fn philox(key: u64, counter: u64, number: u64) -> [u32; 4] {
    let halves = |number: u64| [number as u32, (number >> 32) as u32];
    let ([mut key_0, mut key_1], [c, d], [a, b]) = (halves(key), halves(counter), halves(number));
    let mut words = [a, b, c, d];
    for _ in 0..10 {
        let [a, b, c, d] = words;
        let [low_a, high_a] = halves(u64::from(a) * 0xD251_1F53);
        let [low_c, high_c] = halves(u64::from(c) * 0xCD9E_8D57);
        words = [high_c ^ b ^ key_0, low_c, high_a ^ d ^ key_1, low_a];
        key_0 = key_0.wrapping_add(0x9E37_79B9);
        key_1 = key_1.wrapping_add(0xBB67_AE85);
    }
    words
}

fn long(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

// Floats in [0, 1): the words are mantissas of floats in [1, 2).

fn half(word: u32) -> f16 {
    f16::from_bits(15 << 10 | word as u16 & 0x3ff) - f16::ONE
}

fn single(word: u32) -> f32 {
    f32::from_bits(127 << 23 | word & 0x7f_ffff) - 1.
}

fn double(high: u32, low: u32) -> f64 {
    f64::from_bits(1023u64 << 52 | long(high & 0xf_ffff, low)) - 1.
}

/// Spreads floats in [0, 1) over `[low, high)`.
fn spread<T: Datum + Float>(
    fractions: impl Iterator<Item = T>,
    low: &Tensor,
    high: &Tensor,
) -> TractResult<Tensor> {
    let (low, high) = (one_element::<T>(low)?, one_element::<T>(high)?);
    let numbers: Vec<T> = fractions.map(|fraction| fraction * (high - low) + low).collect();
    Ok(tensor1(&numbers))
}

/// Words modulo the size of `[low, high)`.
fn modulo<T: Datum + Copy + Into<i64> + TryFrom<i128>>(
    words: impl Iterator<Item = u64>,
    low: &Tensor,
    high: &Tensor,
) -> TractResult<Tensor> {
    let bound =
        |bound: &Tensor| -> TractResult<i128> { Ok(one_element::<T>(bound)?.into().into()) };
    let (low, high) = (bound(low)?, bound(high)?);
    ensure!(low < high, "RandomUniform: there is no integer in [{low}, {high})");
    let number = |word: u64| T::try_from(i128::from(word) % (high - low) + low);
    let numbers = words.map(number).collect::<Result<Vec<T>, _>>();
    let numbers = numbers.ok().context("RandomUniform: a number is too large for its type")?;
    Ok(tensor1(&numbers))
}

impl TypedOp for RandomUniform {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [low, high] = expect_inputs("RandomUniform", ["min_val", "max_val"], inputs)?;
        ensure!(
            low.datum_type == high.datum_type,
            "RandomUniform: the bounds are of types {:?} and {:?}, but must be of one type",
            low.datum_type,
            high.datum_type
        );
        Ok(tvec!(low.datum_type.fact(&self.shape)))
    }

    set_symbols!(shape);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(key: u64, counter: u64) -> Generator {
        Generator { key, counter, number: 0 }
    }

    /// The examples of the specification.
    #[test]
    fn numbers_of_given_seeds() {
        let numbers: Vec<f32> = generator(150, 10).words(3).map(single).collect();
        assert_eq!(numbers, [0.7011236, 0.30539632, 0.93931055]);
        let other = generator(80, 100);
        let numbers: Vec<f64> = other.doubles(4).map(|number| number * 8. + 2.).collect();
        for (found, expected) in
            numbers.iter().zip([5.65927959, 4.23122376, 2.67008206, 2.36423758])
        {
            assert!((found - expected).abs() < 1e-8, "{found} {expected}");
        }
        let bounds = [tensor0(50), tensor0(100)];
        let words = other.words(6).map(u64::from);
        let numbers = modulo::<i32>(words, &bounds[0], &bounds[1]).unwrap();
        assert_eq!(numbers, tensor1(&[65, 70, 56, 59, 82, 92]));
    }

    #[test]
    fn integers_of_64_bits() {
        let numbers = |low: i64, high: i64| {
            modulo::<i64>(generator(80, 100).long_words(6), &tensor0(low), &tensor0(high))
        };
        assert_eq!(numbers(-5, 10).unwrap(), tensor1(&[5i64, 5, 4, 1, 7, -5]));
        numbers(i64::MIN, i64::MAX).unwrap();
        numbers(3, 3).unwrap_err();
    }
}
