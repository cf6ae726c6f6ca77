//! A program that uses OpenVINO by the crate `openvino`: all of its safe interface, and mistakes. It prints what it got, as the client in
//! C does: lines that begin with "values" are compared within a tolerance, all others as they are.
//!
//! ```text
//! LD_LIBRARY_PATH=... openvino-client MODELS
//! ```

use std::fmt::Debug;

use openvino::{
    Core, DeviceType, Dimension, ElementType, InferenceError, Layout, Node, PartialShape,
    PropertyKey, Rank, ResizeAlgorithm, RwPropertyKey, SetupError, Shape, Tensor, prepostprocess,
};

type Result<T> = std::result::Result<T, InferenceError>;

/// What is answered: the kind of an error is all that libraries have in common.
fn say<T>(what: &str, result: Result<T>) {
    match result {
        Ok(_) => println!("{what}: Ok"),
        Err(error) => {
            println!("{what}: Err {:?}", error.kind);
        }
    }
}

fn values(what: &str, tensor: &Tensor) -> Result<()> {
    let shape = tensor.get_shape()?;
    println!(
        "tensor {what}: {:?}, {} elements, {} bytes, {:?}",
        tensor.get_element_type()?,
        tensor.get_size()?,
        tensor.get_byte_size()?,
        shape.get_dimensions()
    );
    let data = tensor.get_data::<f32>()?;
    let data = data.iter().map(f32::to_string).collect::<Vec<_>>().join(" ");
    println!("values {what}: {data}");
    Ok(())
}

fn port(what: &str, node: &Node) -> Result<()> {
    let shape = node.get_partial_shape()?;
    let size = |it: &Dimension| (it.get_min() == it.get_max()).then_some(it.get_min());
    let dims: Vec<Option<i64>> = shape.get_dimensions().iter().map(size).collect();
    println!(
        "port {what}: {:?}, {:?}, rank {}, {dims:?}, dynamic {}",
        node.get_name().ok(),
        node.get_element_type()?,
        shape.get_rank().get_max(),
        shape.is_dynamic()
    );
    say(&format!("sizes of {what}"), node.get_shape());
    Ok(())
}

fn show(what: &str, value: impl Debug) {
    println!("{what}: {value:?}");
}

/// Numbers that are the same everywhere.
fn filled(shape: &[i64]) -> Result<Tensor> {
    let mut tensor = Tensor::new(ElementType::F32, &Shape::new(shape)?)?;
    let mut state = 12345u32;
    for value in tensor.get_data_mut::<f32>()? {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        *value = (state >> 16 & 0x7fff) as f32 / 16384. - 1.;
    }
    Ok(tensor)
}

fn integers(numbers: &[i64]) -> Result<Tensor> {
    let mut tensor = Tensor::new(ElementType::I64, &Shape::new(&[1, numbers.len() as i64])?)?;
    tensor.get_data_mut::<i64>()?.copy_from_slice(numbers);
    Ok(tensor)
}

fn shapes() -> Result<()> {
    let shape = Shape::new(&[2, 3])?;
    show("shape", (shape.get_rank(), shape.get_dimensions()));
    say("a negative size", Shape::new(&[2, -3]));
    let dims = [Dimension::new(-1, -1), Dimension::new(2, 5), Dimension::new(4, 4)];
    let partial = PartialShape::new(3, &dims)?;
    show("partial shape", (partial.get_rank().get_max(), partial.is_dynamic()));
    show("of sizes", PartialShape::new_static(2, &[3, 4])?.is_dynamic());
    show("of any rank", PartialShape::new_dynamic(Rank::new(-1, -1), &[])?.is_dynamic());
    say("a range without an end", PartialShape::new(1, &[Dimension::new(0, -1)]));
    say("a range that ends before it begins", PartialShape::new(1, &[Dimension::new(5, 2)]));
    show("dynamic", (Rank::new(0, 0).is_dynamic(), Dimension::new(3, 3).is_dynamic()));
    for layout in ["NCHW", "[N,...,C]", "N...C", "NCHWN", "N C", "[]"] {
        say(&format!("layout {layout}"), Layout::new(layout));
    }
    let mut tensor = Tensor::new(ElementType::F32, &shape)?;
    tensor.get_data_mut::<f32>()?.copy_from_slice(&[1., 2., 3., 4., 5., 6.]);
    values("of a program", &tensor)?;
    for element_type in [
        ElementType::U8,
        ElementType::I64,
        ElementType::F16,
        ElementType::Bf16,
        ElementType::U4,
        ElementType::Boolean,
        ElementType::F64,
    ] {
        show("bytes", (element_type, Tensor::new(element_type, &shape)?.get_byte_size()?));
    }
    Ok(())
}

fn run(models: &str) -> Result<()> {
    let mut core = Core::new().expect("a core");
    show("version", &openvino::version().build_number[..8]);
    show("devices", core.available_devices()?);
    for (device, version) in core.versions("CPU")? {
        show("device", (device, &version.build_number[..8]));
    }
    say("versions of nothing", core.versions("XYZ"));
    core.set_property(&DeviceType::CPU, &RwPropertyKey::HintExecutionMode, "ACCURACY")?;
    core.set_properties(
        &DeviceType::CPU,
        [
            (RwPropertyKey::HintInferencePrecision, "f32"),
            (RwPropertyKey::HintPerformanceMode, "LATENCY"),
        ],
    )?;
    for key in [
        RwPropertyKey::HintExecutionMode,
        RwPropertyKey::HintInferencePrecision,
        RwPropertyKey::HintPerformanceMode,
        RwPropertyKey::HintNumRequests,
        RwPropertyKey::EnableProfiling,
        RwPropertyKey::NumStreams,
        RwPropertyKey::CacheDir,
    ] {
        show("property", (key.clone(), core.get_property(&DeviceType::CPU, &key.into())));
    }
    use PropertyKey::*;
    for key in [
        SupportedProperties,
        AvailableDevices,
        OptimalNumberOfInferRequests,
        RangeForAsyncInferRequests,
        RangeForStreams,
        DeviceFullName,
        DeviceCapabilities,
        ModelName,
        OptimalBatchSize,
        MaxBatchSize,
        Rw(RwPropertyKey::CacheMode),
        Rw(RwPropertyKey::HintModelPriority),
        Rw(RwPropertyKey::DevicePriorities),
        Rw(RwPropertyKey::ForceTbbTerminate),
        Rw(RwPropertyKey::EnableMmap),
        Rw(RwPropertyKey::AutoBatchTimeout),
        Rw(RwPropertyKey::HintSchedulingCoreType),
        Rw(RwPropertyKey::HintEnableCpuPinning),
        Rw(RwPropertyKey::HintEnableHyperThreading),
        Rw(RwPropertyKey::LogLevel),
        Rw(RwPropertyKey::InferenceNumThreads),
    ] {
        say(&format!("property {key:?}"), core.get_property(&DeviceType::CPU, &key));
    }
    for (key, value) in [
        (RwPropertyKey::NumStreams, "many"),
        (RwPropertyKey::NumStreams, "2"),
        (RwPropertyKey::NumStreams, "AUTO"),
        (RwPropertyKey::EnableProfiling, "perhaps"),
        (RwPropertyKey::EnableProfiling, "NO"),
        (RwPropertyKey::CacheMode, "OPTIMIZE_SIZE"),
        (RwPropertyKey::HintModelPriority, "HIGH"),
    ] {
        let set = core.set_property(&DeviceType::CPU, &key, value);
        say(&format!("setting {key:?} to {value}"), set);
    }
    say(
        "a core of no file",
        Core::new_with_config("/nowhere.xml").map_err(|error| match error {
            SetupError::Inference(error) => error,
            SetupError::Loading(error) => panic!("{error}"),
        }),
    );

    // An image.
    let path = |name: &str| format!("{models}/networks/{name}/model.xml");
    let weights = |name: &str| format!("{models}/networks/{name}/model.bin");
    let mut classes = core.read_model_from_file(&path("ocr_cls"), &weights("ocr_cls"))?;
    show("ports", (classes.get_inputs_len()?, classes.get_outputs_len()?, classes.is_dynamic()));
    port("input", &classes.get_input_by_index(0)?)?;
    port("output", &classes.get_output_by_index(0)?)?;
    say("a wrong input", classes.get_input_by_index(3));
    say("a wrong output", classes.get_const_output_by_index(3));
    classes.reshape_single_input(&PartialShape::new_static(4, &[1, 3, 48, 192])?)?;
    port("input of sizes", &classes.get_input_by_index(0)?)?;
    port("output of sizes", &classes.get_output_by_index(0)?)?;
    let mut compiled = core.compile_model(&classes, DeviceType::CPU)?;
    port("compiled input", &compiled.get_input()?)?;
    port("compiled output", &compiled.get_output()?)?;
    let mut request = compiled.create_infer_request()?;
    let image = filled(&[1, 3, 48, 192])?;
    request.set_input_tensor(&image)?;
    request.infer()?;
    values("classes", &request.get_output_tensor()?)?;
    request.infer_async()?;
    request.wait(10_000)?;
    values("classes again", &request.get_output_tensor_by_index(0)?)?;
    let kept = Tensor::new(ElementType::F32, &Shape::new(&[1, 2])?)?;
    request.set_output_tensor(&kept)?;
    request.infer()?;
    values("classes in a tensor of the program", &kept)?;
    say("cancel", request.cancel());
    say("a tensor of another type", request.set_input_tensor(&integers(&[1])?));
    say("a tensor of another shape", request.set_input_tensor(&filled(&[1, 3, 48, 191])?));
    say("a tensor of nothing", request.get_tensor("nothing"));
    say("an input that is not there", request.set_input_tensor_by_index(5, &image));
    say("an output that is not there", request.get_output_tensor_by_index(5));
    say("an output of another type", request.set_output_tensor(&integers(&[1, 2])?));
    say("an output that is not there", request.set_output_tensor_by_index(5, &kept));
    show("runtime model", compiled.get_runtime_model()?.get_inputs_len()?);
    say("a property", compiled.get_property(&SupportedProperties));
    say("no property", compiled.get_property(&MaxBatchSize));
    show("model", compiled.get_property(&ModelName)?);
    let late = compiled.set_property(&RwPropertyKey::NumStreams, "2");
    say("a property of what is compiled", late);

    // Sentences, of open sizes.
    let mut encoder = core.read_model_from_file(&path("modernbert"), "")?;
    let two = PartialShape::new(2, &[Dimension::new(1, 1), Dimension::new(-1, -1)])?;
    let three = PartialShape::new_static(3, &[1, 2, 3])?;
    say("another rank", encoder.reshape_input_by_name("input_ids", &three));
    say("no input", encoder.reshape_input_by_name("nothing", &two));
    say("no number", encoder.reshape_by_port_indexes(&[(7, &two)]));
    encoder.reshape(&[("input_ids", &two), ("attention_mask", &two)])?;
    encoder.reshape_by_port_indexes(&[(0, &two), (1, &two)])?;
    let nodes = [encoder.get_input_by_index(0)?, encoder.get_input_by_index(1)?];
    encoder.reshape_by_ports(&[(&nodes[0], &two), (&nodes[1], &two)])?;
    port("ids", &nodes[0])?;
    let mut compiled = core.compile_model(&encoder, "AUTO:CPU".into())?;
    say("no single input", compiled.get_input());
    show("sizes", (compiled.get_input_size()?, compiled.get_output_size()?));
    port("mask", &compiled.get_input_by_name("attention_mask")?)?;
    port("state", &compiled.get_output_by_name("last_hidden_state")?)?;
    port("first", &compiled.get_input_by_index(0)?)?;
    port("last", &compiled.get_output_by_index(0)?)?;
    say("no name", compiled.get_output_by_name("nothing"));
    say("no number", compiled.get_input_by_index(7));
    let mut request = compiled.create_infer_request()?;
    for ids in [&[5i64, 6, 7][..], &[9, 8, 7, 6, 5, 4]] {
        request.set_tensor("input_ids", &integers(ids)?)?;
        request.set_input_tensor_by_index(1, &integers(&vec![1; ids.len()])?)?;
        request.infer()?;
        values("sentence", &request.get_tensor("last_hidden_state")?)?;
    }
    say("no single input", request.get_input_tensor());

    // From memory.
    let xml = std::fs::read(path("silero")).expect("a model");
    let bin = std::fs::read(weights("silero")).expect("weights");
    let mut tensor = Tensor::new(ElementType::U8, &Shape::new(&[bin.len() as i64])?)?;
    tensor.get_raw_data_mut()?.copy_from_slice(&bin);
    let voice = core.read_model_from_buffer(&xml, Some(&tensor))?;
    drop((tensor, bin));
    say("half of a model", core.read_model_from_buffer(&xml[..xml.len() / 2], None));
    say("no model", core.read_model_from_buffer(b"nothing", None));
    let mut compiled = core.compile_model(&voice, DeviceType::CPU)?;
    let mut request = compiled.create_infer_request()?;
    request.set_tensor("input", &filled(&[1, 576])?)?;
    request.set_tensor("state", &filled(&[2, 1, 128])?)?;
    request.infer()?;
    values("voice", &request.get_tensor("output")?)?;
    // ONNX: an identity of two numbers.
    let onnx = b"\x08\x07\x12\nonnx-wally:j\n*\n\x06inputs\x12\x07outputs\x1a\ridentity_node\"\x08Identity\x12\x0bno-op-modelZ\x16\n\x06inputs\x12\x0c\n\n\x08\x01\x12\x06\n\x00\n\x02\x08\x02b\x17\n\x07outputs\x12\x0c\n\n\x08\x01\x12\x06\n\x00\n\x02\x08\x02B\x02\x10\x0c";
    say("a small model of ONNX", core.read_model_from_buffer(onnx, None));

    say("no file", core.read_model_from_file("/nowhere.xml", ""));
    say("no weights", core.read_model_from_file(&path("silero"), "/nowhere.bin"));
    say("no device", core.compile_model(&voice, "XYZ".into()));
    Ok(())
}

fn preprocess(models: &str) -> Result<()> {
    let mut core = Core::new().expect("a core");
    core.set_property(&DeviceType::CPU, &RwPropertyKey::HintExecutionMode, "ACCURACY")?;
    core.set_property(&DeviceType::CPU, &RwPropertyKey::HintInferencePrecision, "f32")?;
    let path = format!("{models}/networks/ocr_cls/model.xml");
    let mut model = core.read_model_from_file(&path, "")?;
    model.reshape_single_input(&PartialShape::new_static(4, &[1, 3, 48, 192])?)?;
    let pipeline = prepostprocess::Pipeline::new(&model)?;
    let input = pipeline.get_input_info_by_index(0)?;
    let mut tensor = input.get_tensor_info()?;
    tensor.set_layout(Layout::new("NHWC")?)?;
    let from = Tensor::new(ElementType::U8, &Shape::new(&[1, 60, 100, 3])?)?;
    tensor.set_from(&from)?;
    let mut steps = input.get_steps()?;
    steps.convert_element_type(ElementType::F32)?;
    steps.resize(ResizeAlgorithm::Linear)?;
    input.get_model_info()?.set_layout(Layout::new("NCHW")?)?;
    let output = pipeline.get_output_info_by_index(0)?;
    output.get_tensor_info()?.set_element_type(ElementType::F32)?;
    let built = pipeline.build_new_model()?;
    port("input of images", &built.get_input_by_index(0)?)?;
    let mut compiled = core.compile_model(&built, DeviceType::CPU)?;
    let mut request = compiled.create_infer_request()?;
    let mut image = from;
    for (number, byte) in image.get_raw_data_mut()?.iter_mut().enumerate() {
        *byte = (number * 31 % 251) as u8;
    }
    request.set_input_tensor(&image)?;
    request.infer()?;
    values("classes of an image", &request.get_output_tensor()?)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let models = arguments.next().expect("the folder of models");
    let what = || -> Result<()> {
        openvino_sys_load();
        shapes()?;
        run(&models)?;
        preprocess(&models)
    };
    if let Err(error) = what() {
        eprintln!("{error:?}");
        std::process::exit(1);
    }
}

/// Shapes need the library, too, which a core loads.
fn openvino_sys_load() {
    drop(Core::new().expect("the library"));
}
