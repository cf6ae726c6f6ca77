//! Products of one row of data with compressed matrices, as a language model has for each token, beside a plain read of the
//! same bytes, which are those of the codes and of their scales in half precision.
//!
//! ```text
//! cargo run --release -p tract-openvino-kernels --features multithread-mm --example one_row
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use pulp::Arch;
use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::prelude::multithread::{Executor, set_default_executor};
use tract_openvino_kernels::threads::fill_rows;
use tract_openvino_kernels::{
    DequantizedConst, Format, KernelsRunnable, WithKernels, tensor_of_parts,
};

/// Rows and their numbers of codes: those of the first and of the last product of the feed-forward part of
/// Llama 1B.
const SHAPES: [[usize; 2]; 2] = [[8192, 2048], [2048, 8192]];

/// As many as no cache has room for.
const MATRICES: usize = 16;

/// The codes of four bits that have one scale.
const GROUP: usize = 64;

fn main() -> TractResult<()> {
    println!("| codes | codes in a row | threads | read, GB/s | product, GB/s | share |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for threads in [1, 2] {
        if threads > 1 {
            set_default_executor(Executor::multithread(threads));
        }
        for format in [Format::F16, Format::I8, Format::U4] {
            for shape in SHAPES {
                measure(threads, format, shape)?;
            }
        }
    }
    Ok(())
}

/// Prints the line of a format and a shape.
fn measure(threads: usize, format: Format, shape: [usize; 2]) -> TractResult<()> {
    let [_, depth] = shape;
    let codes = codes(format, shape)?;
    let scales = (0..MATRICES).map(|_| scales(format, shape)).collect::<TractResult<Vec<_>>>()?;
    let matrices = codes.iter().zip(&scales);
    let plans = matrices.map(|(codes, scales)| plan(codes, scales.clone(), format, shape));
    let plans = plans.collect::<TractResult<Vec<_>>>()?;
    let data: TValue = Tensor::from_shape(&[1, depth], &vec![0.5f32; depth])?.into();
    let run = || {
        for plan in &plans {
            plan.run(tvec!(data.clone())).expect("the product runs");
        }
    };
    let tensors = codes.iter().map(Arc::as_ref).chain(scales.iter().flatten());
    let views = tensors.map(Tensor::try_as_plain_ram).collect::<TractResult<Vec<_>>>()?;
    let read = || views.iter().for_each(|view| read(view.as_bytes()));
    let bytes = views.iter().map(|view| view.as_bytes().len()).sum::<usize>();
    let gigabytes = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let [read, product] = fastest([&read, &run]).map(gigabytes);
    println!(
        "| {format:?} | {depth} | {threads} | {read:.1} | {product:.1} | {:.2} |",
        product / read
    );
    Ok(())
}

/// The codes of all matrices: small numbers.
fn codes(format: Format, [rows, depth]: [usize; 2]) -> TractResult<Vec<Arc<Tensor>>> {
    let len = rows * depth * format.bits() / 8;
    let bytes = match format {
        Format::F16 => vec![0x00, 0x3c],
        _ => vec![0x21, 0x43, 0x65],
    };
    (0..MATRICES)
        .map(|_| {
            let codes = tensor_of_parts(DatumType::U8, &[len], |begin, part| {
                let bytes = bytes.iter().cycle().skip(begin % bytes.len());
                part.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
                Ok(())
            })?;
            Ok(codes.into_arc_tensor())
        })
        .collect()
}

/// The scales of a matrix: floats have none, codes of 8 bits one for each row, and codes of 4 bits one for each group.
fn scales(format: Format, [rows, depth]: [usize; 2]) -> TractResult<Option<Tensor>> {
    let groups = match format.bits() {
        4 => depth / GROUP,
        8 => 1,
        _ => return Ok(None),
    };
    let scales = vec![f16::from_f32(0.1); rows * groups];
    Tensor::from_shape(&[rows, groups, 1], &scales).map(Some)
}

fn plan(
    codes: &Arc<Tensor>,
    scales: Option<Tensor>,
    format: Format,
    [rows, depth]: [usize; 2],
) -> TractResult<KernelsRunnable> {
    let groups = scales.as_ref().map_or(1, |scales| scales.shape()[1]);
    let shape = [rows, groups, depth / groups];
    let constant = DequantizedConst::of_bytes(codes.clone(), format, &shape, None, scales)?;
    let constant = constant.into_shape(&[rows, depth])?;
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([1, depth]))?;
    let weights = model.wire_node("weights", constant, &[])?[0];
    let product = EinSum::new("mk,nk->mn".parse()?, f32::datum_type());
    let product = model.wire_node("product", product, &[data, weights])?;
    model.select_output_outlets(&product)?;
    model.into_runnable_with_kernels()
}

/// Adds all words, on the threads that share the work.
fn read(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0;
    let mut sums = vec![0u64; 64];
    let part = words.len() / sums.len();
    let result: Result<(), ()> = fill_rows(&mut sums, 1, bytes.len() * 128, |first, sums| {
        for (number, sum) in sums.iter_mut().enumerate() {
            let words = &words[(first + number) * part..][..part];
            *sum = Arch::new().dispatch(|| {
                words.iter().fold(0, |sum, word| u64::wrapping_add(sum, u64::from_ne_bytes(*word)))
            });
        }
        Ok(())
    });
    black_box((sums, result)).1.expect("a read has no errors");
}

/// The least times of some functions, which are called in turns.
fn fastest<const N: usize>(functions: [&dyn Fn(); N]) -> [Duration; N] {
    let mut least = [Duration::MAX; N];
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2000) {
        for (least, function) in least.iter_mut().zip(functions) {
            let started = Instant::now();
            function();
            *least = started.elapsed().min(*least);
        }
    }
    least
}
