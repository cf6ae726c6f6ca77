use tract_core::internal::*;
use tract_core::transform::ModelTransform;

use crate::KernelsTransform;

/// Runs models on this crate's operators. tract has it by the name `kernels`:
///
/// ```
/// use tract_core::prelude::*;
/// // A program that names nothing of the crate links it by this.
/// use tract_openvino_kernels as _;
///
/// # fn main() -> TractResult<()> {
/// # let mut model = TypedModel::default();
/// # let data = model.add_source("data", f32::fact([2, 3]))?;
/// # model.select_output_outlets(&[data])?;
/// let runtime = runtime_for_name("kernels")?.expect("the crate is linked");
/// let runnable = runtime.prepare(model)?;
/// # runnable.run(tvec!(Tensor::zero::<f32>(&[2, 3])?.into()))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct KernelsRuntime;

impl Runtime for KernelsRuntime {
    fn name(&self) -> StaticName {
        "kernels".into()
    }

    fn prepare_with_options(
        &self,
        model: TypedModel,
        options: &RunOptions,
    ) -> TractResult<Box<dyn Runnable>> {
        let plan = TypedSimplePlan::new_with_options(optimized(model)?, options)?;
        Ok(Box::new(plan))
    }

    fn check(&self) -> TractResult<()> {
        Ok(())
    }
}

tract_core::register_runtime!(KernelsRuntime = KernelsRuntime);

/// A model on this crate's operators, and on tract's fastest for the rest.
fn optimized(model: TypedModel) -> TractResult<TypedModel> {
    let mut model = model.with_kernels()?;
    model.optimize()?;
    Ok(model)
}

/// Models on this crate's operators.
pub trait WithKernels: Sized {
    /// The model with the operators of this crate, as [`KernelsTransform`] puts them there. tract's own operators are
    /// not optimised yet: `into_optimized` does that.
    ///
    /// # Errors
    ///
    /// tract cannot declutter the model.
    fn with_kernels(self) -> TractResult<TypedModel>;

    /// The model, optimised and ready to run, on the operators of this crate.
    ///
    /// # Errors
    ///
    /// tract cannot declutter or optimise the model.
    fn into_runnable_with_kernels(self) -> TractResult<Arc<TypedRunnableModel>>;
}

impl WithKernels for TypedModel {
    fn with_kernels(self) -> TractResult<TypedModel> {
        KernelsTransform::default().transform_into(self)
    }

    fn into_runnable_with_kernels(self) -> TractResult<Arc<TypedRunnableModel>> {
        optimized(self)?.into_runnable()
    }
}
