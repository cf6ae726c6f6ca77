#!/usr/bin/env python3
"""A program of Python that calls the library by ctypes, and prints what it got, as the client in C does.

    client.py LIBRARY MODELS
"""

import ctypes
import struct
import sys
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_void_p

from library import Shape, do, make, ov

F32, I64, U8 = 4, 10, 16


class Dimension(ctypes.Structure):
    _fields_ = [("min", c_int64), ("max", c_int64)]


class PartialShape(ctypes.Structure):
    _fields_ = [("rank", Dimension), ("dims", POINTER(Dimension))]


class Callback(ctypes.Structure):
    FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
    _fields_ = [("function", FUNCTION), ("argument", c_void_p)]


models = sys.argv[2]
ov.ov_core_get_property.argtypes = [c_void_p, c_char_p, c_char_p, POINTER(c_char_p)]


def shape_of(*sizes):
    return Shape(len(sizes), (c_int64 * len(sizes))(*sizes))


def values(what, tensor):
    data, size = c_void_p(), c_size_t()
    do("ov_tensor_data", tensor, byref(data))
    do("ov_tensor_get_byte_size", tensor, byref(size))
    floats = struct.unpack(f"{size.value // 4}f", ctypes.string_at(data, size.value))
    print(f"values {what}:", *floats)


core = make("ov_core_create")
for key, value in [(b"EXECUTION_MODE_HINT", b"ACCURACY"), (b"INFERENCE_PRECISION_HINT", b"f32")]:
    # One with a variable number of arguments.
    do("ov_core_set_property", core, b"CPU", key, value)
text = c_char_p()
do("ov_core_get_property", core, b"CPU", b"EXECUTION_MODE_HINT", byref(text))
print("execution mode", text.value.decode())

# A wide path, as programs of Windows have it.
model = make("ov_core_read_model_unicode", core, f"{models}/networks/unet/model.xml", None)
dims = (Dimension * 4)(Dimension(1, 1), Dimension(3, 3), Dimension(16, 16), Dimension(32, 32))
do("ov_model_reshape_single_input", model, PartialShape(Dimension(4, 4), dims))
# Arguments that a program in C would not pass by registers.
compiled = c_void_p()
settings = [b"PERFORMANCE_HINT", b"LATENCY", b"PERF_COUNT", b"NO"]
do("ov_core_compile_model", core, model, b"CPU", c_size_t(4), byref(compiled), *settings)
request = make("ov_compiled_model_create_infer_request", compiled)
pixels = (ctypes.c_float * (3 * 16 * 32))(*[it * 7 % 11 / 11 for it in range(3 * 16 * 32)])
tensor = c_void_p()
do("ov_tensor_create_from_host_ptr", F32, shape_of(1, 3, 16, 32), pixels, byref(tensor))
do("ov_infer_request_set_input_tensor", request, tensor)
do("ov_infer_request_infer", request)
output = make("ov_infer_request_get_output_tensor", request)
values("unet", output)

# Runs that start each other.
left = 4


@Callback.FUNCTION
def started_again(_):
    global left
    left -= 1
    if left:
        do("ov_infer_request_start_async", request)


callback = Callback(started_again, None)
do("ov_infer_request_set_callback", request, byref(callback))
do("ov_infer_request_start_async", request)
while left:
    do("ov_infer_request_wait", request)
do("ov_infer_request_wait", request)
print("callbacks left", left)
values("unet again", output)

for name, handle in [
    ("ov_tensor_free", output),
    ("ov_tensor_free", tensor),
    ("ov_infer_request_free", request),
    ("ov_compiled_model_free", compiled),
    ("ov_model_free", model),
    ("ov_core_free", core),
]:
    getattr(ov, name)(handle)
