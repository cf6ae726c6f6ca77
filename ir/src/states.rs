//! The variables of a state that runs.

use tract_core::internal::*;
use tract_openvino_kernels::KernelsState;
use tract_openvino_kernels::checks::known_size;

use crate::operators::variable::{ReadState, ReadValue};

/// The variables of a state, like OpenVINO's `query_state`: what a model keeps from run to run can be read, set and reset.
///
/// ```
/// use tract_openvino_ir::QueryState;
/// use tract_openvino_ir::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let model = ir().model_for_path("models/read_value/cache/model.xml")?;
/// let runnable = model.into_runnable_with_kernels()?;
/// let mut state = runnable.spawn()?;
/// let tokens = || tvec!(Tensor::zero::<f32>(&[1, 2, 3]).unwrap().into_tvalue());
/// state.run(tokens())?;
/// let variables = state.query_state();
/// let names: Vec<&str> = variables.iter().map(|it| it.name()).collect();
/// let kept = variables[0].value()?.expect("a run has given it a value");
/// assert_eq!((names.len(), kept.shape()), (1, &[1, 2, 3][..]));
///
/// // A conversation that is as long as another one.
/// let mut other = runnable.spawn()?;
/// other.set_variable(names[0], kept)?;
/// assert_eq!(other.run(tokens())?[0].shape(), [1, 4, 3]);
/// other.reset_variables();
/// assert_eq!(other.run(tokens())?[0].shape(), [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
pub trait QueryState {
    /// The variables of the model, in the order in which it reads them, but for those of bodies of control flow.
    fn query_state(&self) -> Vec<VariableState>;

    /// Gives a variable its value for the next run: an element for each of the shape that the model reads, whose open dimensions may
    /// have any size.
    ///
    /// # Errors
    ///
    /// There is no variable of the name, or it has another type or shape.
    fn set_variable(&mut self, name: &str, value: Tensor) -> TractResult<()>;

    /// Has a variable begin with its initial value in the next run.
    ///
    /// # Errors
    ///
    /// There is no variable of the name.
    fn reset_variable(&mut self, name: &str) -> TractResult<()>;

    /// Has all variables begin with their initial values in the next run.
    fn reset_variables(&mut self);
}

/// A variable as it was when [`QueryState::query_state`] listed it.
#[derive(Debug, Clone)]
pub struct VariableState {
    name: String,
    datum_type: DatumType,
    shape: ShapeFact,
    value: Option<TValue>,
}

impl VariableState {
    /// The name, which the file calls `variable_id`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements.
    pub fn datum_type(&self) -> DatumType {
        self.datum_type
    }

    /// The shape that the model reads, with symbols for dimensions that change.
    pub fn shape(&self) -> &ShapeFact {
        &self.shape
    }

    /// The value that the next run begins with, or none if that is the initial value.
    ///
    /// # Errors
    ///
    /// It is a KV cache in pages, which cannot be read.
    pub fn value(&self) -> TractResult<Option<Tensor>> {
        let Some(value) = &self.value else { return Ok(None) };
        ensure!(
            value.is_plain(),
            "variable {:?} is a KV cache in pages: run the model with tract's own operators to read it",
            self.name
        );
        Ok(Some((**value).clone()))
    }
}

/// The nodes that read variables, with what they keep.
fn reads(state: &TypedSimpleState) -> impl Iterator<Item = (&ReadValue, &ReadState)> {
    let nodes = state.plan().model().nodes().iter().zip(&state.op_states);
    nodes.filter_map(|(node, kept)| {
        Some((node.op_as::<ReadValue>()?, kept.as_ref()?.downcast_ref::<ReadState>()?))
    })
}

fn set(
    state: &mut TypedSimpleState,
    is_meant: impl Fn(&ReadState) -> bool,
    value: Option<&TValue>,
) {
    let kept = state.op_states.iter_mut().flatten();
    for kept in kept.filter_map(|kept| kept.downcast_mut::<ReadState>()) {
        if is_meant(kept) {
            kept.set(value.cloned());
        }
    }
}

impl QueryState for TypedSimpleState {
    fn query_state(&self) -> Vec<VariableState> {
        let mut variables: Vec<VariableState> = vec![];
        for (op, kept) in reads(self) {
            let name = kept.variable.id();
            if variables.iter().all(|it| it.name != name) {
                variables.push(VariableState {
                    name: name.into(),
                    datum_type: op.datum_type,
                    shape: op.shape.clone(),
                    value: kept.value(),
                });
            }
        }
        variables
    }

    fn set_variable(&mut self, name: &str, value: Tensor) -> TractResult<()> {
        let (op, _) = read_of(self, name)?;
        let fits = |(dim, size): (&TDim, &usize)| known_size(dim).map_or(true, |dim| dim == *size);
        ensure!(
            value.datum_type() == op.datum_type
                && value.rank() == op.shape.rank()
                && op.shape.iter().zip(value.shape()).all(fits),
            "variable {name:?} has type {:?} and shape {:?}, but the value has type {:?} and shape {:?}",
            op.datum_type,
            op.shape,
            value.datum_type(),
            value.shape()
        );
        let value = value.into_tvalue();
        set(self, |kept| kept.variable.id() == name, Some(&value));
        Ok(())
    }

    fn reset_variable(&mut self, name: &str) -> TractResult<()> {
        read_of(self, name)?;
        set(self, |kept| kept.variable.id() == name, None);
        Ok(())
    }

    fn reset_variables(&mut self) {
        set(self, |_| true, None);
    }
}

/// The first node that reads a variable.
fn read_of<'a>(
    state: &'a TypedSimpleState,
    name: &str,
) -> TractResult<(&'a ReadValue, &'a ReadState)> {
    reads(state).find(|(_, kept)| kept.variable.id() == name).with_context(|| {
        let variables = state.query_state();
        let names: Vec<String> = variables.iter().map(|it| format!("{:?}", it.name)).collect();
        format!("there is no variable {name:?}: the variables are {}", names.join(", "))
    })
}

impl QueryState for KernelsState {
    fn query_state(&self) -> Vec<VariableState> {
        self.plan_state().query_state()
    }

    fn set_variable(&mut self, name: &str, value: Tensor) -> TractResult<()> {
        self.plan_state_mut().set_variable(name, value)
    }

    fn reset_variable(&mut self, name: &str) -> TractResult<()> {
        self.plan_state_mut().reset_variable(name)
    }

    fn reset_variables(&mut self) {
        self.plan_state_mut().reset_variables();
    }
}

#[cfg(test)]
mod tests {
    use tract_openvino_kernels::WithKernels;

    use super::*;
    use crate::ir;

    fn state() -> TractResult<KernelsState> {
        let model = ir().model_for_path("models/read_value/cache/model.xml")?;
        model.into_runnable_with_kernels()?.spawn()
    }

    fn tokens() -> TVec<TValue> {
        tvec!(Tensor::zero::<f32>(&[1, 2, 3]).unwrap().into_tvalue())
    }

    /// What is not of the variable is refused, and changes nothing.
    #[test]
    fn wrong_values_are_refused() -> TractResult<()> {
        let mut state = state()?;
        let name = state.query_state()[0].name().to_string();
        assert!(state.query_state()[0].value()?.is_none());
        state.run(tokens())?;
        for (name, value, expected) in [
            ("nothing", Tensor::zero::<f32>(&[1, 2, 3])?, "there is no variable \"nothing\""),
            (&name, Tensor::zero::<i64>(&[1, 2, 3])?, "I64"),
            (&name, Tensor::zero::<f32>(&[1, 2])?, "[1, 2]"),
            (&name, Tensor::zero::<f32>(&[1, 2, 4])?, "[1, 2, 4]"),
        ] {
            let error = format!("{:#}", state.set_variable(name, value).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        assert!(state.reset_variable("nothing").is_err());
        assert_eq!(state.run(tokens())?[0].shape(), [1, 4, 3]);
        state.reset_variable(&name)?;
        assert_eq!(state.run(tokens())?[0].shape(), [1, 2, 3]);
        Ok(())
    }

    /// A clone has what the original had, and what it is given is its own.
    #[test]
    fn clones_have_their_own() -> TractResult<()> {
        let mut state = state()?;
        state.run(tokens())?;
        let mut clone = state.clone();
        assert_eq!(clone.query_state()[0].value()?, state.query_state()[0].value()?);
        clone.reset_variables();
        assert_eq!(clone.run(tokens())?[0].shape(), [1, 2, 3]);
        assert_eq!(state.run(tokens())?[0].shape(), [1, 4, 3]);
        Ok(())
    }
}
