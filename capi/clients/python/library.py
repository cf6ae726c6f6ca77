"""The library whose path is the first argument, for the clients here."""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_void_p

import numpy as np

# The numbers of element types, and those that NumPy has.
TYPES = {1: "?", 3: "f2", 4: "f4", 5: "f8", 7: "i1", 8: "i2", 9: "i4", 10: "i8", 16: "u1", 17: "u2", 18: "u4", 19: "u8"}
NUMBERS = {np.dtype(name): number for number, name in TYPES.items()}


class Shape(ctypes.Structure):
    _fields_ = [("rank", c_int64), ("dims", POINTER(c_int64))]


ov = ctypes.CDLL(sys.argv[1])
ov.ov_get_last_err_msg.restype = c_char_p


class Failed(Exception):
    pass


def do(name, *arguments):
    if getattr(ov, name)(*arguments) != 0:
        raise Failed(f"{name}: {(ov.ov_get_last_err_msg() or b'no message').decode()}")


def make(name, *arguments):
    made = c_void_p()
    do(name, *arguments, byref(made))
    return made


def exact_core():
    """One that computes floats as they are, and not in bf16."""
    core = make("ov_core_create")
    for key, value in {b"EXECUTION_MODE_HINT": b"ACCURACY", b"INFERENCE_PRECISION_HINT": b"f32"}.items():
        do("ov_core_set_property", core, b"CPU", key, value)
    return core


def tensor_of(array):
    if array.dtype.kind in "UO":
        texts = (c_char_p * array.size)(*[str(text).encode() for text in array.flat])
        shape = Shape(array.ndim, (c_int64 * max(array.ndim, 1))(*array.shape))
        return make("ov_tensor_create_from_string_array", texts, c_size_t(array.size), shape)
    shape = Shape(array.ndim, (c_int64 * max(array.ndim, 1))(*array.shape))
    return make("ov_tensor_create_from_host_ptr", NUMBERS[array.dtype], shape, c_void_p(array.ctypes.data))


def array_of(tensor):
    shape, number, data, size = Shape(), ctypes.c_uint(), c_void_p(), c_size_t()
    do("ov_tensor_get_shape", tensor, byref(shape))
    do("ov_tensor_get_element_type", tensor, byref(number))
    do("ov_tensor_get_byte_size", tensor, byref(size))
    do("ov_tensor_data", tensor, byref(data))
    sizes = [shape.dims[axis] for axis in range(shape.rank)]
    ov.ov_shape_free(byref(shape))
    return np.frombuffer(ctypes.string_at(data, size.value), TYPES[number.value]).reshape(sizes)
