"""What the generators of `models/` and of `ir/models/` share: arrays, and the files of a model folder."""

import io
import shutil

import numpy as np
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


def pb_files(number, inputs, outputs, names):
    """The files of a data set as ONNX's backend tests have them. The tensors are called as `names` says, of the inputs
    and of the outputs."""
    files = {}
    for kind, arrays, called in zip(["input", "output"], [inputs, outputs], names):
        for k, (array, name) in enumerate(zip(arrays, called, strict=True)):
            tensor = numpy_helper.from_array(np.array(array), name)
            files[f"test_data_set_{number}/{kind}_{k}.pb"] = tensor.SerializeToString(deterministic=True)
    return files


def npz_file(number, inputs, outputs):
    """The one file of a data set of OpenVINO IR. Element types that NumPy does not have itself are bytes in it, which
    this project's reader refuses."""
    arrays = {f"input_{k}": it for k, it in enumerate(inputs)}
    arrays |= {f"output_{k}": it for k, it in enumerate(outputs)}
    # In one order, and strings as such: `object` is for pickles.
    arrays = {name: np.array(it, order="C") for name, it in arrays.items()}
    arrays = {name: it.astype(str) if it.dtype == object else it for name, it in arrays.items()}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return {f"test_data_set_{number}.npz": file.getvalue()}


def write_files(folder, files):
    """Writes a model folder, in place of what is there, unless that says the same."""
    if folder.is_dir() and not stale_files(folder, files):
        return
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
    if path.suffix != ".npz":
        return True
    # Other versions of zlib compress the same arrays to other bytes.
    found, wanted = (dict(np.load(io.BytesIO(it))) for it in (committed, content))
    if list(found) != list(wanted):
        return True
    return any(_differ(name, found[name], wanted[name], tolerance) for name in wanted)


def _differ(name, found, wanted, tolerance):
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return True
    if tolerance is not None and name.startswith("output_") and found.dtype.kind == "f":
        return compare(found, wanted, tolerance) is not None
    return found.tobytes() != wanted.tobytes()
