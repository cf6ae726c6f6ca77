/* A program of C, compiled against OpenVINO's own headers. It runs models as programs do and makes mistakes as they do, and prints what
 * it got: lines that begin with "values" are compared within a tolerance, all others as they are.
 *
 *     client MODELS
 */

#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* what, ov_status_e status) {
    const char* text = ov_get_last_err_msg();
    fprintf(stderr, "%s: status %d: %s\n", what, status, text ? text : "");
    exit(1);
}

/* What must succeed. */
#define DO(call)                                  \
    do {                                          \
        ov_status_e status_ = (call);             \
        if (status_ != OK) fail(#call, status_);  \
    } while (0)

/* What is answered. */
#define SAY(what, call) printf("status %s: %d\n", what, (int)(call))

static void print_tensor(const char* what, const ov_tensor_t* tensor) {
    ov_shape_t shape = {0, NULL};
    ov_element_type_e type;
    size_t count, bytes;
    void* data;
    DO(ov_tensor_get_shape(tensor, &shape));
    DO(ov_tensor_get_element_type(tensor, &type));
    DO(ov_tensor_get_size(tensor, &count));
    DO(ov_tensor_get_byte_size(tensor, &bytes));
    DO(ov_tensor_data(tensor, &data));
    printf("tensor %s: type %d, %zu elements in %zu bytes, shape", what, (int)type, count, bytes);
    for (int64_t axis = 0; axis < shape.rank; axis++) printf(" %lld", (long long)shape.dims[axis]);
    printf("\nvalues %s:", what);
    for (size_t it = 0; type == F32 && it < count && it < 4096; it++) printf(" %.9g", ((const float*)data)[it]);
    printf("\n");
    ov_shape_free(&shape);
}

static void print_port(const char* what, const ov_output_const_port_t* port) {
    char* name = NULL;
    ov_element_type_e type;
    ov_partial_shape_t shape;
    ov_shape_t sizes = {0, NULL};
    SAY("a name", ov_port_get_any_name(port, &name));
    DO(ov_port_get_element_type(port, &type));
    DO(ov_port_get_partial_shape(port, &shape));
    printf("port %s: %s, type %d, rank %lld:", what, name ? name : "no name", (int)type, (long long)shape.rank.max);
    /* Where a range of an output begins is for each library to find out. */
    for (int64_t axis = 0; axis < shape.rank.max; axis++) {
        ov_dimension_t dim = shape.dims[axis];
        if (dim.min == dim.max) printf(" %lld", (long long)dim.min);
        else printf(" ?");
    }
    printf(", dynamic %d\n", ov_partial_shape_is_dynamic(shape));
    SAY("its sizes", ov_const_port_get_shape(port, &sizes));
    ov_shape_free(&sizes);
    ov_partial_shape_free(&shape);
    ov_free(name);
}

/* Numbers that are the same everywhere. */
static void fill(float* data, size_t count) {
    unsigned state = 12345;
    for (size_t it = 0; it < count; it++) {
        state = state * 1103515245u + 12345u;
        data[it] = (float)(state >> 16 & 0x7fff) / 16384.0f - 1.0f;
    }
}

struct ended {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int times;
};

static void on_end(void* argument) {
    struct ended* ended = argument;
    pthread_mutex_lock(&ended->lock);
    ended->times++;
    pthread_cond_signal(&ended->changed);
    pthread_mutex_unlock(&ended->lock);
}

static ov_core_t* exact_core(void) {
    ov_core_t* core;
    DO(ov_core_create(&core));
    /* OpenVINO rounds by itself otherwise. */
    DO(ov_core_set_property(core, "CPU", ov_property_key_hint_execution_mode, "ACCURACY"));
    DO(ov_core_set_property(core, "CPU", ov_property_key_hint_inference_precision, "f32"));
    return core;
}

/* A model with fixed sizes: an image is classified. */
static void images(const ov_core_t* core, const char* folder) {
    char path[1024];
    snprintf(path, sizeof path, "%s/networks/ocr_cls/model.xml", folder);
    ov_model_t* model;
    DO(ov_core_read_model(core, path, NULL, &model));
    ov_output_const_port_t *input, *output;
    DO(ov_model_const_input(model, &input));
    DO(ov_model_const_output(model, &output));
    print_port("input", input);
    print_port("output", output);
    ov_dimension_t dims[] = {{1, 1}, {3, 3}, {48, 48}, {192, 192}};
    ov_partial_shape_t shape;
    DO(ov_partial_shape_create(4, dims, &shape));
    DO(ov_model_reshape_single_input(model, shape));
    ov_partial_shape_free(&shape);
    print_port("input after reshape", input);
    print_port("output after reshape", output);
    printf("dynamic: %d\n", ov_model_is_dynamic(model));

    ov_compiled_model_t* compiled;
    /* The device may say how many inferences it collects, and for how long. */
    char* value;
    DO(ov_core_compile_model(core, model, "BATCH:CPU(2)", 0, &compiled));
    SAY("how long", ov_compiled_model_set_property(compiled, ov_property_key_auto_batch_timeout, "70"));
    SAY("a time before", ov_compiled_model_set_property(compiled, ov_property_key_auto_batch_timeout, "-1"));
    SAY("what is set before", ov_compiled_model_set_property(compiled, ov_property_key_num_streams, "2"));
    DO(ov_compiled_model_get_property(compiled, ov_property_key_auto_batch_timeout, &value));
    printf("inferences are collected for %s ms\n", value);
    ov_free(value);
    ov_compiled_model_free(compiled);
    SAY("none at a time", ov_core_compile_model(core, model, "BATCH:CPU(0)", 0, &compiled));

    DO(ov_core_compile_model(core, model, "CPU", 2, &compiled, ov_property_key_enable_profiling, "YES"));
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(compiled, &request));
    SAY("waiting for what was not started", ov_infer_request_wait_for(request, 1));

    size_t count = 3 * 48 * 192;
    float* pixels = malloc(count * sizeof *pixels);
    fill(pixels, count);
    int64_t sizes[] = {1, 3, 48, 192};
    ov_shape_t image;
    DO(ov_shape_create(4, sizes, &image));
    ov_tensor_t *tensor, *result;
    DO(ov_tensor_create_from_host_ptr(F32, image, pixels, &tensor));
    DO(ov_infer_request_set_input_tensor(request, tensor));
    DO(ov_infer_request_get_output_tensor(request, &result));
    void* before;
    DO(ov_tensor_data(result, &before));
    DO(ov_infer_request_infer(request));
    print_tensor("classes", result);
    void* after;
    DO(ov_tensor_data(result, &after));
    printf("the output is where it was: %d\n", before == after);
    /* The memory is the program's: what it writes is seen. */
    for (size_t it = 0; it < count; it++) pixels[it] = -pixels[it];
    DO(ov_infer_request_infer(request));
    print_tensor("classes of the negative", result);

    /* On another thread, with a callback. */
    struct ended ended = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    ov_callback_t callback = {on_end, &ended};
    DO(ov_infer_request_set_callback(request, &callback));
    for (int run = 0; run < 5; run++) {
        DO(ov_infer_request_start_async(request));
        DO(ov_infer_request_wait(request));
    }
    pthread_mutex_lock(&ended.lock);
    while (ended.times < 5) pthread_cond_wait(&ended.changed, &ended.lock);
    printf("callbacks: %d\n", ended.times);
    pthread_mutex_unlock(&ended.lock);
    print_tensor("classes of the negative again", result);
    SAY("waiting for what has ended", ov_infer_request_wait_for(request, 1000));
    SAY("cancelling what has ended", ov_infer_request_cancel(request));
    SAY("a negative time", ov_infer_request_wait_for(request, -5));

    ov_profiling_info_list_t list;
    DO(ov_infer_request_get_profiling_info(request, &list));
    int ran = 0;
    for (size_t it = 0; it < list.size; it++) ran += list.profiling_infos[it].status == EXECUTED;
    printf("some nodes have run: %d\n", ran > 0);
    ov_profiling_info_list_free(&list);

    /* Mistakes. */
    SAY("no tensor of this name", ov_infer_request_get_tensor(request, "nothing", &(ov_tensor_t*){NULL}));
    SAY("no input of this number", ov_infer_request_set_input_tensor_by_index(request, 7, tensor));
    int64_t wrong[] = {1, 3, 48, 191};
    ov_shape_t wrong_shape;
    DO(ov_shape_create(4, wrong, &wrong_shape));
    ov_tensor_t *other, *bytes;
    DO(ov_tensor_create(F32, wrong_shape, &other));
    SAY("a tensor of another shape", ov_infer_request_set_input_tensor(request, other));
    DO(ov_tensor_create(U8, image, &bytes));
    SAY("a tensor of another type", ov_infer_request_set_input_tensor(request, bytes));
    SAY("no tensor", ov_infer_request_set_input_tensor(request, NULL));
    SAY("no request", ov_infer_request_infer(NULL));

    ov_tensor_free(bytes);
    ov_tensor_free(other);
    ov_shape_free(&wrong_shape);
    ov_infer_request_free(request);
    ov_compiled_model_free(compiled);
    ov_tensor_free(result);
    ov_tensor_free(tensor);
    ov_shape_free(&image);
    ov_output_const_port_free(output);
    ov_output_const_port_free(input);
    ov_model_free(model);
    free(pixels);
}

/* A model with open sizes: several requests run at once. */
struct job {
    ov_compiled_model_t* compiled;
    int length;
    float* found;
    size_t count;
};

static void* encode(void* argument) {
    struct job* job = argument;
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(job->compiled, &request));
    int64_t* ids = malloc(job->length * sizeof *ids);
    int64_t* mask = malloc(job->length * sizeof *mask);
    int64_t sizes[] = {1, job->length};
    ov_shape_t shape = {2, sizes};
    for (int it = 0; it < job->length; it++) ids[it] = 3 + it * 7 % 50, mask[it] = 1;
    ov_tensor_t *a, *b, *result;
    DO(ov_tensor_create_from_host_ptr(I64, shape, ids, &a));
    DO(ov_tensor_create_from_host_ptr(I64, shape, mask, &b));
    DO(ov_infer_request_set_tensor(request, "input_ids", a));
    DO(ov_infer_request_set_tensor(request, "attention_mask", b));
    for (int run = 0; run < 10; run++) DO(ov_infer_request_infer(request));
    DO(ov_infer_request_get_tensor(request, "last_hidden_state", &result));
    void* data;
    DO(ov_tensor_get_size(result, &job->count));
    DO(ov_tensor_data(result, &data));
    job->found = malloc(job->count * sizeof(float));
    memcpy(job->found, data, job->count * sizeof(float));
    ov_tensor_free(result);
    ov_infer_request_free(request);
    ov_tensor_free(a);
    ov_tensor_free(b);
    free(ids);
    free(mask);
    return NULL;
}

static void sentences(const ov_core_t* core, const char* folder) {
    char path[1024];
    snprintf(path, sizeof path, "%s/networks/modernbert/model.xml", folder);
    ov_compiled_model_t* compiled;
    DO(ov_core_compile_model_from_file(core, path, "CPU", 4, &compiled, ov_property_key_hint_performance_mode, "THROUGHPUT",
                                       ov_property_key_hint_execution_mode, "ACCURACY"));
    ov_output_const_port_t* port;
    DO(ov_compiled_model_input_by_name(compiled, "attention_mask", &port));
    print_port("attention_mask", port);
    ov_output_const_port_free(port);
    DO(ov_compiled_model_output(compiled, &port));
    print_port("hidden state", port);
    ov_output_const_port_free(port);
    SAY("no single input", ov_compiled_model_input(compiled, &port));
    SAY("no input of this number", ov_compiled_model_input_by_index(compiled, 9, &port));
    SAY("no input of this name", ov_compiled_model_input_by_name(compiled, "nothing", &port));
    struct job jobs[] = {{compiled, 3, NULL, 0}, {compiled, 8, NULL, 0}, {compiled, 21, NULL, 0}, {compiled, 3, NULL, 0}};
    pthread_t threads[4];
    for (int it = 0; it < 4; it++) pthread_create(&threads[it], NULL, encode, &jobs[it]);
    for (int it = 0; it < 4; it++) pthread_join(threads[it], NULL);
    for (int it = 0; it < 4; it++) {
        printf("values sentence %d:", it);
        for (size_t at = 0; at < jobs[it].count; at++) printf(" %.9g", jobs[it].found[at]);
        printf("\n");
        free(jobs[it].found);
    }
    ov_compiled_model_free(compiled);
}

/* A model with variables, from memory. */
static char* contents(const char* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    if (!file) exit(1);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char* bytes = malloc(*size + 1);
    if (fread(bytes, 1, *size, file) != *size) exit(1);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static void voices(const ov_core_t* core, const char* folder) {
    char path[1024];
    size_t xml_size, bin_size;
    snprintf(path, sizeof path, "%s/networks/silero_stateful/model.xml", folder);
    char* xml = contents(path, &xml_size);
    snprintf(path, sizeof path, "%s/networks/silero_stateful/model.bin", folder);
    char* bin = contents(path, &bin_size);
    int64_t bin_sizes[] = {(int64_t)bin_size};
    ov_shape_t bin_shape = {1, bin_sizes};
    ov_tensor_t* weights;
    DO(ov_tensor_create_from_host_ptr(U8, bin_shape, bin, &weights));
    ov_model_t* model;
    DO(ov_core_read_model_from_memory_buffer(core, xml, xml_size, weights, &model));
    ov_model_t* same;
    SAY("a text with its end", ov_core_read_model_from_memory_buffer(core, xml, xml_size + 1, weights, &same));
    ov_model_free(same);
    SAY("half of a model", ov_core_read_model_from_memory_buffer(core, xml, xml_size / 2, weights, &(ov_model_t*){NULL}));
    SAY("a model without its weights", ov_core_read_model_from_memory_buffer(core, xml, xml_size, NULL, &(ov_model_t*){NULL}));
    ov_compiled_model_t* compiled;
    DO(ov_core_compile_model_props(core, model, "CPU", 1, &(ov_property_t){"NUM_STREAMS", "1"}, &compiled));
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(compiled, &request));
    ov_tensor_t *samples, *result;
    DO(ov_infer_request_get_input_tensor_by_index(request, 0, &samples));
    size_t count;
    void* data;
    DO(ov_tensor_get_size(samples, &count));
    for (int run = 0; run < 3; run++) {
        /* What the request has is written, again in each run. */
        DO(ov_tensor_data(samples, &data));
        fill(data, count);
        DO(ov_infer_request_infer(request));
        DO(ov_infer_request_get_output_tensor_by_index(request, 0, &result));
        print_tensor("voice", result);
        ov_tensor_free(result);
    }
    ov_tensor_free(samples);
    ov_infer_request_free(request);
    ov_compiled_model_free(compiled);
    ov_model_free(model);
    ov_tensor_free(weights);
    free(xml);
    free(bin);
}

/* The bytes of an export, which OpenVINO reads for as long as the model that is made of them is there. */
static char* bytes_of_export(const ov_compiled_model_t* compiled, size_t* size) {
    const char* file = "client.blob";
    DO(ov_compiled_model_export_model(compiled, file));
    char* bytes = contents(file, size);
    remove(file);
    return bytes;
}

/* An export is read again. */
static void exported(const ov_core_t* core, const char* folder) {
    char path[1024];
    snprintf(path, sizeof path, "%s/networks/silero/model.xml", folder);
    ov_compiled_model_t *compiled, *imported;
    DO(ov_core_compile_model_from_file(core, path, "CPU", 0, &compiled));
    SAY("an export to nowhere", ov_compiled_model_export_model(compiled, "/nowhere/at/all"));
    size_t size;
    char* bytes = bytes_of_export(compiled, &size);
    DO(ov_core_import_model(core, bytes, size, "CPU", &imported));
    SAY("what is no export", ov_core_import_model(core, "nothing to see here", 19, "CPU", &(ov_compiled_model_t*){NULL}));
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(imported, &request));
    ov_tensor_t *samples, *result;
    DO(ov_infer_request_get_tensor(request, "input", &samples));
    void* data;
    DO(ov_tensor_data(samples, &data));
    fill(data, 576);
    ov_tensor_free(samples);
    /* What is not written may be anything. */
    DO(ov_infer_request_get_tensor(request, "state", &samples));
    DO(ov_tensor_data(samples, &data));
    memset(data, 0, 2 * 128 * sizeof(float));
    DO(ov_infer_request_infer(request));
    DO(ov_infer_request_get_tensor(request, "stateN", &result));
    print_tensor("state of the import", result);
    ov_tensor_free(result);
    ov_tensor_free(samples);
    ov_infer_request_free(request);
    ov_compiled_model_free(imported);
    ov_compiled_model_free(compiled);
    free(bytes);
}

/* An image is resized and normalised by the model. */
static void preprocessed(const ov_core_t* core, const char* folder) {
    char path[1024];
    snprintf(path, sizeof path, "%s/networks/ocr_cls/model.xml", folder);
    ov_model_t *model, *built;
    DO(ov_core_read_model(core, path, NULL, &model));
    ov_dimension_t dims[] = {{1, 1}, {3, 3}, {48, 48}, {192, 192}};
    ov_partial_shape_t shape;
    DO(ov_partial_shape_create(4, dims, &shape));
    DO(ov_model_reshape_single_input(model, shape));
    ov_partial_shape_free(&shape);
    ov_preprocess_prepostprocessor_t* preprocessor;
    ov_preprocess_input_info_t* input;
    ov_preprocess_input_tensor_info_t* tensor_info;
    ov_preprocess_preprocess_steps_t* steps;
    ov_preprocess_input_model_info_t* model_info;
    DO(ov_preprocess_prepostprocessor_create(model, &preprocessor));
    DO(ov_preprocess_prepostprocessor_get_input_info_by_index(preprocessor, 0, &input));
    DO(ov_preprocess_input_info_get_tensor_info(input, &tensor_info));
    DO(ov_preprocess_input_tensor_info_set_element_type(tensor_info, U8));
    DO(ov_preprocess_input_tensor_info_set_color_format(tensor_info, BGR));
    DO(ov_preprocess_input_tensor_info_set_spatial_static_shape(tensor_info, 60, 100));
    ov_layout_t *nhwc, *nchw;
    DO(ov_layout_create("NHWC", &nhwc));
    DO(ov_layout_create("NCHW", &nchw));
    DO(ov_preprocess_input_tensor_info_set_layout(tensor_info, nhwc));
    DO(ov_preprocess_input_info_get_preprocess_steps(input, &steps));
    DO(ov_preprocess_preprocess_steps_convert_element_type(steps, F32));
    DO(ov_preprocess_preprocess_steps_convert_color(steps, RGB));
    DO(ov_preprocess_preprocess_steps_resize(steps, RESIZE_LINEAR));
    float means[] = {120, 110, 100}, scales[] = {50, 60, 70};
    DO(ov_preprocess_preprocess_steps_mean_multi_channels(steps, means, 3));
    DO(ov_preprocess_preprocess_steps_scale_multi_channels(steps, scales, 3));
    DO(ov_preprocess_input_info_get_model_info(input, &model_info));
    DO(ov_preprocess_input_model_info_set_layout(model_info, nchw));
    DO(ov_preprocess_prepostprocessor_build(preprocessor, &built));
    ov_compiled_model_t* compiled;
    DO(ov_core_compile_model(core, built, "CPU", 0, &compiled));
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(compiled, &request));
    int64_t sizes[] = {1, 60, 100, 3};
    ov_shape_t image = {4, sizes};
    ov_tensor_t *tensor, *result;
    DO(ov_tensor_create(U8, image, &tensor));
    void* data;
    DO(ov_tensor_data(tensor, &data));
    for (int it = 0; it < 60 * 100 * 3; it++) ((unsigned char*)data)[it] = (unsigned char)(it * 31 % 251);
    DO(ov_infer_request_set_input_tensor(request, tensor));
    DO(ov_infer_request_infer(request));
    DO(ov_infer_request_get_output_tensor(request, &result));
    print_tensor("classes of a preprocessed image", result);
    ov_tensor_free(result);
    ov_tensor_free(tensor);
    ov_infer_request_free(request);
    ov_compiled_model_free(compiled);
    ov_model_free(built);
    ov_layout_free(nhwc);
    ov_layout_free(nchw);
    ov_preprocess_input_model_info_free(model_info);
    ov_preprocess_preprocess_steps_free(steps);
    ov_preprocess_input_tensor_info_free(tensor_info);
    ov_preprocess_input_info_free(input);
    ov_preprocess_prepostprocessor_free(preprocessor);
    ov_model_free(model);
}

/* A model that gives what it is given, behind steps of all kinds. */
static const char SAME[] =
    "<net name=\"same\" version=\"11\"><layers>"
    "<layer id=\"0\" name=\"x\" type=\"Parameter\" version=\"opset1\"><data shape=\"1,3,4,6\" element_type=\"f32\"/><output>"
    "<port id=\"0\" precision=\"FP32\" names=\"x,image\"><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></output></layer>"
    "<layer id=\"1\" name=\"same\" type=\"Clamp\" version=\"opset1\"><data min=\"-10000\" max=\"10000\"/><input>"
    "<port id=\"0\" precision=\"FP32\"><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></input><output>"
    "<port id=\"1\" precision=\"FP32\" names=\"y\"><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></output></layer>"
    "<layer id=\"2\" name=\"result\" type=\"Result\" version=\"opset1\"><input>"
    "<port id=\"0\" precision=\"FP32\"><dim>1</dim><dim>3</dim><dim>4</dim><dim>6</dim></port></input></layer></layers><edges>"
    "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/>"
    "<edge from-layer=\"1\" from-port=\"1\" to-layer=\"2\" to-port=\"0\"/></edges></net>";

struct preprocessing {
    ov_model_t* model;
    ov_preprocess_prepostprocessor_t* preprocessor;
    ov_preprocess_input_info_t* input;
    ov_preprocess_input_tensor_info_t* tensor;
    ov_preprocess_preprocess_steps_t* steps;
    ov_preprocess_input_model_info_t* of_model;
    ov_preprocess_output_info_t* output;
    ov_preprocess_output_tensor_info_t* result;
};

static struct preprocessing of_same(const ov_core_t* core) {
    struct preprocessing it;
    DO(ov_core_read_model_from_memory_buffer(core, SAME, sizeof SAME - 1, NULL, &it.model));
    DO(ov_preprocess_prepostprocessor_create(it.model, &it.preprocessor));
    DO(ov_preprocess_prepostprocessor_get_input_info_by_name(it.preprocessor, "image", &it.input));
    DO(ov_preprocess_input_info_get_tensor_info(it.input, &it.tensor));
    DO(ov_preprocess_input_info_get_preprocess_steps(it.input, &it.steps));
    DO(ov_preprocess_input_info_get_model_info(it.input, &it.of_model));
    DO(ov_preprocess_prepostprocessor_get_output_info(it.preprocessor, &it.output));
    DO(ov_preprocess_output_info_get_tensor_info(it.output, &it.result));
    return it;
}

static void end(struct preprocessing it) {
    ov_preprocess_output_tensor_info_free(it.result);
    ov_preprocess_output_info_free(it.output);
    ov_preprocess_input_model_info_free(it.of_model);
    ov_preprocess_preprocess_steps_free(it.steps);
    ov_preprocess_input_tensor_info_free(it.tensor);
    ov_preprocess_input_info_free(it.input);
    ov_preprocess_prepostprocessor_free(it.preprocessor);
    ov_model_free(it.model);
}

/* Says a layout of the tensor, of the model, or of a step. */
#define LAYOUT(function, object, text)         \
    do {                                       \
        ov_layout_t* layout_;                  \
        DO(ov_layout_create(text, &layout_));  \
        DO(function(object, layout_));         \
        ov_layout_free(layout_);               \
    } while (0)

/* Runs what was built with numbers in all inputs. */
static void run_compiled(const char* what, const ov_compiled_model_t* compiled, size_t inputs) {
    ov_infer_request_t* request;
    DO(ov_compiled_model_create_infer_request(compiled, &request));
    for (size_t number = 0; number < inputs; number++) {
        ov_tensor_t* tensor;
        ov_element_type_e type;
        size_t count;
        void* data;
        DO(ov_infer_request_get_input_tensor_by_index(request, number, &tensor));
        DO(ov_tensor_get_element_type(tensor, &type));
        DO(ov_tensor_get_size(tensor, &count));
        DO(ov_tensor_data(tensor, &data));
        for (size_t it = 0; it < count; it++) {
            if (type == U8) ((unsigned char*)data)[it] = (unsigned char)(it * 31 % 251);
            else ((float*)data)[it] = (float)(it * 31 % 251);
        }
        ov_tensor_free(tensor);
    }
    DO(ov_infer_request_infer(request));
    ov_tensor_t* result;
    DO(ov_infer_request_get_output_tensor(request, &result));
    print_tensor(what, result);
    ov_element_type_e type;
    DO(ov_tensor_get_element_type(result, &type));
    if (type == U8) {
        void* data;
        DO(ov_tensor_data(result, &data));
        printf("bytes:");
        for (int it = 0; it < 72; it++) printf(" %d", ((unsigned char*)data)[it]);
        printf("\n");
    }
    ov_tensor_free(result);
    ov_infer_request_free(request);
}

/* And what is read of its export. */
static void run_same(const ov_core_t* core, const char* what, const ov_model_t* model) {
    ov_compiled_model_t *compiled, *imported;
    ov_output_const_port_t* port;
    size_t inputs;
    DO(ov_model_inputs_size(model, &inputs));
    for (size_t it = 0; it < inputs; it++) {
        DO(ov_model_const_input_by_index(model, it, &port));
        print_port(what, port);
        ov_output_const_port_free(port);
    }
    DO(ov_model_const_output(model, &port));
    print_port(what, port);
    ov_output_const_port_free(port);
    DO(ov_core_compile_model(core, model, "CPU", 0, &compiled));
    run_compiled(what, compiled, inputs);
    size_t size;
    char* bytes = bytes_of_export(compiled, &size);
    DO(ov_core_import_model(core, bytes, size, "CPU", &imported));
    run_compiled("imported", imported, inputs);
    ov_compiled_model_free(imported);
    ov_compiled_model_free(compiled);
    free(bytes);
}

static void build_same(const ov_core_t* core, const char* what, struct preprocessing it) {
    ov_model_t* built;
    DO(ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    run_same(core, what, it.model);
    ov_model_free(built);
    end(it);
}

static void every_step(const ov_core_t* core) {
    float means[] = {10, 20, 30}, scales[] = {2, 4, 8};
    struct preprocessing it = of_same(core);
    build_same(core, "nothing", it);

    it = of_same(core);
    DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
    LAYOUT(ov_preprocess_preprocess_steps_convert_layout, it.steps, "NCHW");
    DO(ov_preprocess_preprocess_steps_convert_element_type(it.steps, F32));
    DO(ov_preprocess_preprocess_steps_mean(it.steps, 100));
    DO(ov_preprocess_preprocess_steps_scale(it.steps, 4));
    DO(ov_preprocess_preprocess_steps_mean_multi_channels(it.steps, means, 3));
    DO(ov_preprocess_preprocess_steps_scale_multi_channels(it.steps, scales, 3));
    DO(ov_preprocess_input_tensor_info_set_memory_type(it.tensor, "any"));
    DO(ov_preprocess_output_set_element_type(it.result, F64));
    DO(ov_preprocess_output_set_element_type(it.result, F32));
    build_same(core, "numbers", it);

    it = of_same(core);
    int64_t sizes[] = {1, 4, 6, 3};
    ov_tensor_t* from;
    DO(ov_tensor_create(U8, (ov_shape_t){4, sizes}, &from));
    DO(ov_preprocess_input_tensor_info_set_from(it.tensor, from));
    ov_tensor_free(from);
    LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    DO(ov_preprocess_preprocess_steps_reverse_channels(it.steps));
    DO(ov_preprocess_output_set_element_type(it.result, U8));
    build_same(core, "from a tensor", it);

    for (int algorithm = RESIZE_LINEAR; algorithm <= RESIZE_NEAREST; algorithm++)
        for (int type = 0; type < 2; type++) {
            it = of_same(core);
            DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, type ? F32 : U8));
            DO(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 7, 9));
            LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
            LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
            /* OpenVINO cannot resize bytes in cubic curves. */
            if (algorithm == RESIZE_CUBIC) DO(ov_preprocess_preprocess_steps_convert_element_type(it.steps, F32));
            DO(ov_preprocess_preprocess_steps_resize(it.steps, (ov_preprocess_resize_algorithm_e)algorithm));
            build_same(core, "resize", it);
        }

    it = of_same(core);
    int32_t begin[] = {0, 0, 1, 2}, stop[] = {1, 3, 5, -1};
    int64_t larger[] = {1, 3, 6, 9};
    DO(ov_tensor_create(F32, (ov_shape_t){4, larger}, &from));
    DO(ov_preprocess_input_tensor_info_set_from(it.tensor, from));
    ov_tensor_free(from);
    DO(ov_preprocess_preprocess_steps_crop(it.steps, begin, 4, stop, 4));
    build_same(core, "crop", it);

    for (int mode = CONSTANT; mode <= SYMMETRIC; mode++) {
        it = of_same(core);
        int before[] = {0, 0, 1, 2}, after[] = {0, 0, 0, 1};
        int64_t smaller[] = {1, 3, 3, 3};
        DO(ov_tensor_create(F32, (ov_shape_t){4, smaller}, &from));
        DO(ov_preprocess_input_tensor_info_set_from(it.tensor, from));
        ov_tensor_free(from);
        DO(ov_preprocess_preprocess_steps_pad(it.steps, before, 4, after, 4, 7, (ov_padding_mode_e)mode));
        build_same(core, "pad", it);
    }

    ov_color_format_e formats[] = {NV12_SINGLE_PLANE, NV12_TWO_PLANES, I420_SINGLE_PLANE, I420_THREE_PLANES, RGB, BGR, RGBX, BGRX};
    for (int format = 0; format < 8; format++) {
        it = of_same(core);
        DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
        if (formats[format] == NV12_TWO_PLANES)
            DO(ov_preprocess_input_tensor_info_set_color_format_with_subname(it.tensor, formats[format], 2, "y", "uv"));
        else if (formats[format] == I420_THREE_PLANES)
            DO(ov_preprocess_input_tensor_info_set_color_format_with_subnames(it.tensor, formats[format], 3,
                                                                             (const char*[]){"y", "u", "v"}));
        else DO(ov_preprocess_input_tensor_info_set_color_format(it.tensor, formats[format]));
        DO(ov_preprocess_preprocess_steps_convert_color(it.steps, format % 3 ? RGB : BGR));
        LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
        build_same(core, "colors", it);
    }
    it = of_same(core);
    DO(ov_preprocess_input_tensor_info_set_color_format(it.tensor, NV12_TWO_PLANES));
    DO(ov_preprocess_preprocess_steps_convert_color(it.steps, BGR));
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    build_same(core, "planes without names", it);

    /* Another size after that: the image is resized to what the model took. */
    it = of_same(core);
    ov_model_t* built;
    ov_partial_shape_t shape;
    DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    DO(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 7, 9));
    LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    DO(ov_preprocess_preprocess_steps_resize(it.steps, RESIZE_LINEAR));
    DO(ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    DO(ov_partial_shape_create(4, (ov_dimension_t[]){{2, 2}, {5, 5}, {8, 8}, {3, 3}}, &shape));
    DO(ov_model_reshape_input_by_name(built, "image", shape));
    ov_partial_shape_free(&shape);
    run_same(core, "another size of an image", it.model);
    SAY("build again", ov_preprocess_prepostprocessor_build(it.preprocessor, &(ov_model_t*){NULL}));
    ov_model_free(built);
    end(it);

    it = of_same(core);
    DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    DO(ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 8, 8));
    DO(ov_preprocess_input_tensor_info_set_color_format_with_subname(it.tensor, NV12_TWO_PLANES, 2, "y", "uv"));
    DO(ov_preprocess_preprocess_steps_convert_color(it.steps, RGB));
    DO(ov_preprocess_preprocess_steps_resize(it.steps, RESIZE_LINEAR));
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    DO(ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    ov_partial_shape_t planes[2];
    DO(ov_partial_shape_create(4, (ov_dimension_t[]){{1, 1}, {6, 6}, {10, 10}, {1, 1}}, &planes[0]));
    DO(ov_partial_shape_create(4, (ov_dimension_t[]){{1, 1}, {3, 3}, {4, 4}, {2, 2}}, &planes[1]));
    SAY("planes that do not fit", ov_model_reshape_by_port_indexes(built, (size_t[]){0, 1}, planes, 2));
    ov_partial_shape_free(&planes[1]);
    DO(ov_partial_shape_create(4, (ov_dimension_t[]){{1, 1}, {3, 3}, {5, 5}, {2, 2}}, &planes[1]));
    DO(ov_model_reshape_by_port_indexes(built, (size_t[]){0, 1}, planes, 2));
    ov_partial_shape_free(&planes[0]);
    ov_partial_shape_free(&planes[1]);
    run_same(core, "another size of planes", built);
    ov_model_free(built);
    end(it);

    /* Without a step that resizes, it is that of the model. */
    it = of_same(core);
    LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    DO(ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    DO(ov_partial_shape_create(4, (ov_dimension_t[]){{1, 1}, {2, 2}, {4, 4}, {3, 3}}, &shape));
    DO(ov_model_reshape_single_input(built, shape));
    ov_partial_shape_free(&shape);
    run_same(core, "another size of the model", built);
    /* Steps before those. */
    ov_preprocess_prepostprocessor_t* second;
    ov_preprocess_input_info_t* input;
    ov_preprocess_input_tensor_info_t* tensor;
    DO(ov_preprocess_prepostprocessor_create(built, &second));
    DO(ov_preprocess_prepostprocessor_get_input_info_by_index(second, 0, &input));
    DO(ov_preprocess_input_info_get_tensor_info(input, &tensor));
    DO(ov_preprocess_input_tensor_info_set_element_type(tensor, U8));
    ov_model_free(built);
    DO(ov_preprocess_prepostprocessor_build(second, &built));
    run_same(core, "built twice", built);
    ov_preprocess_input_tensor_info_free(tensor);
    ov_preprocess_input_info_free(input);
    ov_preprocess_prepostprocessor_free(second);
    ov_model_free(built);
    end(it);
}

static void mistakes_of_steps(const ov_core_t* core) {
    struct preprocessing it = of_same(core);
    ov_preprocess_input_info_t* input;
    ov_preprocess_output_info_t* output;
    ov_model_t* built;
    float numbers[] = {1, 2, 3};
    int32_t places[] = {0, 0, 1, 1};
    const char* names[] = {"y", "uv"};
    SAY("no input", ov_preprocess_prepostprocessor_get_input_info_by_index(it.preprocessor, 3, &input));
    SAY("no name", ov_preprocess_prepostprocessor_get_input_info_by_name(it.preprocessor, "y", &input));
    SAY("no output", ov_preprocess_prepostprocessor_get_output_info_by_index(it.preprocessor, 1, &output));
    SAY("no output of a name", ov_preprocess_prepostprocessor_get_output_info_by_name(it.preprocessor, "x", &output));
    SAY("no algorithm", ov_preprocess_preprocess_steps_resize(it.steps, (ov_preprocess_resize_algorithm_e)7));
    SAY("no mode", ov_preprocess_preprocess_steps_pad(it.steps, places, 4, places, 4, 0, (ov_padding_mode_e)9));
    SAY("no numbers", ov_preprocess_preprocess_steps_mean_multi_channels(it.steps, numbers, 0));
    SAY("less than none", ov_preprocess_preprocess_steps_scale_multi_channels(it.steps, numbers, -1));
    SAY("no end", ov_preprocess_preprocess_steps_crop(it.steps, places, 4, places, 3));
    SAY("no layout", ov_preprocess_preprocess_steps_convert_layout(it.steps, NULL));
    SAY("no type", ov_preprocess_input_tensor_info_set_element_type(it.tensor, (ov_element_type_e)99));
    SAY("no type of a step", ov_preprocess_preprocess_steps_convert_element_type(it.steps, (ov_element_type_e)99));
    SAY("no type of an output", ov_preprocess_output_set_element_type(it.result, (ov_element_type_e)99));
    SAY("a plane", ov_preprocess_input_tensor_info_set_color_format_with_subnames(it.tensor, NV12_TWO_PLANES, 1, names));
    SAY("a name without a plane", ov_preprocess_input_tensor_info_set_color_format_with_subnames(it.tensor, RGB, 1, names));
    SAY("a plane too many", ov_preprocess_input_tensor_info_set_color_format_with_subname(it.tensor, NV12_TWO_PLANES, 3, "a", "b", "c"));
    int64_t sizes[] = {1, 3, 4, 6};
    ov_tensor_t* from;
    DO(ov_tensor_create(F32, (ov_shape_t){4, sizes}, &from));
    SAY("a shape", ov_preprocess_input_tensor_info_set_from(it.tensor, from));
    SAY("another shape", ov_preprocess_input_tensor_info_set_spatial_static_shape(it.tensor, 4, 6));
    ov_tensor_free(from);
    end(it);
    it = of_same(core);
    SAY("an open type", ov_preprocess_input_tensor_info_set_element_type(it.tensor, DYNAMIC));
    SAY("a model of an open type", ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    end(it);
    it = of_same(core);
    DO(ov_preprocess_input_tensor_info_set_element_type(it.tensor, U8));
    DO(ov_preprocess_preprocess_steps_mean(it.steps, 1));
    SAY("the mean of bytes", ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    end(it);
    it = of_same(core);
    DO(ov_preprocess_preprocess_steps_resize(it.steps, RESIZE_LINEAR));
    SAY("resize without a layout", ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    end(it);
    it = of_same(core);
    LAYOUT(ov_preprocess_input_tensor_info_set_layout, it.tensor, "NHWC");
    LAYOUT(ov_preprocess_input_model_info_set_layout, it.of_model, "NCHW");
    DO(ov_preprocess_preprocess_steps_mean_multi_channels(it.steps, numbers, 2));
    SAY("two means", ov_preprocess_prepostprocessor_build(it.preprocessor, &built));
    end(it);
}

/* Shapes, layouts and tensors alone. */
static void small_things(void) {
    int64_t sizes[] = {2, 3};
    ov_shape_t shape;
    SAY("a shape", ov_shape_create(2, sizes, &shape));
    SAY("a shape of rank 0", ov_shape_create(0, sizes, &(ov_shape_t){0, NULL}));
    SAY("a shape with a negative size", ov_shape_create(1, (int64_t[]){-3}, &(ov_shape_t){0, NULL}));
    ov_partial_shape_t partial;
    SAY("to a partial shape", ov_shape_to_partial_shape(shape, &partial));
    const char* text = ov_partial_shape_to_string(partial);
    printf("partial shape %s\n", text);
    ov_free(text);
    ov_partial_shape_free(&partial);
    ov_dimension_t dims[] = {{-1, -1}, {2, 5}, {0, 7}, {4, 4}};
    SAY("a partial shape", ov_partial_shape_create(4, dims, &partial));
    text = ov_partial_shape_to_string(partial);
    printf("partial shape %s\n", text);
    ov_free(text);
    SAY("its sizes", ov_partial_shape_to_shape(partial, &(ov_shape_t){0, NULL}));
    ov_partial_shape_free(&partial);
    ov_dimension_t refused[][1] = {{{0, -1}}, {{5, 2}}, {{3, -1}}, {{-2, 3}}};
    for (int it = 0; it < 4; it++) SAY("a range", ov_partial_shape_create(1, refused[it], &partial));
    ov_rank_t any = {-1, -1};
    SAY("any rank", ov_partial_shape_create_dynamic(any, NULL, &partial));
    printf("dynamic: %d %d %d\n", ov_partial_shape_is_dynamic(partial), ov_dimension_is_dynamic((ov_dimension_t){0, 0}),
           ov_rank_is_dynamic(any));
    const char* layouts[] = {"NCHW", "[N,...,C]", "nhwc", "N...C", "?", "NCHWN", "N C", "[]", "...", "[batch,channels]"};
    for (int it = 0; it < 10; it++) {
        ov_layout_t* layout = NULL;
        ov_status_e status = ov_layout_create(layouts[it], &layout);
        text = status == OK ? ov_layout_to_string(layout) : NULL;
        printf("layout %s: %d %s\n", layouts[it], (int)status, text ? text : "");
        ov_free(text);
        ov_layout_free(layout);
    }
    ov_tensor_t* tensor;
    for (int type = 0; type < 28; type++) {
        ov_status_e status = ov_tensor_create((ov_element_type_e)type, shape, &tensor);
        size_t bytes = 0;
        if (status == OK) {
            DO(ov_tensor_get_byte_size(tensor, &bytes));
            ov_tensor_free(tensor);
        }
        printf("tensor of type %d: %d, %zu bytes\n", type, (int)status, bytes);
    }
    float memory[6] = {1, 2, 3, 4, 5, 6};
    DO(ov_tensor_create_from_host_ptr(F32, shape, memory, &tensor));
    SAY("a smaller shape", ov_tensor_set_shape(tensor, (ov_shape_t){1, (int64_t[]){4}}));
    SAY("a larger shape", ov_tensor_set_shape(tensor, (ov_shape_t){1, (int64_t[]){7}}));
    ov_tensor_free(tensor);
    SAY("no memory", ov_tensor_create_from_host_ptr(F32, shape, NULL, &tensor));
    const char* texts[] = {"a", "bc", "", "def", "g", "h"};
    DO(ov_tensor_create_from_string_array(texts, 6, shape, &tensor));
    SAY("other texts", ov_tensor_set_string_data(tensor, texts, 6));
    SAY("too few texts", ov_tensor_set_string_data(tensor, texts, 5));
    ov_tensor_free(tensor);
    ov_shape_free(&shape);
    SAY("a shape that was freed", ov_shape_free(&shape));
    /* Nothing is freed. */
    ov_tensor_free(NULL);
    ov_model_free(NULL);
    ov_core_free(NULL);
    ov_free(NULL);
    ov_infer_request_free(NULL);
    ov_compiled_model_free(NULL);
    ov_output_port_free(NULL);
    ov_layout_free(NULL);
}

static void mistakes(const ov_core_t* core, const char* folder) {
    char path[1024];
    ov_model_t* model;
    ov_compiled_model_t* compiled;
    char* value;
    snprintf(path, sizeof path, "%s/networks/modernbert/model.xml", folder);
    SAY("no file", ov_core_read_model(core, "/nowhere.xml", NULL, &model));
    SAY("no path", ov_core_read_model(core, NULL, NULL, &model));
    SAY("no weights", ov_core_read_model(core, path, "/nowhere.bin", &model));
    DO(ov_core_read_model(core, path, "", &model));
    SAY("no device", ov_core_compile_model(core, model, "XYZ", 0, &compiled));
    SAY("no property", ov_core_compile_model(core, model, "CPU", 2, &compiled, "NOTHING", "1"));
    SAY("half a property", ov_core_compile_model(core, model, "CPU", 1, &compiled, "NUM_STREAMS"));
    SAY("no value", ov_core_set_property(core, "CPU", "NUM_STREAMS", "many"));
    SAY("what is only read", ov_core_set_property(core, "CPU", ov_property_key_available_devices, "1"));
    SAY("no such property", ov_core_get_property(core, "CPU", "NOTHING", &value));
    SAY("a property of no device", ov_core_get_property(core, "XYZ", "NUM_STREAMS", &value));
    SAY("no such port", ov_model_const_input_by_index(model, 5, &(ov_output_const_port_t*){NULL}));
    SAY("no such name", ov_model_const_output_by_name(model, "nothing", &(ov_output_const_port_t*){NULL}));
    SAY("no single input", ov_model_const_input(model, &(ov_output_const_port_t*){NULL}));
    ov_dimension_t dims[] = {{1, 1}, {5, 5}, {2, 2}};
    ov_partial_shape_t shape = {{3, 3}, dims};
    SAY("another rank", ov_model_reshape_input_by_name(model, "input_ids", shape));
    SAY("an input that is not there", ov_model_reshape_input_by_name(model, "nothing", shape));
    SAY("number of an input that is not there", ov_model_reshape_by_port_indexes(model, (size_t[]){9}, &shape, 1));
    SAY("a core without a place", ov_core_create(NULL));
    SAY("an extension", ov_core_add_extension(core, "/nowhere.so"));
    ov_core_version_list_t versions;
    SAY("versions of no device", ov_core_get_versions_by_device_name(core, "XYZ", &versions));
    DO(ov_core_get_versions_by_device_name(core, "CPU", &versions));
    printf("versions: %zu of %s\n", versions.size, versions.versions[0].device_name);
    ov_core_versions_free(&versions);
    ov_available_devices_t devices;
    DO(ov_core_get_available_devices(core, &devices));
    printf("devices: %zu, %s\n", devices.size, devices.devices[0]);
    ov_available_devices_free(&devices);
    ov_model_free(model);
    for (int status = 0; status >= -17; status--) printf("the text of %d: %s\n", status, ov_get_error_info((ov_status_e)status));
    /* Nothing is checked before a device is used. */
    ov_core_t* other;
    DO(ov_core_create(&other));
    SAY("no value, before", ov_core_set_property(other, "CPU", "NUM_STREAMS", "many"));
    SAY("the first use", ov_core_get_property(other, "CPU", "PERF_COUNT", &value));
    SAY("a value", ov_core_set_property(other, "CPU", "NUM_STREAMS", "2"));
    SAY("the next use", ov_core_get_property(other, "CPU", "PERF_COUNT", &value));
    ov_free(value);
    SAY("no value, after", ov_core_set_property(other, "CPU", "NUM_STREAMS", "many"));
    ov_core_free(other);
    printf("an error is left: %d\n", ov_get_last_err_msg() != NULL);
}

int main(int count, char** arguments) {
    if (count < 2) return 2;
    const char* folder = arguments[1];
    ov_version_t version;
    DO(ov_get_openvino_version(&version));
    printf("version %.8s\n", version.buildNumber);
    ov_version_free(&version);
    small_things();
    ov_core_t* core = exact_core();
    images(core, folder);
    sentences(core, folder);
    voices(core, folder);
    exported(core, folder);
    mistakes(core, folder);
    preprocessed(core, folder);
    every_step(core);
    mistakes_of_steps(core);
    ov_core_free(core);
    return 0;
}
