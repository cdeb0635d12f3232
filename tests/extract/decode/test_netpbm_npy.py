"""PGM, PPM and .npy against Pillow and NumPy, whole and damaged."""

import numpy as np
import pytest
from PIL import Image

from frames_helper import kept_frames, read, sha256, write_manifest

RNG = np.random.default_rng(5)


def netpbm(kind, values, greatest, comment=""):
    """values: [H, W] or [H, W, 3]"""
    head = f"P{kind}{comment}\n{values.shape[1]} {values.shape[0]}\n{greatest}\n".encode()
    if kind in (2, 3):
        return head + " ".join(map(str, values.ravel())).encode() + b"\n"
    return head + values.astype(">u2" if greatest > 255 else np.uint8).tobytes()


def levels(values):
    """Grey or RGB levels as RGB."""
    return np.ascontiguousarray(values if values.shape[-1] == 3 else np.repeat(values[..., None], 3, -1))


def to_levels(values, low, high):
    return np.floor(np.clip((values.astype(float) - low) / (high - low), 0, 1) * 255 + 0.5).astype(np.uint8)


@pytest.mark.parametrize("greatest", [1, 7, 255, 256, 4095, 65535])
@pytest.mark.parametrize("kind", [2, 3, 5, 6])
@pytest.mark.parametrize("comment", ["", " # a 12 \n#"])
def test_netpbm_equals_pillow(tmp_path, kind, greatest, comment):
    values = RNG.integers(0, greatest + 1, (9, 13, 3) if kind in (3, 6) else (9, 13))
    (tmp_path / "a.pnm").write_bytes(netpbm(kind, values, greatest, comment))
    slot, = read(tmp_path / "a.pnm")["a"]["slots"]
    image = np.asarray(Image.open(tmp_path / "a.pnm")).astype(float)
    if greatest > 255 and kind in (3, 6):  # of which Pillow keeps 8 bits
        expected = to_levels(np.round(values / greatest * 65535), 0, 65535)
        assert np.abs(expected - image).max() <= 1
    else:
        expected = to_levels(image, 0, 65535 if greatest > 255 else 255)
    assert slot["sha256"] == sha256(levels(expected))


def test_netpbm_images_of_a_folder_are_an_exam(tmp_path):
    for i in range(3):
        (tmp_path / "e").mkdir(exist_ok=True)
        (tmp_path / f"e/{i}.pgm").write_bytes(netpbm(5, RNG.integers(0, 256, (4, 5)), 255))
    assert len(read(tmp_path)["e"]["slots"]) == 3


@pytest.mark.parametrize("content, reason", [
    (b"P5 2 2 255\nabc", "truncated"), (b"P6 2 2 255\nabcdefghijk", "truncated"), (b"P5 2 2 256\nabcdefg", "truncated"),
    (b"P2 2 2 9\n1 2 3", "truncated"), (b"P2 2 2 9\n1 2 3 10", "more than 9"), (b"P2 2 2 9\n1 2 3 x", "no whole number"),
    (b"P2 2 2 9\n1 2 3 -1", "no whole number"), (b"P5 2 2 0\nabcd", "greatest value is 0"),
    (b"P5 2 2 70000\nabcdefgh", "more than 65535"), (b"P5 0 2 255\n", "0×2 pixels"), (b"P5 60000 60000 255\nabc", "cannot hold"),
    (b"P5 99999999999 2 255\nabc", "width is more than"), (b"P5 70000 1 255\n" + bytes(70000), "at most 65535 a side"),
    (b"P5 2", "truncated before its height"), (b"P5 2 2 255", "truncated"), (b"P5 # no end", "truncated before its width")])
def test_bad_netpbm_images_are_refused_with_their_reason(tmp_path, content, reason):
    (tmp_path / "a.pgm").write_bytes(content)
    assert reason in read(tmp_path / "a.pgm")["a"]["error"]


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "<f4", ">f4", "<f8"])
@pytest.mark.parametrize("shape", [(7, 9), (4, 7, 9), (4, 7, 9, 3)])
@pytest.mark.parametrize("window", ["file", "100,150", "5%,90%"])
def test_arrays_equal_numpy(tmp_path, dtype, shape, window):
    array = (RNG.random(shape) * 250).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    exam = read(tmp_path / "a.npy", options=[f"--window={window}"])["a"]
    low, high = (0, 255) if dtype == "u1" else (25, 175) if window == "100,150" else np.percentile(array, (5, 90)) if "%" in window \
        else (0, 65535) if dtype[1] == "u" else (array.min(), array.max())
    assert exam["kind"] == "npy"
    frames = array if array.ndim > 2 else array[None]
    if dtype[1] == "f" and "%" in window:  # percentiles are exact to 2^-17
        assert len(exam["slots"]) == len(frames)
        return
    assert [slot["sha256"] for slot in exam["slots"]] == [sha256(levels(to_levels(frame, float(low), float(high)))) for frame in frames]


def test_of_a_truncated_array_whole_frames_are_kept(tmp_path):
    array = (RNG.random((6, 7, 9)) * 250).astype(np.float32)
    np.save(tmp_path / "whole.npy", array)
    content = (tmp_path / "whole.npy").read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / f"{length}.npy").write_bytes(content[:length])
    exams = read(write_manifest(tmp_path, [{"exam": path.stem, "path": path.name} for path in tmp_path.glob("*.npy")]),
                 options=["--window=100,200"])
    whole = exams.pop("whole")["slots"]
    kept = {int(name): kept_frames(exam, whole) for name, exam in exams.items()}
    assert all(count == max(0, length - 128) // (7 * 9 * 4) for length, count in kept.items()), kept


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(600)


@pytest.mark.parametrize("content, reason", [
    (header("{'descr': '<i4', 'fortran_order': False, 'shape': (4, 5)}"), "type <i4"),
    (header("{'descr': '|O', 'fortran_order': False, 'shape': (4, 5)}"), "type |O"),
    (header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 5)}"), "a record"),
    (header("{'descr': '|u1', 'fortran_order': True, 'shape': (4, 5)}"), "Fortran"),
    (header("{'descr': '|u1', 'fortran_order': Xrue, 'shape': (4, 5)}"), "neither True nor False"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (4,,5)}"), "lengths from 1"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}"), "shape is [4]"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 5, 6, 4)}"), "shape is [4, 5, 6, 4]"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 0)}"), "lengths from 1"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (4, x)}"), "lengths from 1"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': 4}"), "no list"),
    (header("{'descr': '|u1', 'fortran_order': False}"), "no 'shape'"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (60000, 60000)}"), "60000×60000 pixels"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000, 5, 6)}"), "at most 1048576"),
    (header("{'descr': '|u1', 'fortran_order': False, 'shape': (900000, 5, 6)}"), "truncated"),
    (header("{'descr': '<f8', 'fortran_order': False, 'shape': (50, 60)}"), "truncated"),
    (b"\x93NUMPY\x09\x00" + bytes(100), "version 9"), (b"\x93NUMPY\x02\x00" + b"\xff" * 4, "bytes long"),
    (b"\x93NUMPY", "truncated")])
def test_bad_arrays_are_refused_with_their_reason(tmp_path, content, reason):
    (tmp_path / "a.npy").write_bytes(content)
    error = read(tmp_path / "a.npy")["a"]["error"]
    assert reason in error and "a.npy" in error
