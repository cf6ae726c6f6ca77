//! Language models: tokens in, logits out.

use std::path::Path;

use tract_core::internal::*;
use tract_openvino_ir::document::Graph;
use tract_openvino_ir::ir;
use tract_openvino_kernels::{
    CachePrecision, InferencePrecision, KernelsConfig, KernelsRunnable, KernelsState,
    KernelsTransform,
};

use crate::config::ModelConfig;
use crate::files::{Files, MODEL};
use crate::last_logits::keep_last_position;

/// A language model as `optimum-cli export openvino` writes it: it keeps the keys and values of attention in variables.
///
/// Inputs and outputs go by the names of their tensors: any of those that the file has, or the label of the outlet in a model that is
/// read already. Where a tensor has no name that is known, the name of the layer counts.
///
/// | input | type and shape | |
/// |---|---|---|
/// | `input_ids` | `i64 [rows, tokens]` | tokens that come after those of the run before |
/// | `attention_mask` | `i64 [rows, tokens so far and these]` | may be missing |
/// | `position_ids` | `i64 [rows, tokens]` | may be missing |
/// | `beam_idx` | `i32 [rows]` | which row of the run before each row continues; may be missing |
///
/// The output `logits`, or the only one, is of type `f32` and shape `[rows, tokens, vocabulary]`.
///
/// It runs on the executor that the program has given to tract, and computes exactly, unless it is told otherwise, for example by
/// [`rounding_kernels`]. A clone shares the weights.
#[derive(Debug, Clone)]
pub struct LanguageModel {
    runnable: KernelsRunnable,
    /// In the order of the model.
    inputs: Vec<Input>,
    /// The output with the logits.
    logits: usize,
    /// The size of the vocabulary, if it is known.
    vocabulary: Option<usize>,
    max_positions: Option<usize>,
}

/// An input of a model.
#[derive(Debug, Clone, Copy)]
struct Input {
    role: Role,
    datum_type: DatumType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Tokens,
    Mask,
    Positions,
    Rows,
}

/// The inputs that a model may have, and the numbers of their axes.
const INPUTS: [(&str, Role, usize); 4] = [
    ("input_ids", Role::Tokens, 2),
    ("attention_mask", Role::Mask, 2),
    ("position_ids", Role::Positions, 2),
    ("beam_idx", Role::Rows, 1),
];

/// The kernels that text generation has by default, as OpenVINO does: in prefill, activations that meet int8 or int4 weights are
/// rounded to 8 bits (dynamic quantization), and the factors of other products to bf16, where the processor multiplies such; with
/// AMX all of them are rounded to bf16. The KV cache is in u8. Logits differ a little from exact ones.
pub fn rounding_kernels() -> KernelsTransform {
    let mut config = KernelsConfig::default();
    config.dynamic_quantization = true;
    config.inference_precision = InferencePrecision::Bf16;
    config.kv_cache_precision = CachePrecision::U8;
    KernelsTransform::new(config).expect("all rules are there")
}

/// The name of the output with the logits.
const LOGITS: &str = "logits";

/// Labels the inputs and the output that are known by any name of their tensors: an outlet has one label only.
fn label_known(model: &mut TypedModel, graph: &Graph) -> TractResult<()> {
    for (name, ..) in INPUTS {
        // A layer may have the name of another one's tensor.
        let has_name = |input: &usize| graph.input_names(*input).iter().any(|it| it == name);
        let input = (0..model.inputs.len()).find(has_name);
        if let Some(input) = input {
            model.set_outlet_label(model.inputs[input], name.into())?;
        }
    }
    if let Some(output) = graph.output_by_name(LOGITS) {
        model.set_outlet_label(model.outputs[output], LOGITS.into())?;
    }
    Ok(())
}

impl LanguageModel {
    /// The model of a folder: `openvino_model.xml` with its `.bin`, and `max_position_embeddings` or `n_positions` of
    /// `config.json`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the model is of another kind: no language model that keeps its keys and values.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<LanguageModel> {
        LanguageModel::from_folder_with(folder, &KernelsTransform::default())
    }

    /// The same with options for the operators.
    ///
    /// # Errors
    ///
    /// Those of [`from_folder`](Self::from_folder).
    pub fn from_folder_with(
        folder: impl AsRef<Path>,
        kernels: &KernelsTransform,
    ) -> TractResult<LanguageModel> {
        LanguageModel::from_files(&Files::folder(folder.as_ref()), kernels)
    }

    /// The model of its files.
    pub(crate) fn from_files(
        files: &Files,
        kernels: &KernelsTransform,
    ) -> TractResult<LanguageModel> {
        files.check_model()?;
        let config = ModelConfig::from_files(files)?;
        let ir = ir();
        let proto = files.ir_model(&ir, MODEL)?;
        let model = ir.model_for_proto_model(&proto);
        let mut model = model.with_context(|| format!("in {}", files.place_of(MODEL)))?;
        label_known(&mut model, proto.document.graph())?;
        let model = LanguageModel::from_model_with(model, kernels);
        let mut model = model.with_context(|| format!("in {}", files.place_of(MODEL)))?;
        model.max_positions = config.max_positions();
        Ok(model)
    }

    /// A model as a reader gives it, before it is optimised.
    ///
    /// # Errors
    ///
    /// An input is missing, unknown or of another type, there are no logits or no variables, or tract cannot optimise the model.
    pub fn from_model(model: TypedModel) -> TractResult<LanguageModel> {
        LanguageModel::from_model_with(model, &KernelsTransform::default())
    }

    /// The same with options for the operators.
    ///
    /// # Errors
    ///
    /// Those of [`from_model`](Self::from_model).
    pub fn from_model_with(
        mut model: TypedModel,
        kernels: &KernelsTransform,
    ) -> TractResult<LanguageModel> {
        let inputs = model.inputs.iter().map(|outlet| {
            let fact = model.outlet_fact(*outlet)?;
            let node = &*model.node(outlet.node).name;
            let name = model.outlet_label(*outlet).unwrap_or(node);
            let with_name = |name: &str| INPUTS.iter().find(|(known, ..)| *known == name);
            let known = with_name(name).or_else(|| with_name(node));
            let Some((_, role, rank)) = known else {
                let known = INPUTS.map(|(name, ..)| name).join(", ");
                bail!(
                    "the model has an input {name:?}, but must have no others than {known}: keys and values are \
                     variables, as optimum-cli export openvino writes them"
                );
            };
            ensure!(
                fact.rank() == *rank,
                "input {name:?} has {} axes, but must have {rank}",
                fact.rank()
            );
            // Other types do not have all tokens.
            ensure!(
                [DatumType::I64, DatumType::I32].contains(&fact.datum_type),
                "input {name:?} is of type {:?}, but must be of type I64 or I32",
                fact.datum_type
            );
            Ok(Input { role: *role, datum_type: fact.datum_type })
        });
        let inputs = inputs.collect::<TractResult<Vec<Input>>>()?;
        ensure!(
            inputs.iter().any(|input| input.role == Role::Tokens),
            "the model has no input input_ids, which are the tokens"
        );
        let has_variables = model.nodes().iter().any(|node| node.op.name() == "OpenVinoReadValue");
        ensure!(
            has_variables,
            "the model has no variables, but must keep keys and values in them, as optimum-cli export openvino writes it"
        );
        let logits = match model.outputs.len() {
            0 => bail!("the model has no outputs, but must have one with the logits"),
            1 => 0,
            _ => {
                let is_logits = |outlet: &OutletId| model.outlet_label(*outlet) == Some(LOGITS);
                let found = model.outputs.iter().position(is_logits);
                found.context("the model has several outputs, but none has the name logits")?
            }
        };
        let fact = model.outlet_fact(model.outputs[logits])?;
        ensure!(
            fact.rank() == 3,
            "the logits are of shape {:?}, but must be [rows, tokens, vocabulary]",
            fact.shape
        );
        let vocabulary = fact.shape[2].to_usize().ok();
        keep_last_position(&mut model, logits)?;
        let runnable = kernels.runnable(model)?;
        Ok(LanguageModel { runnable, inputs, logits, vocabulary, max_positions: None })
    }

    /// The model with another number of tokens that a text may have at most.
    pub fn with_max_positions(self, max_positions: usize) -> LanguageModel {
        LanguageModel { max_positions: Some(max_positions), ..self }
    }

    /// How many tokens a text may have, with its prompt, if that is known.
    pub fn max_positions(&self) -> Option<usize> {
        self.max_positions
    }

    /// Whether rows can continue other ones: whether the model has the input `beam_idx`. A beam search needs it.
    pub fn can_reorder(&self) -> bool {
        self.inputs.iter().any(|input| input.role == Role::Rows)
    }

    /// A new text, without tokens.
    ///
    /// # Errors
    ///
    /// An operator cannot make its state.
    pub fn start(&self) -> TractResult<Context> {
        let state = self.runnable.spawn()?;
        Ok(Context { model: self.clone(), state, rows: vec![], logits: vec![] })
    }
}

/// One text or several of the same length, row by row, and what a model knows of them.
///
/// A clone continues by itself: both have the same tokens so far, and share their keys and values until they get others.
#[derive(Debug, Clone)]
pub struct Context {
    model: LanguageModel,
    state: KernelsState,
    rows: Vec<Vec<u32>>,
    logits: Vec<Vec<f32>>,
}

impl Context {
    /// The tokens of a row so far, or none if there is no such row.
    pub fn tokens(&self, row: usize) -> &[u32] {
        self.rows.get(row).map_or(&[], |tokens| tokens)
    }

    /// The logits of what comes next in each row, `[rows][vocabulary]`. There is none before the first tokens.
    pub fn logits(&self) -> &[Vec<f32>] {
        &self.logits
    }

    /// The number of rows. There is none before the first tokens.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The number of tokens in a row.
    pub fn len(&self) -> usize {
        self.tokens(0).len()
    }

    /// Whether there are no tokens yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tokens a row can still get.
    pub fn room(&self) -> usize {
        self.model.max_positions.map_or(usize::MAX, |most| most.saturating_sub(self.len()))
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Adds tokens to the only row, and gives the logits of what comes next.
    ///
    /// # Errors
    ///
    /// There are several rows, or as [`extend_rows`](Self::extend_rows).
    pub fn extend(&mut self, tokens: &[u32]) -> TractResult<&[f32]> {
        self.check_one_row()?;
        Ok(&self.extend_rows(&[0], &[tokens])?[0])
    }

    pub(crate) fn check_one_row(&self) -> TractResult<()> {
        let rows = self.rows();
        ensure!(
            rows <= 1,
            "the context has {rows} rows, but must have one: extend_rows adds to several"
        );
        Ok(())
    }

    /// Adds tokens to rows, and gives the logits of what comes next in each, `[rows][vocabulary]`. Row `i` continues the row
    /// `parents[i]` of before; a row may be continued by several, or none. What the first tokens continue is not looked at.
    ///
    /// # Errors
    ///
    /// There are no tokens, or unknown ones, or not as many in each row; there is no such row; rows do not continue themselves, but
    /// the model has no input `beam_idx`; or there is not so much [`room`](Self::room). The context stays as it was then.
    ///
    /// If the model itself fails, nobody knows what its variables have: the context has no tokens any more then.
    pub fn extend_rows<T: AsRef<[u32]>>(
        &mut self,
        parents: &[usize],
        tokens: &[T],
    ) -> TractResult<&[Vec<f32>]> {
        let tokens: Vec<&[u32]> = tokens.iter().map(AsRef::as_ref).collect();
        let new = tokens.first().map_or(0, |row| row.len());
        ensure!(new > 0, "there are no tokens, but must be at least one");
        ensure!(
            tokens.len() == parents.len() && tokens.iter().all(|row| row.len() == new),
            "the rows have {:?} tokens, but {} rows must have the same number",
            tokens.iter().map(|row| row.len()).collect::<Vec<_>>(),
            parents.len()
        );
        if let Some(vocabulary) = self.model.vocabulary {
            let unknown = tokens.iter().flat_map(|row| *row).find(|it| **it as usize >= vocabulary);
            if let Some(token) = unknown {
                bail!("there is a token {token}, but the model has a vocabulary of {vocabulary}");
            }
        }
        let past = self.len();
        ensure!(
            new <= self.room(),
            "there are {past} tokens, and {new} more, but the model has {} positions at most",
            self.model.max_positions.unwrap_or(usize::MAX)
        );
        let parents = if past > 0 { parents.to_vec() } else { (0..parents.len()).collect() };
        let (rows, before) = (parents.len(), self.rows.len());
        if past > 0 {
            if let Some(missing) = parents.iter().find(|parent| **parent >= before) {
                bail!("a row continues row {missing}, but there are {before} rows");
            }
            ensure!(
                self.model.can_reorder() || parents.iter().copied().eq(0..before),
                "rows continue {parents:?}, but the model has no input beam_idx: they must continue themselves"
            );
        }
        let inputs = self.model.inputs.iter().map(|input| {
            let fill = |columns: usize, value: &dyn Fn(usize, usize) -> i64| {
                let value = |(row, column)| value(row, column);
                tract_ndarray::Array2::from_shape_fn((rows, columns), value).into_tensor()
            };
            let tensor = match input.role {
                Role::Tokens => fill(new, &|row, column| tokens[row][column].into()),
                Role::Mask => fill(past + new, &|_, _| 1),
                Role::Positions => fill(new, &|_, column| (past + column) as i64),
                Role::Rows => {
                    tensor1(&parents.iter().map(|parent| *parent as i64).collect::<Vec<_>>())
                }
            };
            Ok(tensor.cast_to_dt(input.datum_type)?.into_owned().into_tvalue())
        });
        let inputs = inputs.collect::<TractResult<_>>()?;
        match self.run(inputs, rows) {
            Ok(logits) => self.logits = logits,
            Err(error) => {
                *self = self.model.start()?;
                return Err(error);
            }
        }
        let continued =
            |(parent, tokens): (&usize, &&[u32])| [self.tokens(*parent), tokens].concat();
        self.rows = parents.iter().zip(&tokens).map(continued).collect();
        Ok(&self.logits)
    }

    /// Runs the model, and gives the logits of the last position in each row.
    fn run(&mut self, inputs: TVec<TValue>, rows: usize) -> TractResult<Vec<Vec<f32>>> {
        let outputs = self.state.run(inputs)?;
        let logits = outputs[self.model.logits].cast_to::<f32>()?;
        let logits = logits.to_plain_array_view::<f32>()?;
        let logits = logits.into_dimensionality::<tract_ndarray::Ix3>()?;
        let positions = logits.shape()[1];
        ensure!(
            logits.shape()[0] == rows && positions > 0,
            "the logits are of shape {:?}, but must have {rows} rows, and a position",
            logits.shape()
        );
        let last = logits.index_axis(tract_ndarray::Axis(1), positions - 1);
        Ok(last.outer_iter().map(|row| row.to_vec()).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests;
