//! Preprocessing. The numbers are those of OpenVINO 2026.4.1.

use super::*;

/// Gives what it is given: floats of shape 1,3,4,6, which are called `x` and `image`.
const SAME: &CStr = c"<net name='same' version='11'><layers>
<layer id='0' name='x' type='Parameter' version='opset1'><data shape='1,3,4,6' element_type='f32'/><output>
<port id='0' precision='FP32' names='x,image'><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></output></layer>
<layer id='1' name='same' type='Clamp' version='opset1'><data min='-10000' max='10000'/><input>
<port id='0' precision='FP32'><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></input><output>
<port id='1' precision='FP32' names='y'><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></output></layer>
<layer id='2' name='result' type='Result' version='opset1'><input>
<port id='0' precision='FP32'><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></input></layer></layers><edges>
<edge from-layer='0' from-port='0' to-layer='1' to-port='0'/>
<edge from-layer='1' from-port='1' to-layer='2' to-port='0'/></edges></net>";

struct Preprocessing {
    core: *mut ov_core_t,
    model: *mut ov_model_t,
    preprocessor: *mut ov_preprocess_prepostprocessor_t,
    input: *mut ov_preprocess_input_info_t,
    tensor: *mut ov_preprocess_input_tensor_info_t,
    steps: *mut ov_preprocess_preprocess_steps_t,
    of_model: *mut ov_preprocess_input_model_info_t,
    output: *mut ov_preprocess_output_info_t,
    result: *mut ov_preprocess_output_tensor_info_t,
}

impl Preprocessing {
    fn new() -> Preprocessing {
        let core = core();
        let (mut model, mut preprocessor) = (null_mut(), null_mut());
        let (mut input, mut tensor, mut steps) = (null_mut(), null_mut(), null_mut());
        let (mut of_model, mut output, mut result) = (null_mut(), null_mut(), null_mut());
        let (text, len) = (SAME.as_ptr(), SAME.count_bytes());
        ok!(ov_core_read_model_from_memory_buffer(core, text, len, null(), &mut model));
        ok!(ov_preprocess_prepostprocessor_create(model, &mut preprocessor));
        ok!(ov_preprocess_prepostprocessor_get_input_info(preprocessor, &mut input));
        ok!(ov_preprocess_input_info_get_tensor_info(input, &mut tensor));
        ok!(ov_preprocess_input_info_get_preprocess_steps(input, &mut steps));
        ok!(ov_preprocess_input_info_get_model_info(input, &mut of_model));
        ok!(ov_preprocess_prepostprocessor_get_output_info(preprocessor, &mut output));
        ok!(ov_preprocess_output_info_get_tensor_info(output, &mut result));
        Preprocessing { core, model, preprocessor, input, tensor, steps, of_model, output, result }
    }

    fn layouts(&self, tensor: &CStr, of_model: &CStr) {
        with_layout(tensor, |layout| {
            ok!(ov_preprocess_input_tensor_info_set_layout(self.tensor, layout));
        });
        with_layout(of_model, |layout| {
            ok!(ov_preprocess_input_model_info_set_layout(self.of_model, layout));
        });
    }

    fn from(&self, element_type: u32, sizes: [i64; 4]) {
        let mut from = null_mut();
        ok!(ov_tensor_create(element_type, shape(&mut sizes.clone()), &mut from));
        ok!(ov_preprocess_input_tensor_info_set_from(self.tensor, from));
        c!(ov_tensor_free(from));
    }

    fn build(&self) {
        let mut built = null_mut();
        ok!(ov_preprocess_prepostprocessor_build(self.preprocessor, &mut built));
        c!(ov_model_free(built));
    }

    fn reshape(&self, sizes: [i64; 4]) -> ov_status_e {
        let mut partial =
            ov_partial_shape_t { rank: ov_dimension_t { min: 0, max: 0 }, dims: null_mut() };
        ok!(ov_shape_to_partial_shape(shape(&mut sizes.clone()), &mut partial));
        let status = c!(ov_model_reshape_single_input(self.model, partial));
        c!(ov_partial_shape_free(&mut partial));
        status
    }

    /// The names of the inputs, or `None` for each that has none, and their shapes.
    fn inputs(&self) -> Vec<(Option<String>, Vec<i64>)> {
        let mut count = 0;
        ok!(ov_model_inputs_size(self.model, &mut count));
        let input = |number| {
            let (mut port, mut name) = (null_mut(), null_mut());
            let mut sizes = ov_shape_t { rank: 0, dims: null_mut() };
            ok!(ov_model_const_input_by_index(self.model, number, &mut port));
            let status = c!(ov_port_get_any_name(port, &mut name));
            ok!(ov_const_port_get_shape(port, &mut sizes));
            // SAFETY: the library gave so many.
            let dims = unsafe { std::slice::from_raw_parts(sizes.dims, sizes.rank as usize) };
            let found = ((status == OK).then(|| given(name)), dims.to_vec());
            ok!(ov_shape_free(&mut sizes));
            c!(ov_output_const_port_free(port));
            found
        };
        (0..count).map(input).collect()
    }

    /// The output for inputs of numbers in an order: of the model, and of what is read of its export.
    fn run(&self) -> Vec<f64> {
        let (mut compiled, mut imported) = (null_mut(), null_mut());
        let cpu = c"CPU".as_ptr();
        ok!(ov_core_compile_model_props(self.core, self.model, cpu, 0, null(), &mut compiled));
        assert_eq!(import(self.core, &exported(compiled), &mut imported), OK, "{}", last());
        let values = self.run_compiled(compiled);
        assert_eq!(self.run_compiled(imported), values);
        c!(ov_compiled_model_free(imported));
        c!(ov_compiled_model_free(compiled));
        values
    }

    fn run_compiled(&self, compiled: *mut ov_compiled_model_t) -> Vec<f64> {
        let request = request(compiled);
        for number in 0..self.inputs().len() {
            let tensor = tensor_of(request, ov_infer_request_get_input_tensor_by_index, number);
            let (mut element_type, mut count, mut data) = (0, 0, null_mut());
            ok!(ov_tensor_get_element_type(tensor, &mut element_type));
            ok!(ov_tensor_get_size(tensor, &mut count));
            ok!(ov_tensor_data(tensor, &mut data));
            for at in 0..count {
                let value = (at * 31 % 251) as u8;
                // SAFETY: the tensor has so many elements of this type.
                unsafe {
                    match element_type {
                        U8 => data.cast::<u8>().add(at).write(value),
                        _ => data.cast::<f32>().add(at).write(value.into()),
                    }
                }
            }
            c!(ov_tensor_free(tensor));
        }
        ok!(ov_infer_request_infer(request));
        let tensor = tensor_of(request, ov_infer_request_get_output_tensor_by_index, 0);
        let (mut element_type, mut count, mut data) = (0, 0, null_mut());
        ok!(ov_tensor_get_element_type(tensor, &mut element_type));
        ok!(ov_tensor_get_size(tensor, &mut count));
        ok!(ov_tensor_data(tensor, &mut data));
        // SAFETY: the tensor has so many elements of this type.
        let value = |at| unsafe {
            match element_type {
                U8 => f64::from(data.cast::<u8>().add(at).read()),
                _ => f64::from(data.cast::<f32>().add(at).read()),
            }
        };
        let values = (0..count).map(value).collect();
        c!(ov_tensor_free(tensor));
        c!(ov_infer_request_free(request));
        values
    }

    /// The output begins with these values, and has this sum, and this one with each value times its number.
    fn gives(self, what: &str, first: [f64; 6], sum: f64, weighted: f64) {
        let values = self.run();
        let close =
            |value: f64, expected: f64| (value - expected).abs() <= 1e-5 * expected.abs().max(10.);
        let sums = values.iter().enumerate().fold((0., 0.), |(sum, weighted), (at, value)| {
            (sum + value, weighted + value * (at + 1) as f64)
        });
        let same = values.iter().zip(first).all(|(value, expected)| close(*value, expected));
        assert!(
            same && close(sums.0, sum) && close(sums.1, weighted),
            "{what}: sums {sums:?}, not {sum}, {weighted}; {first:?} in {values:?}"
        );
    }
}

impl Drop for Preprocessing {
    fn drop(&mut self) {
        c!(ov_preprocess_output_tensor_info_free(self.result));
        c!(ov_preprocess_output_info_free(self.output));
        c!(ov_preprocess_input_model_info_free(self.of_model));
        c!(ov_preprocess_preprocess_steps_free(self.steps));
        c!(ov_preprocess_input_tensor_info_free(self.tensor));
        c!(ov_preprocess_input_info_free(self.input));
        c!(ov_preprocess_prepostprocessor_free(self.preprocessor));
        c!(ov_model_free(self.model));
        c!(ov_core_free(self.core));
    }
}

fn with_layout(text: &CStr, say: impl FnOnce(*mut ov_layout_t)) {
    let mut layout = null_mut();
    ok!(ov_layout_create(text.as_ptr(), &mut layout));
    say(layout);
    c!(ov_layout_free(layout));
}

fn named(name: &str, sizes: [i64; 4]) -> (Option<String>, Vec<i64>) {
    (Some(name.into()), sizes.into())
}

#[test]
fn numbers() {
    let _alone = alone();
    let it = Preprocessing::new();
    let (means, scales) = ([10f32, 20., 30.], [2f32, 4., 8.]);
    ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    with_layout(c"NHWC", |layout| {
        ok!(ov_preprocess_input_tensor_info_set_layout(it.tensor, layout));
    });
    with_layout(c"NCHW", |layout| {
        ok!(ov_preprocess_preprocess_steps_convert_layout(it.steps, layout));
    });
    ok!(ov_preprocess_preprocess_steps_convert_element_type(it.steps, F32));
    ok!(ov_preprocess_preprocess_steps_mean(it.steps, 100.));
    ok!(ov_preprocess_preprocess_steps_scale(it.steps, 4.));
    ok!(ov_preprocess_preprocess_steps_mean_multi_channels(it.steps, means.as_ptr(), 3));
    ok!(ov_preprocess_preprocess_steps_scale_multi_channels(it.steps, scales.as_ptr(), 3));
    ok!(ov_preprocess_input_tensor_info_set_memory_type(it.tensor, c"any".as_ptr()));
    it.build();
    assert_eq!(it.inputs(), [named("image", [1, 4, 6, 3])]);
    it.gives("numbers", [-17.5, -5.875, 5.75, -14., -2.375, 9.25], -214.1875, -7800.1562);
}

#[test]
fn types_and_layouts() {
    let _alone = alone();
    let it = Preprocessing::new();
    it.from(U8, [1, 4, 6, 3]);
    it.layouts(c"NHWC", c"NCHW");
    ok!(ov_preprocess_preprocess_steps_reverse_channels(it.steps));
    ok!(ov_preprocess_output_set_element_type(it.result, U8));
    it.build();
    let (mut port, mut element_type) = (null_mut(), 0);
    ok!(ov_model_const_output(it.model, &mut port));
    ok!(ov_port_get_element_type(port, &mut element_type));
    assert_eq!(element_type, U8);
    c!(ov_output_const_port_free(port));
    // The model has all its names.
    ok!(ov_model_const_input_by_name(it.model, c"x".as_ptr(), &mut port));
    ok!(ov_port_get_element_type(port, &mut element_type));
    assert_eq!(element_type, U8);
    c!(ov_output_const_port_free(port));
    it.gives("types and layouts", [62., 155., 248., 90., 183., 25.], 8956., 321625.);
}

#[test]
fn resize() {
    let _alone = alone();
    for (algorithm, element_type, first, sum, weighted) in [
        (0, U8, [55., 124., 83., 152., 111., 180.], 8994., 332407.),
        (
            0,
            F32,
            [54.7499962, 123.656258, 82.7499924, 151.65625, 110.749992, 179.656265],
            8992.3126,
            332320.9416,
        ),
        (
            1,
            F32,
            [50.0432663, 134.430435, 70.9186707, 162.430435, 98.9186707, 183.305847],
            8993.8079,
            332440.8157,
        ),
        (2, U8, [0., 186., 28., 214., 56., 242.], 8757., 317688.),
        (2, F32, [0., 186., 28., 214., 56., 242.], 8757., 317688.),
    ] {
        let it = Preprocessing::new();
        ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, element_type));
        ok!(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 7, 9));
        it.layouts(c"NHWC", c"NCHW");
        ok!(ov_preprocess_preprocess_steps_resize(it.steps, algorithm));
        it.build();
        assert_eq!(it.inputs(), [named("image", [1, 7, 9, 3])]);
        it.gives(&format!("resize {algorithm} of {element_type}"), first, sum, weighted);
    }
}

#[test]
fn crop_and_pad() {
    let _alone = alone();
    let it = Preprocessing::new();
    it.from(F32, [1, 3, 6, 9]);
    let (mut begin, mut end) = ([0, 0, 1, 2], [1, 3, 5, -1]);
    ok!(ov_preprocess_preprocess_steps_crop(it.steps, begin.as_mut_ptr(), 4, end.as_mut_ptr(), 4));
    it.build();
    it.gives("crop", [90., 121., 152., 183., 214., 245.], 9108., 310162.);
    for (mode, first, sum, weighted) in [
        (0, [7., 7., 7., 7., 7., 7.], 3666., 150506.),
        (1, [0., 0., 0., 31., 62., 62.], 7643., 318041.),
        (2, [155., 124., 93., 124., 155., 124.], 9559., 355254.),
        (3, [31., 0., 0., 31., 62., 62.], 7764., 313872.),
    ] {
        let it = Preprocessing::new();
        it.from(F32, [1, 3, 3, 3]);
        let (begin, end) = ([0, 0, 1, 2], [0, 0, 0, 1]);
        let (begin, end) = (begin.as_ptr(), end.as_ptr());
        ok!(ov_preprocess_preprocess_steps_pad(it.steps, begin, 4, end, 4, 7., mode));
        it.build();
        it.gives(&format!("pad {mode}"), first, sum, weighted);
    }
}

#[test]
fn colors() {
    let _alone = alone();
    let nv12 = || vec![named("image/y", [1, 4, 6, 1]), named("image/uv", [1, 2, 3, 2])];
    let i420 = || {
        let plane = |name| named(name, [1, 2, 3, 1]);
        vec![named("image/y", [1, 4, 6, 1]), plane("image/u"), plane("image/v")]
    };
    let single = |rows, channels| vec![named("image", [1, rows, 6, channels])];
    let (rgb, bgr) = (5, 6);
    let names = [c"y".as_ptr(), c"u".as_ptr(), c"v".as_ptr()];
    for (from, to, inputs, first, sum, weighted) in [
        (1, bgr, single(6, 1), [211., 248., 0., 0., 99., 136.], 9105., 311943.),
        (2, rgb, nv12(), [0., 0., 0., 34., 169., 205.], 8598., 331725.),
        (3, rgb, single(6, 1), [60., 96., 181., 217., 255., 255.], 8947., 316391.),
        (4, bgr, i420(), [0., 0., 0., 0., 0., 29.], 7830., 306309.),
        (rgb, rgb, single(4, 3), [0., 93., 186., 28., 121., 214.], 8956., 332809.),
        (bgr, rgb, single(4, 3), [62., 155., 248., 90., 183., 25.], 8956., 321625.),
        (8, bgr, single(4, 4), [62., 186., 59., 183., 56., 180.], 8520., 342632.),
        (9, rgb, single(4, 4), [62., 186., 59., 183., 56., 180.], 8520., 342632.),
    ] {
        let it = Preprocessing::new();
        let tensor = it.tensor;
        ok!(ov_preprocess_input_tensor_info_set_element_type(tensor, U8));
        match from {
            2 => {
                // Its arguments, as C passes them.
                type Variadic = unsafe extern "C" fn(
                    *mut ov_preprocess_input_tensor_info_t,
                    u32,
                    usize,
                    ...
                ) -> ov_status_e;
                // SAFETY: it is such a function.
                let set = unsafe {
                    std::mem::transmute::<*const (), Variadic>(
                        ov_preprocess_input_tensor_info_set_color_format_with_subname as *const (),
                    )
                };
                ok!(set(tensor, 2, 2usize, c"y".as_ptr(), c"uv".as_ptr()));
            }
            4 => ok!(ov_preprocess_input_tensor_info_set_color_format_with_subnames(
                tensor,
                4,
                3,
                names.as_ptr()
            )),
            _ => ok!(ov_preprocess_input_tensor_info_set_color_format(tensor, from)),
        }
        ok!(ov_preprocess_preprocess_steps_convert_color(it.steps, to));
        with_layout(c"NCHW", |layout| {
            ok!(ov_preprocess_input_model_info_set_layout(it.of_model, layout));
        });
        it.build();
        assert_eq!(it.inputs(), inputs);
        it.gives(&format!("from colors {from} to {to}"), first, sum, weighted);
    }
    let it = Preprocessing::new();
    ok!(ov_preprocess_input_tensor_info_set_color_format(it.tensor, 2));
    ok!(ov_preprocess_preprocess_steps_convert_color(it.steps, bgr));
    with_layout(c"NCHW", |layout| {
        ok!(ov_preprocess_input_model_info_set_layout(it.of_model, layout));
    });
    it.build();
    assert_eq!(it.inputs(), [(None, vec![1, 4, 6, 1]), (None, vec![1, 2, 3, 2])]);
    it.gives("no names", [0., 0., 0., 0., 117.640007, 153.723999], 8597.5752, 323279.0575);
}

#[test]
fn other_sizes_afterwards() {
    let _alone = alone();
    let it = Preprocessing::new();
    ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    ok!(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 7, 9));
    it.layouts(c"NHWC", c"NCHW");
    ok!(ov_preprocess_preprocess_steps_resize(it.steps, 0));
    ok!(ov_preprocess_preprocess_steps_convert_element_type(it.steps, F32));
    ok!(ov_preprocess_preprocess_steps_mean_multi_channels(it.steps, [0.; 3].as_ptr(), 3));
    it.build();
    // Three colors are three.
    assert_ne!(it.reshape([2, 5, 8, 4]), OK);
    assert_eq!(it.inputs(), [named("image", [1, 7, 9, 3])]);
    assert_eq!(it.reshape([2, 5, 8, 3]), OK);
    assert_eq!(it.inputs(), [named("image", [2, 5, 8, 3])]);
    it.gives("an image", [41., 138., 53., 135., 134., 132.], 17899., 1304069.);

    let it = Preprocessing::new();
    it.layouts(c"NHWC", c"NCHW");
    it.build();
    assert_eq!(it.reshape([1, 2, 4, 3]), OK);
    let (mut second, mut input, mut tensor) = (null_mut(), null_mut(), null_mut());
    ok!(ov_preprocess_prepostprocessor_create(it.model, &mut second));
    ok!(ov_preprocess_prepostprocessor_get_input_info_by_index(second, 0, &mut input));
    ok!(ov_preprocess_input_info_get_tensor_info(input, &mut tensor));
    ok!(ov_preprocess_input_tensor_info_set_element_type(tensor, U8));
    let mut built = null_mut();
    ok!(ov_preprocess_prepostprocessor_build(second, &mut built));
    c!(ov_model_free(built));
    c!(ov_preprocess_input_tensor_info_free(tensor));
    c!(ov_preprocess_input_info_free(input));
    c!(ov_preprocess_prepostprocessor_free(second));
    assert_eq!(it.inputs(), [named("image", [1, 2, 4, 3])]);
    it.gives("the model", [0., 93., 186., 28., 121., 214.], 3034., 41061.);

    // An image in planes.
    let it = Preprocessing::new();
    let (names, rgb) = ([c"y".as_ptr(), c"uv".as_ptr()], 5);
    let names = names.as_ptr();
    ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    ok!(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 8, 8));
    ok!(ov_preprocess_input_tensor_info_set_color_format_with_subnames(it.tensor, 2, 2, names));
    ok!(ov_preprocess_preprocess_steps_convert_color(it.steps, rgb));
    ok!(ov_preprocess_preprocess_steps_resize(it.steps, 0));
    with_layout(c"NCHW", |layout| {
        ok!(ov_preprocess_input_model_info_set_layout(it.of_model, layout));
    });
    it.build();
    let planes = || vec![named("image/y", [1, 6, 10, 1]), named("image/uv", [1, 3, 5, 2])];
    let reshape = |luma: [i64; 4], chroma: [i64; 4]| {
        let to_partial = |sizes: [i64; 4]| {
            let rank = ov_dimension_t { min: 0, max: 0 };
            let mut partial = ov_partial_shape_t { rank, dims: null_mut() };
            ok!(ov_shape_to_partial_shape(shape(&mut sizes.clone()), &mut partial));
            partial
        };
        let mut shapes = [to_partial(luma), to_partial(chroma)];
        let (indexes, of) = ([0, 1], shapes.as_ptr());
        let status = c!(ov_model_reshape_by_port_indexes(it.model, indexes.as_ptr(), of, 2));
        shapes.iter_mut().for_each(|partial| c!(ov_partial_shape_free(partial)));
        status
    };
    assert_eq!(reshape([1, 6, 10, 1], [1, 3, 4, 2]), GENERAL_ERROR);
    assert_eq!(reshape([1, 6, 10, 1], [1, 3, 5, 2]), OK);
    assert_eq!(it.inputs(), planes());
    it.gives("planes", [0., 16., 141., 230., 230., 28.], 9207., 347413.);

    // Between what is said and what is built.
    let it = Preprocessing::new();
    it.layouts(c"NHWC", c"NCHW");
    assert_eq!(it.reshape([1, 3, 8, 8]), OK);
    it.build();
    assert_eq!(it.inputs(), [named("image", [1, 8, 8, 3])]);
}

#[test]
fn mistakes() {
    let _alone = alone();
    let it = Preprocessing::new();
    let (preprocessor, tensor, steps) = (it.preprocessor, it.tensor, it.steps);
    let (mut input, mut output, mut built) = (null_mut(), null_mut(), null_mut());
    let (numbers, mut places) = ([1f32, 2., 3.], [0, 0, 1, 1]);
    let places = places.as_mut_ptr();
    ok!(ov_preprocess_prepostprocessor_get_input_info_by_name(
        preprocessor,
        c"x".as_ptr(),
        &mut input
    ));
    c!(ov_preprocess_input_info_free(input));
    for (index, name, words) in [(3, c"y", "there is no input"), (1, c"z", "there is no input")] {
        fails!(
            GENERAL_ERROR,
            words,
            ov_preprocess_prepostprocessor_get_input_info_by_index(preprocessor, index, &mut input)
        );
        fails!(
            GENERAL_ERROR,
            words,
            ov_preprocess_prepostprocessor_get_input_info_by_name(
                preprocessor,
                name.as_ptr(),
                &mut input
            )
        );
    }
    fails!(
        GENERAL_ERROR,
        "there is no output 1",
        ov_preprocess_prepostprocessor_get_output_info_by_index(preprocessor, 1, &mut output)
    );
    fails!(
        GENERAL_ERROR,
        "there is no output",
        ov_preprocess_prepostprocessor_get_output_info_by_name(
            preprocessor,
            c"x".as_ptr(),
            &mut output
        )
    );
    ok!(ov_preprocess_prepostprocessor_get_output_info_by_index(preprocessor, 0, &mut output));
    c!(ov_preprocess_output_info_free(output));
    ok!(ov_preprocess_prepostprocessor_get_output_info_by_name(
        preprocessor,
        c"y".as_ptr(),
        &mut output
    ));
    c!(ov_preprocess_output_info_free(output));
    macro_rules! refused {
        ($($status:ident: $call:expr;)*) => {
            $(assert_eq!(c!($call), $status, "{}", stringify!($call));)*
        };
    }
    refused! {
        UNKNOW_EXCEPTION: ov_preprocess_preprocess_steps_resize(steps, 7);
        UNKNOW_EXCEPTION: ov_preprocess_preprocess_steps_pad(steps, places, 4, places, 4, 0., 9);
        INVALID_C_PARAM: ov_preprocess_preprocess_steps_mean_multi_channels(steps, numbers.as_ptr(), 0);
        INVALID_C_PARAM: ov_preprocess_preprocess_steps_scale_multi_channels(steps, numbers.as_ptr(), -1);
        GENERAL_ERROR: ov_preprocess_preprocess_steps_crop(steps, places, 4, places, 3);
        UNKNOW_EXCEPTION: ov_preprocess_input_tensor_info_set_element_type(tensor, 99);
        UNKNOW_EXCEPTION: ov_preprocess_preprocess_steps_convert_element_type(steps, 99);
        UNKNOW_EXCEPTION: ov_preprocess_output_set_element_type(it.result, 99);
        GENERAL_ERROR: ov_preprocess_input_tensor_info_set_color_format_with_subnames(tensor, 2, 1, [c"y".as_ptr()].as_ptr());
        GENERAL_ERROR: ov_preprocess_input_tensor_info_set_color_format_with_subnames(tensor, 5, 1, [c"y".as_ptr()].as_ptr());
    }
    it.from(F32, [1, 3, 4, 6]);
    fails!(
        GENERAL_ERROR,
        "is set already",
        ov_preprocess_input_tensor_info_set_spatial_static_shape(tensor, 4, 6)
    );
    ok!(ov_preprocess_input_tensor_info_set_element_type(tensor, U8));
    it.build();
    fails!(
        GENERAL_ERROR,
        "create another one",
        ov_preprocess_prepostprocessor_build(preprocessor, &mut built)
    );
    // What it belongs to is there no more.
    c!(ov_preprocess_prepostprocessor_free(preprocessor));
    c!(ov_preprocess_prepostprocessor_free(preprocessor));
    fails!(GENERAL_ERROR, "was freed", ov_preprocess_preprocess_steps_mean(steps, 1.));
    fails!(GENERAL_ERROR, "was freed", ov_preprocess_output_set_element_type(it.result, F32));
    fails!(
        GENERAL_ERROR,
        "was freed",
        ov_preprocess_input_info_get_preprocess_steps(it.input, &mut null_mut())
    );
    fails!(
        INVALID_C_PARAM,
        "it was freed",
        ov_preprocess_prepostprocessor_build(preprocessor, &mut built)
    );
    fails!(
        INVALID_C_PARAM,
        "it is to steps",
        ov_preprocess_input_tensor_info_set_color_format(steps.cast(), 5)
    );

    // What does not fit is said when the model is built, which stays as it was.
    let it = Preprocessing::new();
    ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, 0));
    fails!(
        GENERAL_ERROR,
        "is not known",
        ov_preprocess_prepostprocessor_build(it.preprocessor, &mut built)
    );
    ok!(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    ok!(ov_preprocess_preprocess_steps_mean(it.steps, 1.));
    fails!(
        GENERAL_ERROR,
        "mean",
        ov_preprocess_prepostprocessor_build(it.preprocessor, &mut built)
    );
    assert_eq!(it.inputs(), [named("image", [1, 3, 4, 6])]);
    assert_eq!(it.run()[..3], [0., 31., 62.]);
}

/// Everything is null.
#[test]
fn nulls() {
    let _alone = alone();
    let it = Preprocessing::new();
    macro_rules! refused {
        ($($call:expr;)*) => {
            $(assert_eq!(c!($call), INVALID_C_PARAM, "{}", stringify!($call));)*
        };
    }
    let (tensor, steps, preprocessor) = (it.tensor, it.steps, it.preprocessor);
    refused! {
        ov_preprocess_prepostprocessor_create(null(), &mut null_mut());
        ov_preprocess_prepostprocessor_create(it.model, null_mut());
        ov_preprocess_prepostprocessor_get_input_info(null(), &mut null_mut());
        ov_preprocess_prepostprocessor_get_input_info(preprocessor, null_mut());
        ov_preprocess_prepostprocessor_get_input_info_by_name(null(), c"x".as_ptr(), &mut null_mut());
        ov_preprocess_prepostprocessor_get_input_info_by_name(preprocessor, null(), &mut null_mut());
        ov_preprocess_prepostprocessor_get_input_info_by_name(preprocessor, c"x".as_ptr(), null_mut());
        ov_preprocess_prepostprocessor_get_input_info_by_index(null(), 0, &mut null_mut());
        ov_preprocess_prepostprocessor_get_input_info_by_index(preprocessor, 0, null_mut());
        ov_preprocess_input_info_get_tensor_info(null(), &mut null_mut());
        ov_preprocess_input_info_get_tensor_info(it.input, null_mut());
        ov_preprocess_input_info_get_preprocess_steps(null(), &mut null_mut());
        ov_preprocess_input_info_get_preprocess_steps(it.input, null_mut());
        ov_preprocess_input_info_get_model_info(null(), &mut null_mut());
        ov_preprocess_input_info_get_model_info(it.input, null_mut());
        ov_preprocess_preprocess_steps_resize(null_mut(), 0);
        ov_preprocess_preprocess_steps_scale(null_mut(), 1.);
        ov_preprocess_preprocess_steps_scale_multi_channels(null_mut(), [1.].as_ptr(), 1);
        ov_preprocess_preprocess_steps_scale_multi_channels(steps, null(), 1);
        ov_preprocess_preprocess_steps_mean(null_mut(), 1.);
        ov_preprocess_preprocess_steps_mean_multi_channels(null_mut(), [1.].as_ptr(), 1);
        ov_preprocess_preprocess_steps_mean_multi_channels(steps, null(), 1);
        ov_preprocess_preprocess_steps_crop(null_mut(), [1].as_mut_ptr(), 1, [1].as_mut_ptr(), 1);
        ov_preprocess_preprocess_steps_crop(steps, null_mut(), 1, [1].as_mut_ptr(), 1);
        ov_preprocess_preprocess_steps_crop(steps, [1].as_mut_ptr(), 1, null_mut(), 1);
        ov_preprocess_preprocess_steps_convert_layout(null_mut(), null_mut());
        ov_preprocess_preprocess_steps_convert_layout(steps, null_mut());
        ov_preprocess_preprocess_steps_reverse_channels(null_mut());
        ov_preprocess_input_tensor_info_set_element_type(null_mut(), F32);
        ov_preprocess_input_tensor_info_set_color_format(null_mut(), 5);
        ov_preprocess_input_tensor_info_set_color_format_with_subnames(null_mut(), 5, 0, null());
        ov_preprocess_input_tensor_info_set_color_format_with_subnames(tensor, 2, 2, null());
        ov_preprocess_input_tensor_info_set_color_format_with_subnames(tensor, 2, 2, [null(), null()].as_ptr());
        ov_preprocess_input_tensor_info_set_spatial_static_shape(null_mut(), 1, 1);
        ov_preprocess_input_tensor_info_set_memory_type(null_mut(), c"x".as_ptr());
        ov_preprocess_input_tensor_info_set_memory_type(tensor, null());
        ov_preprocess_preprocess_steps_convert_element_type(null_mut(), F32);
        ov_preprocess_preprocess_steps_convert_color(null_mut(), 5);
        ov_preprocess_input_tensor_info_set_from(null_mut(), null());
        ov_preprocess_input_tensor_info_set_from(tensor, null());
        ov_preprocess_input_tensor_info_set_layout(null_mut(), null_mut());
        ov_preprocess_input_tensor_info_set_layout(tensor, null_mut());
        ov_preprocess_prepostprocessor_get_output_info(null(), &mut null_mut());
        ov_preprocess_prepostprocessor_get_output_info(preprocessor, null_mut());
        ov_preprocess_prepostprocessor_get_output_info_by_index(null(), 0, &mut null_mut());
        ov_preprocess_prepostprocessor_get_output_info_by_name(preprocessor, null(), &mut null_mut());
        ov_preprocess_output_info_get_tensor_info(null(), &mut null_mut());
        ov_preprocess_output_info_get_tensor_info(it.output, null_mut());
        ov_preprocess_output_set_element_type(null_mut(), F32);
        ov_preprocess_input_model_info_set_layout(null_mut(), null_mut());
        ov_preprocess_input_model_info_set_layout(it.of_model, null_mut());
        ov_preprocess_prepostprocessor_build(null(), &mut null_mut());
        ov_preprocess_prepostprocessor_build(preprocessor, null_mut());
        ov_preprocess_preprocess_steps_pad(null(), [1].as_ptr(), 1, [1].as_ptr(), 1, 0., 0);
        ov_preprocess_preprocess_steps_pad(steps, null(), 1, [1].as_ptr(), 1, 0., 0);
        ov_preprocess_preprocess_steps_pad(steps, [1].as_ptr(), 1, null(), 1, 0., 0);
    }
    let count = handles::count();
    c!(ov_preprocess_prepostprocessor_free(null_mut()));
    c!(ov_preprocess_input_info_free(null_mut()));
    c!(ov_preprocess_input_tensor_info_free(null_mut()));
    c!(ov_preprocess_input_model_info_free(null_mut()));
    c!(ov_preprocess_preprocess_steps_free(null_mut()));
    c!(ov_preprocess_output_info_free(null_mut()));
    c!(ov_preprocess_output_tensor_info_free(null_mut()));
    assert_eq!(handles::count(), count);
    drop(it);
    assert_eq!(handles::count(), count - 9);
}
