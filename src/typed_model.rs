use tract_onnx::Onnx;
use tract_onnx::pb::ModelProto;
use tract_onnx::tract_hir::internal::*;

use crate::kernels::guard_downsamples;
use crate::restart_loops;

/// Reads a model of ONNX with types and shapes. Its loops begin anew in each run, as [`restart_loops`] has it, and a stride may follow
/// what changes axes. The shapes that it declares between its nodes are ignored if it cannot be typed with them.
///
/// `folder` has the files that the model names. `give_shapes` may give its inputs shapes, as
/// [`set_input_shape`](crate::set_input_shape) does, whose names of dimensions are those of
/// [`name_dimensions`](crate::name_dimensions), if that was called.
///
/// ```
/// use tract_openvino::WithOpenVino;
/// use tract_openvino::tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// # let path = "models/token_picker/model.onnx";
/// let reader = tract_openvino::tract_onnx::onnx().with_openvino();
/// let proto = reader.proto_model_for_path(path)?;
/// let model = tract_openvino::typed_model(&reader, &proto, None, |_| Ok(()))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// A node is not supported, has an input that nothing computes, or does not fit the shapes; or `give_shapes` fails. An error is the one
/// that is about the model with what it declares.
pub fn typed_model(
    reader: &Onnx,
    proto: &ModelProto,
    folder: Option<&str>,
    give_shapes: impl Fn(&mut InferenceModel) -> TractResult<()>,
) -> TractResult<TypedModel> {
    let typed = |reader: &Onnx| {
        let parsed = reader.parse(proto, folder)?;
        let unresolved = parsed.unresolved_inputs;
        ensure!(
            unresolved.is_empty(),
            "nodes have inputs that nothing computes: {}",
            unresolved.join(", ")
        );
        let mut model = parsed.model;
        give_shapes(&mut model)?;
        let mut model = model.into_typed()?;
        restart_loops(&mut model);
        guard_downsamples(&mut model, 0)?;
        Ok(model)
    };
    typed(reader).or_else(|error| {
        let undeclared = reader.clone().with_ignore_value_info(true);
        typed(&undeclared).map_err(|_| error)
    })
}
