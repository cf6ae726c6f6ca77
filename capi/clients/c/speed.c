/* Prints the median time of an inference, in microseconds, of a model with one input of type F32 whose sizes are given.
 *
 *     speed MODEL SECONDS [KEY VALUE] SIZE...
 */

#include <openvino/c/openvino.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DO(call)                                                       \
    do {                                                               \
        if ((call) != OK) {                                            \
            fprintf(stderr, "%s: %s\n", #call, ov_get_last_err_msg()); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int by_size(const void* a, const void* b) {
    double first = *(const double*)a, second = *(const double*)b;
    return (first > second) - (first < second);
}

int main(int count, char** arguments) {
    if (count < 4) return 2;
    int64_t sizes[16];
    size_t elements = 1;
    int first = 3, rank = 0;
    ov_core_t* core;
    ov_model_t* model;
    ov_compiled_model_t* compiled;
    ov_infer_request_t* request;
    DO(ov_core_create(&core));
    DO(ov_core_set_property(core, "CPU", "INFERENCE_PRECISION_HINT", "f32"));
    if (arguments[3][0] >= 'A') {
        DO(ov_core_set_property(core, "CPU", arguments[3], arguments[4]));
        first = 5;
    }
    for (int it = first; it < count && rank < 16; it++) elements *= (size_t)(sizes[rank++] = atoll(arguments[it]));
    DO(ov_core_read_model(core, arguments[1], NULL, &model));
    ov_partial_shape_t partial;
    DO(ov_partial_shape_create_static(rank, sizes, &partial));
    DO(ov_model_reshape_single_input(model, partial));
    DO(ov_core_compile_model(core, model, "CPU", 0, &compiled));
    DO(ov_compiled_model_create_infer_request(compiled, &request));
    float* data = malloc(elements * sizeof *data);
    for (size_t it = 0; it < elements; it++) data[it] = (float)(it % 255) / 255;
    ov_tensor_t* tensor;
    DO(ov_tensor_create_from_host_ptr(F32, (ov_shape_t){rank, sizes}, data, &tensor));
    DO(ov_infer_request_set_input_tensor(request, tensor));
    static double times[1 << 20];
    int runs = 0;
    for (int it = 0; it < 10; it++) DO(ov_infer_request_infer(request));
    for (double until = now() + atof(arguments[2]) * 1e6; now() < until && runs < 1 << 20; runs++) {
        double start = now();
        DO(ov_infer_request_infer(request));
        times[runs] = now() - start;
    }
    qsort(times, (size_t)runs, sizeof *times, by_size);
    printf("%d runs, median %.1f us, minimum %.1f us\n", runs, times[runs / 2], times[0]);
    return 0;
}
