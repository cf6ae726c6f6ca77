//! One operator on inputs of any kind, against the literal oracle: it gives what the oracle does, or an
//! error, and an error exactly where the contract says so.

mod gather;
mod gather_tree;

use std::fmt::Debug;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use gather_cases::oracle::{BadIndex, Operator};
use tract_openvino::tract_onnx::prelude::multithread::{
    Executor, multithread_tract_scope, set_threading_element_threshold,
};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{EvalContext, TDim, TypedOp};

/// No tensor is larger, so that thousands of cases run each second.
const MOST_ELEMENTS: usize = 2048;

fn volume(shape: &[usize]) -> usize {
    shape.iter().map(|dim| (*dim).max(1)).product()
}

/// Mostly short, sometimes around the size of a piece of the kernel.
fn dim(u: &mut Unstructured) -> Result<usize> {
    Ok(match u.int_in_range(0..=40u8)? {
        0 => 0,
        40 => u.int_in_range(120..=1100)?,
        dim => dim as usize % 5 + 1,
    })
}

fn shape(u: &mut Unstructured, most_axes: usize) -> Result<Vec<usize>> {
    let rank = u.int_in_range(0..=most_axes)?;
    let mut shape = (0..rank).map(|_| dim(u)).collect::<Result<Vec<_>>>()?;
    while volume(&shape) > MOST_ELEMENTS {
        shape.pop();
    }
    Ok(shape)
}

/// So many integers in a range: mostly small ones, so that not every case is an error.
fn entries(u: &mut Unstructured, count: usize, (low, high): (i128, i128)) -> Result<Vec<i128>> {
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = match u.arbitrary::<u8>()? {
            small @ 0..=239 => i128::from(small % 5),
            240..=247 => i128::from(u.arbitrary::<i8>()?),
            _ => i128::from(u.arbitrary::<i64>()?) + i128::from(u.arbitrary::<bool>()?) * high,
        };
        entries.push(entry.clamp(low, high));
    }
    Ok(entries)
}

fn executor() -> Executor {
    static THREADS: OnceLock<Executor> = OnceLock::new();
    let executor = THREADS.get_or_init(|| {
        set_threading_element_threshold(0);
        Executor::multithread(3)
    });
    executor.clone()
}

fn eval(op: &dyn TypedOp, inputs: &[Tensor], threads: bool) -> TractResult<Tensor> {
    let inputs = inputs.iter().map(|input| input.clone().into()).collect();
    let eval = || op.eval(&EvalContext::out_of_plan(), inputs);
    let mut outputs = if threads { multithread_tract_scope(executor(), eval) } else { eval() }?;
    Ok(outputs.remove(0).into_tensor())
}

fn output_fact(op: &dyn TypedOp, inputs: &[TypedFact]) -> TractResult<TypedFact> {
    let inputs: Vec<&TypedFact> = inputs.iter().collect();
    Ok(op.output_facts(&inputs)?.remove(0))
}

/// An output and what was known of it beforehand.
fn assert_known(fact: &TypedFact, symbols: &SymbolValues, output: &Tensor, case: &dyn Debug) {
    let dims: Vec<TDim> = fact.shape.iter().map(|dim| dim.eval(symbols)).collect();
    let shape: Vec<TDim> = output.shape().iter().map(|dim| (*dim).into()).collect();
    assert_eq!(dims, shape, "{case:?}");
    assert_eq!(fact.datum_type, output.datum_type(), "{case:?}");
}

/// With a symbol for every dimension but the last `known` ones of each input, the facts are not wrong either.
fn check_symbolic_facts(
    op: &dyn TypedOp,
    inputs: &[(&Tensor, usize)],
    output: &TractResult<Tensor>,
    case: &dyn Debug,
) {
    let scope = SymbolScope::default();
    let mut symbols = SymbolValues::default();
    let facts: Vec<TypedFact> = inputs
        .iter()
        .map(|(tensor, known)| {
            let first_known = tensor.rank() - known;
            let dims = tensor.shape().iter().enumerate().map(|(axis, size)| {
                if axis >= first_known {
                    return TDim::from(*size);
                }
                let symbol = scope.new_with_prefix("n");
                symbols.set(&symbol, *size as i64);
                symbol.into()
            });
            TypedFact::dt_shape(tensor.datum_type(), dims.collect::<TVec<TDim>>())
        })
        .collect();
    let fact = output_fact(op, &facts);
    if let Ok(output) = output {
        let fact = fact.unwrap_or_else(|error| panic!("{case:?}\n{error:?}"));
        assert_known(&fact, &symbols, output, case);
    }
}

/// Compares what an operator gives with what the contract says: `None` where the node or its inputs are an
/// error, and else the output, or which index is bad. Says whether there was an output.
fn compare(
    expected: Option<std::result::Result<Tensor, BadIndex>>,
    result: TractResult<Tensor>,
    bad_index: fn(&TractError) -> Option<BadIndex>,
    case: &dyn Debug,
) -> bool {
    match (expected, result) {
        (Some(Ok(expected)), Ok(output)) => {
            assert!(expected == output, "{case:?}\nexpected {expected:?}\ngot {output:?}");
            true
        }
        (Some(Err(bad)), Err(error)) => {
            assert_eq!(bad_index(&error), Some(bad), "{case:?}\n{error:?}");
            false
        }
        (None, Err(error)) => {
            assert_eq!(bad_index(&error), None, "{case:?}\n{error:?}");
            false
        }
        (expected, got) => panic!("{case:?}\nexpected {expected:?}\ngot {got:?}"),
    }
}

/// The operators of `gather`, and GatherTree after them.
pub fn count() -> usize {
    Operator::ALL.len() + 1
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    let mut u = Unstructured::new(bytes);
    let case = match crate::number(&mut u, count()).ok()? {
        number if number < Operator::ALL.len() => {
            gather::case(Operator::ALL[number], &mut u).map(gather::run)
        }
        _ => gather_tree::case(&mut u).map(gather_tree::run),
    };
    case.ok()
}
