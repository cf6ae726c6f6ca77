"""What the generators of `models/` and of `ir/models/` share: arrays, and the files of a model folder."""

import shutil

import numpy as np
import onnx
from onnx import numpy_helper

# --- arrays ---------------------------------------------------------------------------------------


def f32(values):
    return np.array(values, np.float32)


def i32(values):
    return np.array(values, np.int32)


def i64(values):
    return np.array(values, np.int64)


def offsets(*shape, dtype=np.float32):
    """A tensor whose elements are their own offsets."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def compare(found, wanted, tolerance):
    """None, or how two arrays differ."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shapes {found.shape} and {wanted.shape}"
    if found.dtype.kind in "biuU":
        same = found == wanted
    else:
        if found.dtype == np.float16:
            tolerance = max(tolerance, 2e-3)
        with np.errstate(all="ignore"):
            same = np.isclose(
                found.astype(np.float64),
                wanted.astype(np.float64),
                rtol=tolerance,
                atol=tolerance / 10,
                equal_nan=True,
            )
            same &= (found != 0) | (wanted != 0) | (np.signbit(found) == np.signbit(wanted))
    if np.all(same):
        return None
    return f"{found.tolist()} and {wanted.tolist()}"


# --- files ----------------------------------------------------------------------------------------


def data_set_files(number, inputs, outputs, names=None):
    """The files of a data set. The tensors are called as `names` says, of the inputs and of the outputs, or as
    their files are."""
    files = {}
    for kind, arrays, called in zip(["input", "output"], [inputs, outputs], names or [None, None]):
        called = called or [f"{kind}_{k}" for k in range(len(arrays))]
        for k, (array, name) in enumerate(zip(arrays, called, strict=True)):
            tensor = numpy_helper.from_array(np.array(array), name)
            files[f"test_data_set_{number}/{kind}_{k}.pb"] = tensor.SerializeToString(deterministic=True)
    return files


def write_files(folder, files):
    """Writes a model folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def stale_files(folder, files, tolerance=None):
    """The files of a model folder that are not those that would be written: others, missing ones, more. With a
    tolerance, the floats of outputs may differ as much."""
    there = {str(it.relative_to(folder)) for it in folder.rglob("*.*") if it.is_file()}
    stale = [name for name, content in files.items() if _is_stale(folder / name, content, tolerance)]
    return [*stale, *sorted(there - files.keys())]


def _is_stale(path, content, tolerance):
    if not path.exists():
        return True
    committed = path.read_bytes()
    if committed == content:
        return False
    if tolerance is None or not path.name.startswith("output_"):
        return True
    arrays = [numpy_helper.to_array(onnx.TensorProto.FromString(it)) for it in (committed, content)]
    if arrays[0].dtype != arrays[1].dtype or arrays[0].dtype.kind != "f":
        return True
    return compare(*arrays, tolerance) is not None
