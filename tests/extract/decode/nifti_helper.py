"""Reads volumes with nibabel, and makes volumes to try."""

import nibabel as nib
import numpy as np

from frames_helper import sha256

RNG = np.random.default_rng(11)
NUMBERS = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def levels(values, low, high):
    values = np.asarray(values, float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scaled = np.floor(255 * ((values - low) / (high - low)) + 0.5)
        result = np.where(values >= high, 255, scaled)
        return np.where(values > low, result, 0).astype(np.uint8)


def value_range(image, data, window=None):
    low, high = float(image.header["cal_min"]), float(image.header["cal_max"])
    if window is None and low < high:
        return low, high
    return np.percentile(data[np.isfinite(data)], window or (0.5, 99.5))


def frames(data, axis, chosen=slice(None)):
    """[x, y, z(, t)] in RAS+ as images, time-major."""
    data = data.reshape(data.shape + (1,) * (4 - data.ndim))
    return [np.rot90(np.take(data[..., t], index, axis))
            for t in range(data.shape[3]) for index in range(data.shape[axis])[chosen]]


def expected(path, axis=2, chosen=slice(None), window=None):
    image = nib.load(path)
    canonical = nib.as_closest_canonical(image)
    data = canonical.get_fdata()
    low, high = value_range(image, data, window)
    return [sha256(np.repeat(levels(frame, low, high)[..., None], 3, -1))
            for frame in frames(data, axis, chosen)]


def hashes(exam):
    assert "slots" in exam, exam
    return [slot["sha256"] for slot in exam["slots"]]


def save(path, data, affine=None, kind=nib.Nifti1Image, **header):
    image = kind(data, np.eye(4) if affine is None else affine, dtype=data.dtype)
    for key, value in header.items():
        image.header[key] = value
    nib.save(image, path)


def scaled(path, slope, inter):
    """Writes the two fields over, which nibabel resets when it saves."""
    content = bytearray(path.read_bytes())
    content[112:120] = np.array([slope, inter], "<f4").tobytes()
    path.write_bytes(content)


def noise(dtype, shape=(7, 6, 5)):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return (RNG.normal(0, 1000, shape)).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
