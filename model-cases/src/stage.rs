//! A model at the stages that tract takes it through, and on the kernels of this project.

use std::fmt;

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::{Fact, Factoid, TDim, bail, ensure};
use tract_openvino_kernels::WithKernels;

/// How far tract takes a model before it runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// As it was read: types and shapes may be unknown.
    Loaded,
    /// With types and shapes.
    Typed,
    /// Simplified.
    Decluttered,
    /// With the operators replaced by those that run fastest.
    Optimized,
    /// On the kernels of this project, and optimised.
    Kernels,
}

impl Stage {
    /// The stages, in the order in which a model goes through them.
    pub const ALL: [Stage; 5] =
        [Stage::Loaded, Stage::Typed, Stage::Decluttered, Stage::Optimized, Stage::Kernels];

    /// The stages of a model that is typed when it is read.
    pub const OF_TYPED: [Stage; 4] =
        [Stage::Typed, Stage::Decluttered, Stage::Optimized, Stage::Kernels];

    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Loaded => "loaded",
            Stage::Typed => "typed",
            Stage::Decluttered => "decluttered",
            Stage::Optimized => "optimized",
            Stage::Kernels => "kernels",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A model that tract can run, with what tract knows of its outputs, and the variables that it has from run to
/// run.
pub struct StagedModel {
    /// The facts of the inputs, for the binding of their symbols.
    inputs: Vec<TVec<TDim>>,
    /// The facts of the outputs: type and dimensions, as far as they are known.
    outputs: Vec<(Option<DatumType>, Option<TVec<TDim>>)>,
    plan: Plan,
}

enum Plan {
    Inference(Box<InferenceModel>),
    Typed(Box<TypedSimpleState>),
}

impl StagedModel {
    /// Takes a model to a stage.
    pub fn new(model: InferenceModel, stage: Stage) -> TractResult<StagedModel> {
        if stage == Stage::Loaded {
            let mut analysed = model.clone();
            analysed.analyse(false)?;
            let inputs = facts(&analysed, analysed.input_outlets()?)?;
            let inputs = inputs.iter().map(|fact| fact.shape.concretize().unwrap_or_default());
            let outputs = facts(&analysed, analysed.output_outlets()?)?;
            let outputs = outputs.iter().map(|fact| (fact.datum_type(), fact.shape.concretize()));
            return Ok(StagedModel {
                inputs: inputs.collect(),
                outputs: outputs.collect(),
                plan: Plan::Inference(Box::new(model)),
            });
        }
        StagedModel::from_typed(model.into_typed()?, stage)
    }

    /// Takes a model that is typed already to a stage.
    pub fn from_typed(model: TypedModel, stage: Stage) -> TractResult<StagedModel> {
        let model = match stage {
            Stage::Loaded | Stage::Typed => model,
            Stage::Decluttered => model.into_decluttered()?,
            Stage::Optimized => model.into_optimized()?,
            Stage::Kernels => model.with_kernels()?.into_optimized()?,
        };
        let inputs = facts(&model, model.input_outlets()?)?;
        let inputs = inputs.iter().map(|fact| fact.shape.to_tvec());
        let outputs = facts(&model, model.output_outlets()?)?;
        let outputs =
            outputs.iter().map(|fact| (Some(fact.datum_type), Some(fact.shape.to_tvec())));
        let (inputs, outputs) = (inputs.collect(), outputs.collect());
        let state = model.into_runnable()?.spawn()?;
        Ok(StagedModel { inputs, outputs, plan: Plan::Typed(Box::new(state)) })
    }

    /// Runs the model once more. Its outputs are as ONNX has them: `i64` where tract has dimensions.
    pub fn run_as_onnx(&mut self, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
        let as_onnx_has_it = |output: Tensor| match output.datum_type() {
            DatumType::TDim => output.cast_to::<i64>().map(|output| output.into_owned()),
            _ => Ok(output),
        };
        self.run(inputs)?.into_iter().map(as_onnx_has_it).collect()
    }

    /// Runs the model.
    pub fn run(&mut self, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
        let values = inputs.iter().cloned().map(TValue::from).collect();
        let outputs = match &mut self.plan {
            Plan::Inference(model) => {
                // tract runs a model that is not typed on the very shapes of its inputs only.
                let mut model = (**model).clone();
                for (number, input) in inputs.iter().enumerate() {
                    model.set_input_fact(number, InferenceFact::dt_shape_from_tensor(input))?;
                }
                model.into_runnable()?.run(values)?
            }
            Plan::Typed(state) => state.run(values).inspect_err(|_| {
                // Otherwise tract expects the sizes of this run in the next one, too.
                state.turn_state = Default::default();
            })?,
        };
        Ok(outputs.into_iter().map(|output| output.into_tensor()).collect())
    }

    /// Runs the model, and checks that what tract knew of the outputs [holds](StagedModel::check_facts).
    pub fn run_checked(&mut self, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
        let outputs = self.run(inputs)?;
        self.check_facts(inputs, &outputs)?;
        Ok(outputs)
    }

    /// Checks that what tract knew of the outputs before it ran is complete and holds for outputs
    /// that come from these inputs.
    pub fn check_facts(&self, inputs: &[Tensor], outputs: &[Tensor]) -> TractResult<()> {
        let mut symbols = SymbolValues::default();
        for (dims, tensor) in self.inputs.iter().zip(inputs) {
            for (dim, size) in dims.iter().zip(tensor.shape()) {
                if let TDim::Sym(symbol) = dim {
                    symbols.set(symbol, *size as i64);
                }
            }
        }
        ensure!(
            self.outputs.len() == outputs.len(),
            "the model has {} outputs, but {} were computed",
            self.outputs.len(),
            outputs.len()
        );
        for (number, (fact, output)) in self.outputs.iter().zip(outputs).enumerate() {
            let (dt, dims) = fact;
            let got = output.datum_type();
            let Some(dt) = *dt else { bail!("the type of output {number} is not known") };
            let as_onnx_has_it = dt == DatumType::TDim && got == DatumType::I64;
            ensure!(
                dt == got || as_onnx_has_it,
                "output {number} is of type {got:?}, but must be {dt:?}, as its fact says"
            );
            let Some(dims) = dims else { bail!("the shape of output {number} is not known") };
            // A symbol that is not of the inputs is one that an operator gives a value when it runs.
            for (dim, size) in dims.iter().zip(output.shape()) {
                if let TDim::Sym(symbol) = dim
                    && symbols.get(symbol).is_none()
                {
                    symbols.set(symbol, *size as i64);
                }
            }
            // Of a dimension like N+1 whose N no input has on its own, nothing can be said.
            let agrees = |(dim, size): (&TDim, &usize)| match dim.eval(&symbols) {
                TDim::Val(known) => usize::try_from(known) == Ok(*size),
                _ => true,
            };
            ensure!(
                dims.len() == output.rank() && dims.iter().zip(output.shape()).all(agrees),
                "output {number} has shape {:?}, but must have shape [{}], as its fact says",
                output.shape(),
                dims.iter().map(TDim::to_string).collect::<Vec<_>>().join(", ")
            );
        }
        Ok(())
    }
}

fn facts<'a, F: Fact + Clone, O>(
    model: &'a Graph<F, O>,
    outlets: &'a [OutletId],
) -> TractResult<Vec<&'a F>>
where
    O: fmt::Debug + fmt::Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    outlets.iter().map(|outlet| model.outlet_fact(*outlet)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_other_sizes_can_be_run() -> TractResult<()> {
        let mut model = TypedModel::default();
        let size = model.symbols.sym("N").to_dim();
        let input = model.add_source("x", f32::fact(&[size, 3.to_dim()]))?;
        model.select_output_outlets(&[input])?;
        let mut model = StagedModel::from_typed(model, Stage::Typed)?;
        let zeros = |shape: &[usize]| Tensor::zero::<f32>(shape);
        model.run_checked(&[zeros(&[1, 3])?])?;
        model.run_checked(&[zeros(&[2, 4])?]).unwrap_err();
        model.run_checked(&[zeros(&[5, 3])?])?;
        Ok(())
    }
}
