/* Makes and frees objects of each kind very often, in several orders, and prints by how much the memory of the process has grown.
 *
 *     pairs MODEL [ROUNDS]
 */

#include <openvino/c/openvino.h>
#include <stdio.h>
#include <stdlib.h>

enum { AT_ONCE = 64, KINDS = 7 };

static long kilobytes(void) {
    FILE* file = fopen("/proc/self/status", "r");
    char line[256];
    long found = -1;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %ld kB", &found) == 1) break;
    }
    if (file) fclose(file);
    return found;
}

#define DO(call)                                                                               \
    do {                                                                                       \
        if ((call) != OK) {                                                                    \
            fprintf(stderr, "%s: %s\n", #call, ov_get_last_err_msg());                         \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static ov_core_t* core;
static ov_model_t* model;
static ov_compiled_model_t* compiled;

static void* make(int kind) {
    int64_t sizes[] = {2, 3};
    ov_shape_t shape = {2, sizes};
    void* made = NULL;
    switch (kind) {
    case 0: DO(ov_tensor_create(F32, shape, (ov_tensor_t**)&made)); break;
    case 1: DO(ov_layout_create("NCHW", (ov_layout_t**)&made)); break;
    case 2: DO(ov_model_const_input_by_index(model, 0, (ov_output_const_port_t**)&made)); break;
    case 3: DO(ov_core_create((ov_core_t**)&made)); break;
    case 4: DO(ov_model_get_friendly_name(model, (char**)&made)); break;
    case 5: DO(ov_preprocess_prepostprocessor_create(model, (ov_preprocess_prepostprocessor_t**)&made)); break;
    default: DO(ov_compiled_model_create_infer_request(compiled, (ov_infer_request_t**)&made)); break;
    }
    return made;
}

static void unmake(int kind, void* made) {
    switch (kind) {
    case 0: ov_tensor_free(made); break;
    case 1: ov_layout_free(made); break;
    case 2: ov_output_const_port_free(made); break;
    case 3: ov_core_free(made); break;
    case 4: ov_free(made); break;
    case 5: ov_preprocess_prepostprocessor_free(made); break;
    default: ov_infer_request_free(made); break;
    }
}

/* One round: AT_ONCE objects, which are freed in the order of this number. */
static void round_of(int kind, int order) {
    void* made[AT_ONCE];
    for (int it = 0; it < AT_ONCE; it++) made[it] = make(kind);
    for (int it = 0; it < AT_ONCE; it++) {
        int at = order == 0 ? it : order == 1 ? AT_ONCE - 1 - it : it * 37 % AT_ONCE;
        unmake(kind, made[at]);
    }
}

int main(int count, char** arguments) {
    long rounds = count > 2 ? atol(arguments[2]) : 2233;
    DO(ov_core_create(&core));
    DO(ov_core_read_model(core, arguments[1], NULL, &model));
    DO(ov_core_compile_model(core, model, "CPU", 0, &compiled));
    for (int kind = 0; kind < KINDS; kind++) round_of(kind, 0);
    long before = kilobytes();
    for (long it = 0; it < rounds; it++) {
        for (int kind = 0; kind < KINDS; kind++) round_of(kind, it % 3);
    }
    long grown = kilobytes() - before;
    printf("%ld pairs, %ld KiB more\n", rounds * KINDS * AT_ONCE, grown);
    ov_compiled_model_free(compiled);
    ov_model_free(model);
    ov_core_free(core);
    return grown > 4096;
}
