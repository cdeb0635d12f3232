"""NIfTI volumes against nibabel: as_closest_canonical, its scaling, the same window. No value may
differ."""

import gzip
import itertools

import nibabel as nib
import numpy as np
import pytest

from frames_helper import SHARED, read, run, sha256
from nifti_helper import NUMBERS, RNG, expected, frames, hashes, levels, noise, save, scaled


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data here")
@pytest.mark.parametrize("axis,folder", [(0, "nibabel"), (1, "monai"), (2, "")])
def test_real_volumes_equal_nibabels(axis, folder):
    root = SHARED / "data/nifti" / folder
    paths = sorted(root.rglob("*.nii*"))
    exams = read(root, options=[f"--axis={axis}"])
    assert len(exams) == len(paths) == {"nibabel": 8, "monai": 4, "": 20}[folder]
    for name, exam in exams.items():
        path = next(p for p in paths if str(p.relative_to(root)) in
                    (name, name + ".nii", name + ".nii.gz"))
        if name.endswith("row_major.dconn"):
            assert "CIFTI" in exam["error"]
            continue
        assert hashes(exam) == expected(path, axis), name
        print(f"{path.name}: {nib.load(path).shape}, {len(exam['slots'])} frames equal along "
              f"{'xyz'[axis]}")


def test_every_type_byte_order_version_and_compression(tmp_path):
    for dtype, order, kind, suffix in itertools.product(
            NUMBERS, "<>", [nib.Nifti1Image, nib.Nifti2Image], [".nii", ".nii.gz"]):
        name = f"{dtype}{'le' if order == '<' else 'be'}{kind.__name__[5]}{suffix}"
        image = kind(noise(dtype), np.eye(4), kind.header_class(endianness=order))
        image.set_data_dtype(np.dtype(dtype))
        nib.save(image, tmp_path / name)
    exams = read(tmp_path)
    assert len(exams) == 80
    for name, exam in exams.items():
        assert hashes(exam) == expected(tmp_path / name), name


def signed_permutations():
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            affine = np.zeros((4, 4))
            affine[3, 3] = 1
            for row, column in enumerate(order):
                affine[row, column] = signs[row] * (column + 1.5)
            yield affine


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_all_48_orientations_and_oblique_ones(tmp_path, axis):
    oblique = [np.pad(RNG.normal(0, 1, (3, 3)), (0, 1)) + np.diag([0, 0, 0, 1]) for _ in range(60)]
    for number, affine in enumerate([*signed_permutations(), *oblique]):
        image = nib.Nifti1Image(noise("i2"), affine)
        nib.save(image, tmp_path / f"sform{number}.nii")
        image.set_sform(None, 0)
        image.set_qform(affine, 1)
        nib.save(image, tmp_path / f"qform{number}.nii")
    exams = read(tmp_path, options=[f"--axis={axis}"])
    assert len(exams) == 216
    for name, exam in exams.items():
        assert hashes(exam) == expected(tmp_path / f"{name}.nii", axis), name


def test_spacing_follows_the_orientation(tmp_path):
    affine = np.array([[0, 0, 5.0, 0], [2, 0, 0, 0], [0, 3, 0, 0], [0, 0, 0, 1]])
    image = nib.Nifti1Image(noise("i2"), affine)
    for unit in ("mm", "micron", "meter"):
        image.header.set_xyzt_units(unit)
        nib.save(image, tmp_path / f"{unit}.nii")
    for axis, rows_columns in ((0, (3, 2)), (1, (3, 5)), (2, (2, 5))):
        exams = read(tmp_path, options=[f"--axis={axis}"])
        for unit, factor in (("mm", 1), ("micron", 1e-3), ("meter", 1e3)):
            spacing = exams[unit]["slots"][0]["spacing_mm"]
            assert spacing == pytest.approx([factor * each for each in rows_columns])


def test_without_any_orientation_x_is_flipped_as_nibabel_does(tmp_path):
    image = nib.Nifti1Image(noise("i2"), None)
    assert image.header["sform_code"] == image.header["qform_code"] == 0
    nib.save(image, tmp_path / "none.nii")
    assert hashes(read(tmp_path)["none"]) == expected(tmp_path / "none.nii")


SCALINGS = [(2.5, -7), (-0.1, 3), (0, 5), (np.nan, 2), (np.inf, 0), (1, 0), (1e-20, 0), (3e8, -1)]


@pytest.mark.parametrize("window", [None, (0.5, 99.5), (0, 100), (30, 31)])
def test_scalings_and_percentiles(tmp_path, window):
    for number, (slope, inter) in enumerate(SCALINGS):
        for dtype in NUMBERS:
            path = tmp_path / f"{dtype}_{number}.nii"
            save(path, noise(dtype))
            scaled(path, slope, inter)
    options = [] if window is None else [f"--window={window[0]}%,{window[1]}%"]
    exams = read(tmp_path, options=options)
    assert len(exams) == len(SCALINGS) * len(NUMBERS)
    for name, exam in exams.items():
        assert hashes(exam) == expected(tmp_path / f"{name}.nii", window=window), name


def test_values_that_are_no_numbers(tmp_path):
    data = noise("f4")
    data[0, :, 0], data[1, 1, 1], data[2, 2, 2] = np.nan, np.inf, -np.inf
    save(tmp_path / "some.nii", data)
    save(tmp_path / "none.nii", np.full((3, 3, 3), np.nan, "f4"))
    save(tmp_path / "constant.nii", np.full((3, 3, 3), 4, "f4"))
    exams = read(tmp_path)
    assert hashes(exams["some"]) == expected(tmp_path / "some.nii")
    assert hashes(exams["constant"]) == expected(tmp_path / "constant.nii")
    assert "none of its values is a finite number" in exams["none"]["error"]


def test_windows(tmp_path):
    data = noise("i2")
    save(tmp_path / "cal.nii", data, cal_min=-100, cal_max=9000)
    assert hashes(read(tmp_path)["cal"]) == expected(tmp_path / "cal.nii")
    fixed = [sha256(np.repeat(levels(frame, 20, 60)[..., None], 3, -1)) for frame in
             frames(data, 2)]
    assert hashes(read(tmp_path, options=["--window=40,40"])["cal"]) == fixed
    assert hashes(read(tmp_path, options=["--window=1%,99%"])["cal"]) == \
        expected(tmp_path / "cal.nii", window=(1, 99))


@pytest.mark.parametrize("unit,seconds", [("sec", 2.5), ("msec", 0.0025), ("usec", 2.5e-6),
                                          ("unknown", None)])
def test_time_points(tmp_path, unit, seconds):
    image = nib.Nifti1Image(noise("i2", (4, 5, 6, 3)), np.eye(4))
    image.header.set_xyzt_units("mm", unit)
    image.header.set_zooms((1, 1, 1, 2.5))
    path = tmp_path / "series.nii.gz"
    nib.save(image, path)
    exam = read(tmp_path, options=["--slices=1:5:2"])["series"]
    assert hashes(exam) == expected(path, chosen=slice(1, 5, 2))
    times = [slot["time_s"] for slot in exam["slots"]]
    wanted = [None if seconds is None else t * seconds for t in (0, 0, 1, 1, 2, 2)]
    assert times == pytest.approx(wanted)
    selected = read(tmp_path, frames=5)["series"]
    everything = expected(path)
    assert hashes(selected) == [everything[slot["index"]] for slot in selected["slots"]]
    assert [slot["index"] for slot in selected["slots"]] == [0, 4, 8, 13, 17]


def test_colours_and_vectors(tmp_path):
    rgb = noise("u1", (4, 5, 6, 3))
    structured = np.ascontiguousarray(rgb).view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    save(tmp_path / "rgb24.nii", structured)
    rgba = np.concatenate([rgb, noise("u1", (4, 5, 6, 1))], -1)
    save(tmp_path / "rgba32.nii", np.ascontiguousarray(rgba).view(
        [("R", "u1"), ("G", "u1"), ("B", "u1"), ("A", "u1")])[..., 0])
    vector = noise("f4", (4, 5, 6, 3))
    save(tmp_path / "vector.nii", vector, intent_code=1007, cal_min=-1000, cal_max=1000)
    save(tmp_path / "vector5d.nii", vector[:, :, :, None], intent_code=1007, cal_min=-1000,
         cal_max=1000)
    save(tmp_path / "time.nii", vector)
    moving = noise("f4", (4, 5, 6, 2, 3))
    save(tmp_path / "moving.nii.gz", moving, cal_min=-1000, cal_max=1000)

    def colour(volume):
        return [sha256(np.rot90(volume[:, :, z])) for z in range(6)]

    exams = read(tmp_path)
    assert hashes(exams["rgb24"]) == hashes(exams["rgba32"]) == colour(rgb)
    shown = colour(levels(vector, -1000, 1000))
    assert hashes(exams["vector"]) == hashes(exams["vector5d"]) == shown
    assert hashes(exams["moving"]) == sum(
        (colour(levels(moving[:, :, :, t], -1000, 1000)) for t in range(2)), [])
    assert hashes(exams["time"]) == expected(tmp_path / "time.nii")


def test_pairs_and_trailing_dimensions_and_extensions(tmp_path):
    pair = nib.Nifti1Pair(noise("i2"), np.eye(4))
    nib.save(pair, tmp_path / "pair.img")
    nib.save(nib.Nifti1Pair(noise("i2"), np.eye(4)), tmp_path / "packed.img.gz")
    save(tmp_path / "seven.nii", noise("i2", (4, 5, 6, 2, 1, 1, 1)))
    extended = nib.Nifti1Image(noise("i2"), np.eye(4))
    extended.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"x" * 100))
    nib.save(extended, tmp_path / "extended.nii")
    save(tmp_path / "flat.nii", noise("i2", (4, 5)))
    exams = read(tmp_path)
    assert hashes(exams["pair"]) == expected(tmp_path / "pair.img")
    assert hashes(exams["packed"]) == expected(tmp_path / "packed.img.gz")
    seven = nib.load(tmp_path / "seven.nii").get_fdata()[..., 0, 0, 0]
    assert hashes(exams["seven"]) == [
        sha256(np.repeat(levels(frame, *np.percentile(seven, (0.5, 99.5)))[..., None], 3, -1))
        for frame in frames(seven, 2)]
    assert hashes(exams["extended"]) == expected(tmp_path / "extended.nii")
    assert len(exams["flat"]["slots"]) == 1


def test_slices_that_take_several_passes(tmp_path):
    """One pass gathers 64 MiB; this time point has 84 MB."""
    small = noise("u1", (128, 128, 10))
    data = np.tile(small, (8, 8, 8))
    save(tmp_path / "large.nii", data)
    with gzip.open(tmp_path / "packed.nii.gz", "wb", compresslevel=1) as file:
        file.write((tmp_path / "large.nii").read_bytes())
    for axis in (0, 2):
        exams = read(tmp_path, options=[f"--axis={axis}", "--window=127.5,255"])
        assert hashes(exams["large"]) == hashes(exams["packed"]) == [
            sha256(np.repeat(frame[..., None], 3, -1)) for frame in frames(data, axis)]


def peak_bytes(path, *options):
    done = run(path, options=["--peak", *options])
    assert '"slots"' in done.stdout
    return int(done.stderr)


@pytest.mark.parametrize("axis", [0, 2])
def test_memory_is_bounded(tmp_path, axis):
    shape, block = (256, 256, 64, 16), noise("f4", (256, 256, 8))
    image = nib.Nifti1Image(np.zeros((1, 1, 1), "f4"), np.eye(4))
    image.header.set_data_shape(shape)
    with open(tmp_path / "series.nii", "wb") as file:
        image.header.write_to(file)
        file.write(bytes(4))
        for _ in range(8 * 16):
            file.write(block.tobytes(order="F"))
    size = (tmp_path / "series.nii").stat().st_size
    assert size > 256 << 20
    save(tmp_path / "tiny.nii", noise("f4"))
    base = peak_bytes(tmp_path / "tiny.nii")
    peak = peak_bytes(tmp_path / "series.nii", f"--axis={axis}")
    print(f"{size >> 20} MiB along axis {axis}: peak {peak >> 20} MiB, of a tiny file {base >> 20}")
    assert peak - base < 24 << 20
