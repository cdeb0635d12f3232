"""Order, number, times, colour and shape of frames of stacks, volumes and clips, against the libraries that wrote them."""

import json

import nibabel
import numpy as np
import pytest
import tifffile

from frames_helper import SHARED, read, run, sha256, write_manifest
from nifti_helper import hashes

RNG = np.random.default_rng(11)
CASES = SHARED / "cases"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="needs ../shared/cases")


def one(path, *options):
    (exam,) = read(path, 0, options).values()
    assert "error" not in exam, exam["error"]
    return exam


def times(exam):
    return [slot["time_s"] for slot in exam["slots"]]


def grey(page):
    """As a frame shows it: 16 bits from 0 to 65535, the half up."""
    levels = page if page.dtype == np.uint8 else np.floor(page.astype(float) * 255 / 65535 + 0.5).astype(np.uint8)
    return sha256(np.repeat(levels[..., None], 3, -1) if levels.ndim == 2 else levels)


def behind_one_directory(path, stack, **description):
    """As ImageJ writes what has more than 4 GB: one directory, and all images behind one another."""
    text = "ImageJ=1.53t\n" + "".join(f"{key}={value}\n" for key, value in {"images": len(stack), **description}.items())
    tifffile.imwrite(path, stack[:1], byteorder=">", photometric="rgb" if stack.ndim == 4 else "minisblack",
                     description=text, metadata=None)
    with tifffile.TiffFile(path) as file:
        offset, size = file.pages[0].dataoffsets[0], stack[0].nbytes
    content = bytearray(path.read_bytes())
    assert offset + size == len(content)
    path.write_bytes(content[:offset] + stack.astype(stack.dtype.newbyteorder(">")).tobytes())


@pytest.mark.parametrize("shape, kind", [((7, 20, 30), "u1"), ((5, 33, 17), "u2"), ((4, 9, 11, 3), "u1")])
def test_images_behind_one_directory_are_all_read(tmp_path, shape, kind):
    stack = RNG.integers(0, np.iinfo(kind).max, shape).astype(kind)
    behind_one_directory(tmp_path / "a.tif", stack, frames=shape[0], finterval="250.0", tunit="ms")
    exam = one(tmp_path / "a.tif")
    assert exam["kind"] == "stack" and hashes(exam) == [grey(page) for page in stack]
    assert times(exam) == [i / 4 for i in range(len(stack))]
    if stack.ndim == 3:
        assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), stack)


def test_of_images_that_are_cut_off_the_whole_ones_are_read(tmp_path):
    stack = RNG.integers(0, 255, (7, 20, 30)).astype("u1")
    behind_one_directory(tmp_path / "a.tif", stack, frames=7)
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[:-1000])
    slots = one(tmp_path / "a.tif")["slots"]
    assert [slot["present"] for slot in slots] == [True] * 5 + [False] * 2
    assert [slot["sha256"] for slot in slots[:5]] == [grey(page) for page in stack[:5]]
    assert "states 7 images, and it holds 6" in slots[6]["fault"]
    (tmp_path / "a.tif").write_bytes(content[:-6 * stack[0].nbytes])  # a single image that kept the text
    assert len(one(tmp_path / "a.tif")["slots"]) == 1


def channels_of(path, *options):
    """{name: (times, hashes)} of a stack's streams, by the manifest's frame column that names them."""
    exam = one(path, *options)
    done = run(path, 0, options)
    assert "hold" in done.stderr and "train --streams" in done.stderr, done.stderr
    streams = {}
    for slot, name in zip(exam["slots"], exam["streams"], strict=True):
        streams.setdefault(name, ([], []))[0].append(slot["time_s"])
        streams[name][1].append(slot["sha256"])
    return streams


@pytest.mark.parametrize("axes, shape, interval", [("TCYX", (6, 2, 16, 20), 2.0), ("TZCYX", (3, 2, 3, 12, 10), 0.5)])
@pytest.mark.parametrize("writer", ["imagej", "ome", "ome, other order"])
def test_channels_are_streams(tmp_path, axes, shape, interval, writer):
    stack = RNG.integers(0, 255, shape).astype("u1")
    path = tmp_path / "a.tif"
    stated = {"axes": axes}
    if writer == "imagej":
        stated["finterval"] = interval
        tifffile.imwrite(path, stack, imagej=True, metadata=stated)
    else:
        if writer != "ome":  # channels last, and times within them
            order = "C" + axes.replace("C", "")
            stack = np.moveaxis(stack, axes.index("C"), 0)
            stated["axes"] = order
        stated |= {"TimeIncrement": interval * 1000, "TimeIncrementUnit": "ms"}
        if writer == "ome":
            stated["Channel"] = {"Name": ["FA", "ICGA", "red"][:shape[axes.index("C")]]}
        tifffile.imwrite(path, stack, ome=True, metadata=stated)
        if writer != "ome":
            stack = np.moveaxis(stack, 0, axes.index("C"))
    per_time = int(np.prod(shape[1:axes.index("C")]))
    names = (["FA", "ICGA", "red"] if writer == "ome" else ["channel0", "channel1", "channel2"])[:shape[axes.index("C")]]
    streams = channels_of(path)
    assert list(streams) == names
    for i, name in enumerate(names):
        pages = np.take(stack, i, axes.index("C")).reshape(-1, *shape[-2:])
        found, pixels = streams[name]
        assert pixels == [grey(page) for page in pages]
        assert found == pytest.approx([t * interval for t in range(shape[0]) for _ in range(per_time)], abs=1e-12)


def test_times_of_planes_come_before_the_interval(tmp_path):
    stack = RNG.integers(0, 255, (4, 8, 9)).astype("u1")
    deltas = [0.5, 1.25, 3.0, 3.125]
    tifffile.imwrite(tmp_path / "a.tif", stack, ome=True, metadata={
        "axes": "TYX", "TimeIncrement": 9.0, "Plane": {"DeltaT": deltas, "DeltaTUnit": ["s"] * 4}})
    assert times(one(tmp_path / "a.tif")) == [0, 0.75, 2.5, 2.625]


def test_a_selection_takes_instants_and_keeps_all_channels(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((6, 2, 8, 8), "u1"), imagej=True, metadata={"axes": "TCYX", "finterval": 2.0})
    (exam,) = read(tmp_path / "a.tif", 3).values()
    assert [slot["index"] for slot in exam["slots"]] == [0, 1, 4, 5, 10, 11]
    (exam,) = read(tmp_path / "a.tif", 0, ["--start=2", "--end=6"]).values()
    assert [slot["index"] for slot in exam["slots"]] == [2, 3, 4, 5] and times(exam) == [2, 2, 4, 4]


def test_a_manifest_may_hold_stacks_of_channels(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((3, 2, 8, 8), "u1"), imagej=True, metadata={"axes": "TCYX", "finterval": 2.0})
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((3, 8, 8), "u1"), photometric="minisblack")
    rows = [{"exam": "a", "path": "a.tif", "time": "10", "frame": ""}, {"exam": "b", "path": "b.tif", "time": "", "frame": ""},
            {"exam": "some", "path": "a.tif", "time": "", "frame": "2-3"}]
    exams = read(write_manifest(tmp_path, rows))
    assert exams["a"]["streams"] == ["channel0", "channel1"] * 3 and times(exams["a"]) == [0, 0, 2, 2, 4, 4]
    assert exams["b"]["streams"] == [""] and len(exams["some"]["slots"]) == 2
    rows = [{"exam": "a", "path": "a.tif", "stream": "FA"}]
    done = run(write_manifest(tmp_path, rows), 0, ["stream", "--streams=stream"])
    assert done.returncode == 3 and "its row names one stream, 'FA'" in done.stderr, done.stderr


def test_descriptions_that_do_not_fit_are_refused_in_words(tmp_path):
    stack = np.zeros((5, 8, 8), "u1")
    text = "ImageJ=1.53t\nimages=6\nchannels=2\nframes=3\n"
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="minisblack", description=text, metadata=None)
    (exam,) = read(tmp_path / "a.tif").values()
    assert "2 channels of 1 slices at 3 times in 6 images, and it has 5 pages" in exam["error"]
    with tifffile.TiffWriter(tmp_path / "b.tif", ome=True) as writer:
        writer.write(stack, photometric="minisblack")
        writer.write(stack, photometric="minisblack")
    (exam,) = read(tmp_path / "b.tif").values()
    assert "describes 2 images in it" in exam["error"]


def nifti(path, values, affine=np.diag([-2.0, 2, 3, 1]), change=lambda header: None):
    image = nibabel.Nifti1Image(values, affine)
    change(image.header)
    nibabel.save(image, path)


@pytest.mark.parametrize("broken", [0.0, np.nan])
def test_a_qform_holds_where_the_sform_is_singular(tmp_path, broken):
    values = RNG.integers(0, 255, (12, 9, 5)).astype("u1")
    turned = nibabel.affines.from_matvec(np.array([[0, 0, 3.0], [-2, 0, 0], [0, 2, 0]]), [1, 2, 3])
    nifti(tmp_path / "whole.nii", values, turned)
    content = bytearray((tmp_path / "whole.nii").read_bytes())
    content[252:256] = np.array([1, 1], "<i2").tobytes()
    content[280:328] = np.full(12, broken, "<f4").tobytes()
    (tmp_path / "zero.nii").write_bytes(content)
    assert hashes(one(tmp_path / "zero.nii")) == hashes(one(tmp_path / "whole.nii"))


def colour_slices(rgb):
    """rgb: [X, Y, Z, 3], x to the right."""
    return [sha256(np.ascontiguousarray(np.rot90(rgb[:, :, z]))) for z in range(rgb.shape[2])]


@pytest.mark.parametrize("shape, intent", [((7, 5, 4, 3), 2003), ((6, 8, 3, 4), 2004), ((7, 5, 4, 1, 3), 0), ((5, 5, 3, 1, 3), 2003)])
def test_colour_of_a_volume_is_one_frame_a_slice(tmp_path, shape, intent):
    values = RNG.integers(0, 255, shape).astype("u1")
    nifti(tmp_path / "a.nii.gz", values, np.diag([2.0, 2, 3, 1]), lambda header: header.__setitem__("intent_code", intent))
    assert hashes(one(tmp_path / "a.nii.gz")) == colour_slices(values.reshape(*shape[:3], -1)[..., :3])


@needs_cases
@pytest.mark.parametrize("name", ["23_imagej_one_directory/cut.tif", "23_imagej_one_directory/whole.tif"])
def test_case_of_an_imagej_stack(name):
    expected = json.loads((CASES / "expected.json").read_text())["23"]
    exam = one(CASES / name)
    assert hashes(exam) == [grey(page) for page in tifffile.imread(CASES / name)]
    assert times(exam) == expected["times_from_finterval"]


@needs_cases
@pytest.mark.parametrize("name", ["a.ome.tif", "imagej.tif"])
def test_case_of_channels_in_pages(name):
    expected = json.loads((CASES / "expected.json").read_text())["24"]
    stack = tifffile.imread(CASES / "24_channels_in_pages" / name)
    for i, (found, pixels) in enumerate(channels_of(CASES / "24_channels_in_pages" / name).values()):
        assert found == expected["times_s"] and pixels == [grey(page) for page in stack[:, i]]


@needs_cases
def test_case_of_an_sform_of_zeros():
    folder = CASES / "25_sform_of_zeros"
    assert hashes(one(folder / "zero.nii")) == hashes(one(folder / "whole.nii.gz"))
