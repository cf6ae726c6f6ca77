/* The C interface of OpenVINO, for programs that are compiled without it. `capi/header` writes this file. */

#ifndef OPENVINO_C_H
#define OPENVINO_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Numbers of ov_element_type_e. */
enum {
  DYNAMIC,
  OV_BOOLEAN,
  BF16,
  F16,
  F32,
  F64,
  I4,
  I8,
  I16,
  I32,
  I64,
  U1,
  U2,
  U3,
  U4,
  U6,
  U8,
  U16,
  U32,
  U64,
  NF4,
  F8E4M3,
  F8E5M3,
  STRING,
  F4E2M1,
  F8E8M0,
};

/* Numbers of ov_color_format_e. */
enum {
  UNDEFINE,
  NV12_SINGLE_PLANE,
  NV12_TWO_PLANES,
  I420_SINGLE_PLANE,
  I420_THREE_PLANES,
  RGB,
  BGR,
  GRAY,
  RGBX,
  BGRX,
};

/* Numbers of ov_preprocess_resize_algorithm_e. */
enum { RESIZE_LINEAR, RESIZE_CUBIC, RESIZE_NEAREST };

/* Numbers of ov_padding_mode_e. */
enum { CONSTANT, EDGE, REFLECT, SYMMETRIC };

/* What the status of a node is that a profile has. */
enum { NOT_RUN, OPTIMIZED_OUT, EXECUTED };

enum ov_status_e
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
  OK = 0,
  GENERAL_ERROR = -1,
  NOT_IMPLEMENTED = -2,
  NETWORK_NOT_LOADED = -3,
  PARAMETER_MISMATCH = -4,
  NOT_FOUND = -5,
  OUT_OF_BOUNDS = -6,
  UNEXPECTED = -7,
  REQUEST_BUSY = -8,
  RESULT_NOT_READY = -9,
  NOT_ALLOCATED = -10,
  INFER_NOT_STARTED = -11,
  NETWORK_NOT_READ = -12,
  INFER_CANCELLED = -13,
  INVALID_C_PARAM = -14,
  UNKNOWN_C_ERROR = -15,
  NOT_IMPLEMENT_C_METHOD = -16,
  UNKNOW_EXCEPTION = -17,
};
#ifndef __cplusplus
typedef int32_t ov_status_e;
#endif // __cplusplus

typedef struct ov_compiled_model_t ov_compiled_model_t;

typedef struct ov_core_t ov_core_t;

typedef struct ov_infer_request_t ov_infer_request_t;

typedef struct ov_layout_t ov_layout_t;

typedef struct ov_model_t ov_model_t;

typedef struct ov_output_const_port_t ov_output_const_port_t;

typedef struct ov_output_port_t ov_output_port_t;

typedef struct ov_preprocess_input_info_t ov_preprocess_input_info_t;

typedef struct ov_preprocess_input_model_info_t ov_preprocess_input_model_info_t;

typedef struct ov_preprocess_input_tensor_info_t ov_preprocess_input_tensor_info_t;

typedef struct ov_preprocess_output_info_t ov_preprocess_output_info_t;

typedef struct ov_preprocess_output_tensor_info_t ov_preprocess_output_tensor_info_t;

typedef struct ov_preprocess_prepostprocessor_t ov_preprocess_prepostprocessor_t;

typedef struct ov_preprocess_preprocess_steps_t ov_preprocess_preprocess_steps_t;

typedef struct ov_remote_context_t ov_remote_context_t;

typedef struct ov_tensor_t ov_tensor_t;

typedef int ov_status_number;

typedef void (*ov_util_log_callback_func)(const char *message);

typedef struct {
  const char *buildNumber;
  const char *description;
} ov_version_t;

typedef struct {
  const char *key;
  const void *value;
} ov_property_t;

typedef struct {
  char **devices;
  size_t size;
} ov_available_devices_t;

typedef struct {
  const char *device_name;
  ov_version_t version;
} ov_core_version_t;

typedef struct {
  ov_core_version_t *versions;
  size_t size;
} ov_core_version_list_t;

typedef struct {
  int64_t min;
  int64_t max;
} ov_dimension_t;

typedef ov_dimension_t ov_rank_t;

typedef struct {
  ov_rank_t rank;
  ov_dimension_t *dims;
} ov_partial_shape_t;

typedef struct {
  int64_t rank;
  int64_t *dims;
} ov_shape_t;

typedef unsigned int ov_element_type_e;

typedef struct {
  void (*callback_func)(void *args);
  void *args;
} ov_callback_t;

typedef struct {
  unsigned int status;
  int64_t real_time;
  int64_t cpu_time;
  const char *node_name;
  const char *exec_type;
  const char *node_type;
} ov_profiling_info_t;

typedef struct {
  ov_profiling_info_t *profiling_infos;
  size_t size;
} ov_profiling_info_list_t;

typedef unsigned int ov_preprocess_resize_algorithm_e;

typedef unsigned int ov_color_format_e;

typedef unsigned int ov_padding_mode_e;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

const char *ov_get_error_info(ov_status_number status);

void ov_free(const char *content);

const char *ov_get_last_err_msg(void);

void ov_util_set_log_callback(ov_util_log_callback_func _func);

void ov_util_reset_log_callback(void);

ov_status_e ov_get_openvino_version(ov_version_t *version);

void ov_version_free(ov_version_t *version);

ov_status_e ov_core_create(ov_core_t **core);

ov_status_e ov_core_create_with_config(const char *xml_config_file, ov_core_t **core);

ov_status_e ov_core_create_with_config_unicode(const wchar_t *xml_config_file_ws, ov_core_t **core);

void ov_core_free(ov_core_t *core);

ov_status_e ov_core_read_model(const ov_core_t *core,
                               const char *model_path,
                               const char *bin_path,
                               ov_model_t **model);

ov_status_e ov_core_read_model_unicode(const ov_core_t *core,
                                       const wchar_t *model_path,
                                       const wchar_t *bin_path,
                                       ov_model_t **model);

ov_status_e ov_core_read_model_from_memory_buffer(const ov_core_t *core,
                                                  const char *model_str,
                                                  size_t str_len,
                                                  const ov_tensor_t *weights,
                                                  ov_model_t **model);

ov_status_e ov_core_add_extension(const ov_core_t *core, const char *path);

ov_status_e ov_core_set_properties(const ov_core_t *core,
                                   const char *device_name,
                                   size_t num_properties,
                                   const ov_property_t *properties);

ov_status_e ov_core_compile_model_props(const ov_core_t *core,
                                        const ov_model_t *model,
                                        const char *device_name,
                                        size_t num_properties,
                                        const ov_property_t *properties,
                                        ov_compiled_model_t **compiled_model);

ov_status_e ov_core_compile_model_from_file_props(const ov_core_t *core,
                                                  const char *model_path,
                                                  const char *device_name,
                                                  size_t num_properties,
                                                  const ov_property_t *properties,
                                                  ov_compiled_model_t **compiled_model);

ov_status_e ov_core_compile_model_from_file_unicode_props(const ov_core_t *core,
                                                          const wchar_t *model_path,
                                                          const char *device_name,
                                                          size_t num_properties,
                                                          const ov_property_t *properties,
                                                          ov_compiled_model_t **compiled_model);

ov_status_e ov_core_get_property(const ov_core_t *core,
                                 const char *device_name,
                                 const char *property_key,
                                 char **property_value);

ov_status_e ov_core_get_available_devices(const ov_core_t *core, ov_available_devices_t *devices);

void ov_available_devices_free(ov_available_devices_t *devices);

ov_status_e ov_core_import_model(const ov_core_t *core,
                                 const char *content,
                                 size_t content_size,
                                 const char *device_name,
                                 ov_compiled_model_t **compiled_model);

ov_status_e ov_core_get_versions_by_device_name(const ov_core_t *core,
                                                const char *device_name,
                                                ov_core_version_list_t *versions);

void ov_core_versions_free(ov_core_version_list_t *versions);

ov_status_e ov_core_create_context_props(const ov_core_t *_core,
                                         const char *_device_name,
                                         size_t _num_properties,
                                         const ov_property_t *_properties,
                                         ov_remote_context_t **_context);

ov_status_e ov_core_compile_model_with_context_props(const ov_core_t *_core,
                                                     const ov_model_t *_model,
                                                     const ov_remote_context_t *_context,
                                                     size_t _num_properties,
                                                     const ov_property_t *_properties,
                                                     ov_compiled_model_t **_compiled_model);

ov_status_e ov_core_get_default_context(const ov_core_t *_core,
                                        const char *_device_name,
                                        ov_remote_context_t **_context);

void ov_shutdown(void);

void ov_model_free(ov_model_t *model);

ov_status_e ov_model_const_input(const ov_model_t *model, ov_output_const_port_t **input_port);

ov_status_e ov_model_const_input_by_name(const ov_model_t *model,
                                         const char *tensor_name,
                                         ov_output_const_port_t **input_port);

ov_status_e ov_model_const_input_by_index(const ov_model_t *model,
                                          size_t index,
                                          ov_output_const_port_t **input_port);

ov_status_e ov_model_input(const ov_model_t *model, ov_output_port_t **input_port);

ov_status_e ov_model_input_by_name(const ov_model_t *model,
                                   const char *tensor_name,
                                   ov_output_port_t **input_port);

ov_status_e ov_model_input_by_index(const ov_model_t *model,
                                    size_t index,
                                    ov_output_port_t **input_port);

ov_status_e ov_model_const_output(const ov_model_t *model, ov_output_const_port_t **output_port);

ov_status_e ov_model_const_output_by_index(const ov_model_t *model,
                                           size_t index,
                                           ov_output_const_port_t **output_port);

ov_status_e ov_model_const_output_by_name(const ov_model_t *model,
                                          const char *tensor_name,
                                          ov_output_const_port_t **output_port);

ov_status_e ov_model_output(const ov_model_t *model, ov_output_port_t **output_port);

ov_status_e ov_model_output_by_index(const ov_model_t *model,
                                     size_t index,
                                     ov_output_port_t **output_port);

ov_status_e ov_model_output_by_name(const ov_model_t *model,
                                    const char *tensor_name,
                                    ov_output_port_t **output_port);

ov_status_e ov_model_inputs_size(const ov_model_t *model, size_t *input_size);

ov_status_e ov_model_outputs_size(const ov_model_t *model, size_t *output_size);

bool ov_model_is_dynamic(const ov_model_t *model);

ov_status_e ov_model_reshape(const ov_model_t *model,
                             const char *const *tensor_names,
                             const ov_partial_shape_t *partial_shapes,
                             size_t size);

ov_status_e ov_model_reshape_input_by_name(const ov_model_t *model,
                                           const char *tensor_name,
                                           ov_partial_shape_t partial_shape);

ov_status_e ov_model_reshape_single_input(const ov_model_t *model,
                                          ov_partial_shape_t partial_shape);

ov_status_e ov_model_reshape_by_port_indexes(const ov_model_t *model,
                                             const size_t *port_indexes,
                                             const ov_partial_shape_t *partial_shape,
                                             size_t size);

ov_status_e ov_model_reshape_by_ports(const ov_model_t *model,
                                      const ov_output_port_t *const *output_ports,
                                      const ov_partial_shape_t *partial_shapes,
                                      size_t size);

ov_status_e ov_model_get_friendly_name(const ov_model_t *model, char **friendly_name);

ov_status_e ov_const_port_get_shape(const ov_output_const_port_t *port, ov_shape_t *tensor_shape);

ov_status_e ov_port_get_shape(const ov_output_port_t *port, ov_shape_t *tensor_shape);

ov_status_e ov_port_get_any_name(const ov_output_const_port_t *port, char **tensor_name);

ov_status_e ov_port_get_partial_shape(const ov_output_const_port_t *port,
                                      ov_partial_shape_t *partial_shape);

ov_status_e ov_port_get_element_type(const ov_output_const_port_t *port,
                                     ov_element_type_e *tensor_type);

void ov_output_port_free(ov_output_port_t *port);

void ov_output_const_port_free(ov_output_const_port_t *port);

ov_status_e ov_compiled_model_inputs_size(const ov_compiled_model_t *compiled_model, size_t *size);

ov_status_e ov_compiled_model_input(const ov_compiled_model_t *compiled_model,
                                    ov_output_const_port_t **input_port);

ov_status_e ov_compiled_model_input_by_index(const ov_compiled_model_t *compiled_model,
                                             size_t index,
                                             ov_output_const_port_t **input_port);

ov_status_e ov_compiled_model_input_by_name(const ov_compiled_model_t *compiled_model,
                                            const char *name,
                                            ov_output_const_port_t **input_port);

ov_status_e ov_compiled_model_outputs_size(const ov_compiled_model_t *compiled_model, size_t *size);

ov_status_e ov_compiled_model_output(const ov_compiled_model_t *compiled_model,
                                     ov_output_const_port_t **output_port);

ov_status_e ov_compiled_model_output_by_index(const ov_compiled_model_t *compiled_model,
                                              size_t index,
                                              ov_output_const_port_t **output_port);

ov_status_e ov_compiled_model_output_by_name(const ov_compiled_model_t *compiled_model,
                                             const char *name,
                                             ov_output_const_port_t **output_port);

ov_status_e ov_compiled_model_get_runtime_model(const ov_compiled_model_t *compiled_model,
                                                ov_model_t **model);

ov_status_e ov_compiled_model_create_infer_request(const ov_compiled_model_t *compiled_model,
                                                   ov_infer_request_t **infer_request);

ov_status_e ov_compiled_model_set_properties(const ov_compiled_model_t *compiled_model,
                                             size_t num_properties,
                                             const ov_property_t *properties);

ov_status_e ov_compiled_model_get_property(const ov_compiled_model_t *compiled_model,
                                           const char *property_key,
                                           char **property_value);

ov_status_e ov_compiled_model_export_model(const ov_compiled_model_t *compiled_model,
                                           const char *export_model_path);

void ov_compiled_model_free(ov_compiled_model_t *compiled_model);

ov_status_e ov_compiled_model_get_context(const ov_compiled_model_t *_compiled_model,
                                          ov_remote_context_t **_context);

ov_status_e ov_infer_request_set_tensor(ov_infer_request_t *infer_request,
                                        const char *tensor_name,
                                        const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_tensor_by_port(ov_infer_request_t *infer_request,
                                                const ov_output_port_t *port,
                                                const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_tensor_by_const_port(ov_infer_request_t *infer_request,
                                                      const ov_output_const_port_t *port,
                                                      const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_input_tensor_by_index(ov_infer_request_t *infer_request,
                                                       size_t idx,
                                                       const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_input_tensor(ov_infer_request_t *infer_request,
                                              const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_output_tensor_by_index(ov_infer_request_t *infer_request,
                                                        size_t idx,
                                                        const ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_output_tensor(ov_infer_request_t *infer_request,
                                               const ov_tensor_t *tensor);

ov_status_e ov_infer_request_get_tensor(const ov_infer_request_t *infer_request,
                                        const char *tensor_name,
                                        ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_tensor_by_const_port(const ov_infer_request_t *infer_request,
                                                      const ov_output_const_port_t *port,
                                                      ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_tensor_by_port(const ov_infer_request_t *infer_request,
                                                const ov_output_port_t *port,
                                                ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_input_tensor_by_index(const ov_infer_request_t *infer_request,
                                                       size_t idx,
                                                       ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_input_tensor(const ov_infer_request_t *infer_request,
                                              ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_output_tensor_by_index(const ov_infer_request_t *infer_request,
                                                        size_t idx,
                                                        ov_tensor_t **tensor);

ov_status_e ov_infer_request_get_output_tensor(const ov_infer_request_t *infer_request,
                                               ov_tensor_t **tensor);

ov_status_e ov_infer_request_infer(ov_infer_request_t *infer_request);

ov_status_e ov_infer_request_cancel(ov_infer_request_t *infer_request);

ov_status_e ov_infer_request_start_async(ov_infer_request_t *infer_request);

ov_status_e ov_infer_request_wait(ov_infer_request_t *infer_request);

ov_status_e ov_infer_request_wait_for(ov_infer_request_t *infer_request, int64_t timeout);

ov_status_e ov_infer_request_set_callback(ov_infer_request_t *infer_request,
                                          const ov_callback_t *callback);

void ov_infer_request_free(ov_infer_request_t *infer_request);

ov_status_e ov_infer_request_get_profiling_info(const ov_infer_request_t *infer_request,
                                                ov_profiling_info_list_t *profiling_infos);

void ov_profiling_info_list_free(ov_profiling_info_list_t *profiling_infos);

ov_status_e ov_tensor_create_from_host_ptr(ov_element_type_e type_,
                                           ov_shape_t shape,
                                           void *host_ptr,
                                           ov_tensor_t **tensor);

ov_status_e ov_tensor_create(ov_element_type_e type_, ov_shape_t shape, ov_tensor_t **tensor);

ov_status_e ov_tensor_set_shape(ov_tensor_t *tensor, ov_shape_t shape);

ov_status_e ov_tensor_create_from_string_array(const char *const *string_array,
                                               size_t array_size,
                                               ov_shape_t shape,
                                               ov_tensor_t **tensor);

ov_status_e ov_tensor_get_shape(const ov_tensor_t *tensor, ov_shape_t *shape);

ov_status_e ov_tensor_get_element_type(const ov_tensor_t *tensor, ov_element_type_e *type_);

ov_status_e ov_tensor_set_string_data(ov_tensor_t *tensor,
                                      const char *const *string_array,
                                      size_t array_size);

ov_status_e ov_tensor_get_size(const ov_tensor_t *tensor, size_t *elements_size);

ov_status_e ov_tensor_get_byte_size(const ov_tensor_t *tensor, size_t *byte_size);

ov_status_e ov_tensor_data(const ov_tensor_t *tensor, void **data);

void ov_tensor_free(ov_tensor_t *tensor);

ov_status_e ov_shape_create(int64_t rank, const int64_t *dims, ov_shape_t *shape);

ov_status_e ov_shape_free(ov_shape_t *shape);

ov_status_e ov_partial_shape_create(int64_t rank,
                                    const ov_dimension_t *dims,
                                    ov_partial_shape_t *partial_shape_obj);

ov_status_e ov_partial_shape_create_dynamic(ov_rank_t rank,
                                            const ov_dimension_t *dims,
                                            ov_partial_shape_t *partial_shape_obj);

ov_status_e ov_partial_shape_create_static(int64_t rank,
                                           const int64_t *dims,
                                           ov_partial_shape_t *partial_shape_obj);

void ov_partial_shape_free(ov_partial_shape_t *partial_shape);

ov_status_e ov_partial_shape_to_shape(ov_partial_shape_t partial_shape, ov_shape_t *shape);

ov_status_e ov_shape_to_partial_shape(ov_shape_t shape, ov_partial_shape_t *partial_shape);

bool ov_partial_shape_is_dynamic(ov_partial_shape_t partial_shape);

const char *ov_partial_shape_to_string(ov_partial_shape_t partial_shape);

bool ov_dimension_is_dynamic(ov_dimension_t dim);

bool ov_rank_is_dynamic(ov_rank_t rank);

ov_status_e ov_layout_create(const char *layout_desc, ov_layout_t **layout);

void ov_layout_free(ov_layout_t *layout);

const char *ov_layout_to_string(const ov_layout_t *layout);

ov_status_e ov_preprocess_prepostprocessor_create(const ov_model_t *model,
                                                  ov_preprocess_prepostprocessor_t **preprocess);

void ov_preprocess_prepostprocessor_free(ov_preprocess_prepostprocessor_t *preprocess);

ov_status_e ov_preprocess_prepostprocessor_get_input_info(const ov_preprocess_prepostprocessor_t *preprocess,
                                                          ov_preprocess_input_info_t **preprocess_input_info);

ov_status_e ov_preprocess_prepostprocessor_get_input_info_by_name(const ov_preprocess_prepostprocessor_t *preprocess,
                                                                  const char *tensor_name,
                                                                  ov_preprocess_input_info_t **preprocess_input_info);

ov_status_e ov_preprocess_prepostprocessor_get_input_info_by_index(const ov_preprocess_prepostprocessor_t *preprocess,
                                                                   size_t tensor_index,
                                                                   ov_preprocess_input_info_t **preprocess_input_info);

void ov_preprocess_input_info_free(ov_preprocess_input_info_t *preprocess_input_info);

ov_status_e ov_preprocess_input_info_get_tensor_info(const ov_preprocess_input_info_t *preprocess_input_info,
                                                     ov_preprocess_input_tensor_info_t **preprocess_input_tensor_info);

void ov_preprocess_input_tensor_info_free(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info);

ov_status_e ov_preprocess_input_info_get_preprocess_steps(const ov_preprocess_input_info_t *preprocess_input_info,
                                                          ov_preprocess_preprocess_steps_t **preprocess_input_steps);

void ov_preprocess_preprocess_steps_free(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps);

ov_status_e ov_preprocess_preprocess_steps_resize(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                  ov_preprocess_resize_algorithm_e resize_algorithm);

ov_status_e ov_preprocess_preprocess_steps_scale(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                 float value);

ov_status_e ov_preprocess_preprocess_steps_scale_multi_channels(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                                const float *values,
                                                                int32_t value_size);

ov_status_e ov_preprocess_preprocess_steps_mean(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                float value);

ov_status_e ov_preprocess_preprocess_steps_mean_multi_channels(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                               const float *values,
                                                               int32_t value_size);

ov_status_e ov_preprocess_preprocess_steps_crop(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                int32_t *begin,
                                                int32_t begin_size,
                                                int32_t *end,
                                                int32_t end_size);

ov_status_e ov_preprocess_preprocess_steps_convert_layout(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                          ov_layout_t *layout);

ov_status_e ov_preprocess_preprocess_steps_reverse_channels(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps);

ov_status_e ov_preprocess_input_tensor_info_set_element_type(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                             ov_element_type_e element_type);

ov_status_e ov_preprocess_input_tensor_info_set_color_format(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                             ov_color_format_e color_format);

ov_status_e ov_preprocess_input_tensor_info_set_color_format_with_subnames(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                                           ov_color_format_e color_format,
                                                                           size_t sub_names_size,
                                                                           const char *const *sub_names);

ov_status_e ov_preprocess_input_tensor_info_set_spatial_static_shape(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                                     size_t input_height,
                                                                     size_t input_width);

ov_status_e ov_preprocess_input_tensor_info_set_memory_type(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                            const char *mem_type);

ov_status_e ov_preprocess_preprocess_steps_convert_element_type(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                                ov_element_type_e element_type);

ov_status_e ov_preprocess_preprocess_steps_convert_color(ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                                         ov_color_format_e color_format);

ov_status_e ov_preprocess_input_tensor_info_set_from(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                     const ov_tensor_t *tensor);

ov_status_e ov_preprocess_input_tensor_info_set_layout(ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info,
                                                       ov_layout_t *layout);

ov_status_e ov_preprocess_prepostprocessor_get_output_info(const ov_preprocess_prepostprocessor_t *preprocess,
                                                           ov_preprocess_output_info_t **preprocess_output_info);

ov_status_e ov_preprocess_prepostprocessor_get_output_info_by_index(const ov_preprocess_prepostprocessor_t *preprocess,
                                                                    size_t tensor_index,
                                                                    ov_preprocess_output_info_t **preprocess_output_info);

ov_status_e ov_preprocess_prepostprocessor_get_output_info_by_name(const ov_preprocess_prepostprocessor_t *preprocess,
                                                                   const char *tensor_name,
                                                                   ov_preprocess_output_info_t **preprocess_output_info);

void ov_preprocess_output_info_free(ov_preprocess_output_info_t *preprocess_output_info);

ov_status_e ov_preprocess_output_info_get_tensor_info(const ov_preprocess_output_info_t *preprocess_output_info,
                                                      ov_preprocess_output_tensor_info_t **preprocess_output_tensor_info);

void ov_preprocess_output_tensor_info_free(ov_preprocess_output_tensor_info_t *preprocess_output_tensor_info);

ov_status_e ov_preprocess_output_set_element_type(ov_preprocess_output_tensor_info_t *preprocess_output_tensor_info,
                                                  ov_element_type_e element_type);

ov_status_e ov_preprocess_input_info_get_model_info(const ov_preprocess_input_info_t *preprocess_input_info,
                                                    ov_preprocess_input_model_info_t **preprocess_input_model_info);

void ov_preprocess_input_model_info_free(ov_preprocess_input_model_info_t *preprocess_input_model_info);

ov_status_e ov_preprocess_input_model_info_set_layout(ov_preprocess_input_model_info_t *preprocess_input_model_info,
                                                      ov_layout_t *layout);

ov_status_e ov_preprocess_prepostprocessor_build(const ov_preprocess_prepostprocessor_t *preprocess,
                                                 ov_model_t **model);

ov_status_e ov_preprocess_preprocess_steps_pad(const ov_preprocess_preprocess_steps_t *preprocess_input_process_steps,
                                               const int32_t *pads_begin,
                                               size_t pads_begin_size,
                                               const int32_t *pads_end,
                                               size_t pads_end_size,
                                               float value,
                                               ov_padding_mode_e mode);

ov_status_e ov_remote_context_create_tensor_props(const ov_remote_context_t *_context,
                                                  ov_element_type_e _type,
                                                  ov_shape_t _shape,
                                                  size_t _num_properties,
                                                  const ov_property_t *_properties,
                                                  ov_tensor_t **_remote_tensor);

ov_status_e ov_remote_context_get_device_name(const ov_remote_context_t *_context,
                                              char **_device_name);

ov_status_e ov_remote_context_get_params(const ov_remote_context_t *_context,
                                         size_t *_size,
                                         char **_params);

ov_status_e ov_remote_context_create_host_tensor(const ov_remote_context_t *_context,
                                                 ov_element_type_e _type,
                                                 ov_shape_t _shape,
                                                 ov_tensor_t **_tensor);

void ov_remote_context_free(ov_remote_context_t *_context);

ov_status_e ov_remote_tensor_get_params(ov_tensor_t *_tensor, size_t *_size, char **_params);

ov_status_e ov_remote_tensor_get_device_name(ov_tensor_t *_remote_tensor, char **_device_name);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* OPENVINO_C_H */

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const ov_property_key_supported_properties;
extern const char *const ov_property_key_available_devices;
extern const char *const ov_property_key_optimal_number_of_infer_requests;
extern const char *const ov_property_key_range_for_async_infer_requests;
extern const char *const ov_property_key_range_for_streams;
extern const char *const ov_property_key_device_full_name;
extern const char *const ov_property_key_device_capabilities;
extern const char *const ov_property_key_model_name;
extern const char *const ov_property_key_optimal_batch_size;
extern const char *const ov_property_key_max_batch_size;
extern const char *const ov_property_key_cache_dir;
extern const char *const ov_property_key_cache_mode;
extern const char *const ov_property_key_cache_encryption_callbacks;
extern const char *const ov_property_key_num_streams;
extern const char *const ov_property_key_inference_num_threads;
extern const char *const ov_property_key_hint_enable_cpu_pinning;
extern const char *const ov_property_key_hint_enable_hyper_threading;
extern const char *const ov_property_key_hint_performance_mode;
extern const char *const ov_property_key_hint_scheduling_core_type;
extern const char *const ov_property_key_hint_inference_precision;
extern const char *const ov_property_key_hint_num_requests;
extern const char *const ov_property_key_log_level;
extern const char *const ov_property_key_hint_model_priority;
extern const char *const ov_property_key_enable_profiling;
extern const char *const ov_property_key_device_priorities;
extern const char *const ov_property_key_hint_execution_mode;
extern const char *const ov_property_key_force_tbb_terminate;
extern const char *const ov_property_key_enable_mmap;
extern const char *const ov_property_key_auto_batch_timeout;
extern const char *const ov_property_key_intel_gpu_config_file;
extern const char *const ov_property_key_intel_gpu_context_type;
extern const char *const ov_property_key_intel_gpu_ocl_context;
extern const char *const ov_property_key_intel_gpu_ocl_context_device_id;
extern const char *const ov_property_key_intel_gpu_tile_id;
extern const char *const ov_property_key_intel_gpu_ocl_queue;
extern const char *const ov_property_key_intel_gpu_va_device;
extern const char *const ov_property_key_intel_gpu_shared_mem_type;
extern const char *const ov_property_key_intel_gpu_mem_handle;
extern const char *const ov_property_key_intel_gpu_dev_object_handle;
extern const char *const ov_property_key_intel_gpu_va_plane;
extern const char *const ov_property_key_intel_auto_device_bind_buffer;
extern const char *const ov_property_key_intel_auto_enable_startup_fallback;
extern const char *const ov_property_key_intel_auto_enable_runtime_fallback;

ov_status_e ov_core_set_property(const ov_core_t *core, const char *device_name, ...);

ov_status_e ov_compiled_model_set_property(const ov_compiled_model_t *compiled_model, ...);

ov_status_e ov_core_compile_model(const ov_core_t *core, const ov_model_t *model, const char *device_name, size_t property_args_size,
                                  ov_compiled_model_t **compiled_model, ...);

ov_status_e ov_core_compile_model_from_file(const ov_core_t *core, const char *model_path, const char *device_name,
                                            size_t property_args_size, ov_compiled_model_t **compiled_model, ...);

ov_status_e ov_core_compile_model_from_file_unicode(const ov_core_t *core, const wchar_t *model_path, const char *device_name,
                                                    size_t property_args_size, ov_compiled_model_t **compiled_model, ...);

ov_status_e ov_core_compile_model_with_context(const ov_core_t *core, const ov_model_t *model, const ov_remote_context_t *context,
                                               size_t property_args_size, ov_compiled_model_t **compiled_model, ...);

ov_status_e ov_core_create_context(const ov_core_t *core, const char *device_name, size_t context_args_size,
                                   ov_remote_context_t **context, ...);

ov_status_e ov_remote_context_create_tensor(const ov_remote_context_t *context, ov_element_type_e type, ov_shape_t shape,
                                            size_t object_args_size, ov_tensor_t **remote_tensor, ...);

ov_status_e ov_preprocess_input_tensor_info_set_color_format_with_subname(
    ov_preprocess_input_tensor_info_t *preprocess_input_tensor_info, ov_color_format_e color_format, size_t sub_names_size, ...);

#ifdef __cplusplus
}
#endif
