/* The functions with a variable number of arguments, which collect these and call the function of the same purpose that takes an array.
 * `exports.rs` has the names that programs see, which jump here. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef int status;
enum { OK = 0, GENERAL_ERROR = -1, INVALID_C_PARAM = -14 };

struct property {
    const char* key;
    const void* value;
};

/* By value, as in the interface. */
struct shape {
    int64_t rank;
    int64_t* dims;
};

status ov_core_set_properties(const void*, const char*, size_t, const struct property*);
status ov_compiled_model_set_properties(const void*, size_t, const struct property*);
status ov_core_compile_model_props(const void*, const void*, const char*, size_t, const struct property*, void**);
status ov_core_compile_model_from_file_props(const void*, const char*, const char*, size_t, const struct property*, void**);
status ov_core_compile_model_from_file_unicode_props(const void*, const void*, const char*, size_t, const struct property*, void**);
status ov_core_create_context_props(const void*, const char*, size_t, const struct property*, void**);
status ov_core_compile_model_with_context_props(const void*, const void*, const void*, size_t, const struct property*, void**);
status ov_remote_context_create_tensor_props(const void*, unsigned, struct shape, size_t, const struct property*, void**);
status ov_preprocess_input_tensor_info_set_color_format_with_subnames(void*, unsigned, size_t, const char**);

/* More arguments than any program has: a count above it is a mistake, and nothing is read. */
enum { MOST_ARGUMENTS = 1024, ON_STACK = 32 };

/* Collects `count` arguments after the parameter `last` as `properties`, half as many, and gives the status of `call`. A count that is
 * odd or too large is as good as a list that is null: `call` says so. */
#define WITH_PROPERTIES(last, count, call)                                                            \
    struct property few[ON_STACK], *properties = few;                                                 \
    size_t pairs = (count) / 2;                                                                       \
    status result;                                                                                    \
    va_list arguments;                                                                                \
    if ((count) % 2 != 0 || (count) > MOST_ARGUMENTS) {                                               \
        properties = NULL;                                                                            \
        pairs = 1;                                                                                    \
        return (call);                                                                                \
    }                                                                                                 \
    if (pairs > ON_STACK && !(properties = malloc(pairs * sizeof *properties))) return GENERAL_ERROR; \
    va_start(arguments, last);                                                                        \
    for (size_t pair = 0; pair < pairs; pair++) {                                                     \
        properties[pair].key = va_arg(arguments, const char*);                                        \
        properties[pair].value = va_arg(arguments, const void*);                                      \
    }                                                                                                 \
    va_end(arguments);                                                                                \
    result = (call);                                                                                  \
    if (properties != few) free(properties);                                                          \
    return result

status tract_variadic_core_set_property(const void* core, const char* device, ...) {
    WITH_PROPERTIES(device, (size_t)2, ov_core_set_properties(core, device, pairs, properties));
}

status tract_variadic_compiled_model_set_property(const void* compiled, ...) {
    WITH_PROPERTIES(compiled, (size_t)2, ov_compiled_model_set_properties(compiled, pairs, properties));
}

status tract_variadic_core_compile_model(const void* core, const void* model, const char* device, size_t count, void** compiled, ...) {
    WITH_PROPERTIES(compiled, count, ov_core_compile_model_props(core, model, device, pairs, properties, compiled));
}

status tract_variadic_core_compile_model_from_file(const void* core, const char* path, const char* device, size_t count, void** compiled,
                                                   ...) {
    WITH_PROPERTIES(compiled, count, ov_core_compile_model_from_file_props(core, path, device, pairs, properties, compiled));
}

status tract_variadic_core_compile_model_from_file_unicode(const void* core, const void* path, const char* device, size_t count,
                                                           void** compiled, ...) {
    WITH_PROPERTIES(compiled, count, ov_core_compile_model_from_file_unicode_props(core, path, device, pairs, properties, compiled));
}

status tract_variadic_core_create_context(const void* core, const char* device, size_t count, void** context, ...) {
    WITH_PROPERTIES(context, count, ov_core_create_context_props(core, device, pairs, properties, context));
}

status tract_variadic_core_compile_model_with_context(const void* core, const void* model, const void* context, size_t count,
                                                      void** compiled, ...) {
    WITH_PROPERTIES(compiled, count, ov_core_compile_model_with_context_props(core, model, context, pairs, properties, compiled));
}

status tract_variadic_remote_context_create_tensor(const void* context, unsigned type, struct shape shape, size_t count, void** tensor,
                                                   ...) {
    WITH_PROPERTIES(tensor, count, ov_remote_context_create_tensor_props(context, type, shape, pairs, properties, tensor));
}

status tract_variadic_preprocess_set_color_format_with_subname(void* info, unsigned format, size_t count, ...) {
    const char* names[ON_STACK];
    va_list arguments;
    if (count > ON_STACK) return INVALID_C_PARAM;
    va_start(arguments, count);
    for (size_t name = 0; name < count; name++) names[name] = va_arg(arguments, const char*);
    va_end(arguments);
    return ov_preprocess_input_tensor_info_set_color_format_with_subnames(info, format, count, names);
}
