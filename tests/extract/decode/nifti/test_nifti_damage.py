"""Volumes that are damaged, impossible or of a variety that is not read: each is refused with its
reason, and nothing crashes."""

import gzip

import nibabel as nib
import numpy as np
import pytest

from frames_helper import kept_frames, read, run, write_manifest
from nifti_helper import hashes


def header(**changes):
    """A valid file of 4×5×6 int16, with fields of its header overwritten."""
    image = nib.Nifti1Image(np.arange(120, dtype="i2").reshape(4, 5, 6), np.eye(4))
    content = bytearray(image.to_bytes())
    raw = np.frombuffer(content, nib.Nifti1Header.template_dtype, 1)
    for key, value in changes.items():
        raw[key][0] = value
    return bytes(content)


def dims(*values):
    return [len(values), *values, *[1] * (7 - len(values))]


BAD = {
    "eight": (header(dim=[8, 4, 5, 6, 1, 1, 1, 1]), "8 dimensions, not 1 to 7"),
    "negative": (header(dim=dims(4, -5, 6)), "dimension 2 has a length of -5"),
    "zero": (header(dim=dims(4, 0, 6)), "dimension 2 has a length of 0"),
    "huge": (header(dim=dims(*[32767] * 5)), "more than 2^48 voxels"),
    "large": (header(dim=dims(3000, 3000, 300)), "truncated: its header asks for 5400000352 bytes"),
    "components": (header(dim=dims(4, 5, 3, 1, 2)), "2 components"),
    "six": (header(dim=dims(4, 5, 3, 1, 1, 2)), "more than 5 dimensions"),
    "complex": (header(datatype=32), "type NIFTI_TYPE_COMPLEX64 (32), which is not read"),
    "float128": (header(datatype=1536), "type NIFTI_TYPE_FLOAT128"),
    "binary": (header(datatype=1), "type DT_BINARY"),
    "unknown": (header(datatype=77), "(77), which is not read"),
    "offset": (header(vox_offset=-3), "voxels start at byte -3"),
    "far": (header(vox_offset=1e9), "truncated: its header asks for"),
    "nan_offset": (header(vox_offset=np.nan), "voxels start at byte"),
    "singular": (header(sform_code=1, srow_x=0), "singular"),
    "nan_affine": (header(sform_code=1, srow_x=np.nan), "singular"),
    "intercept": (header(scl_slope=2, scl_inter=np.nan), "its scaling is damaged"),
    "magic": (header(magic=b"n+9"), "no NIfTI-1 or NIfTI-2 header"),
    "pair": (header(magic=b"ni1"), "ends with .img, which is not there"),
    "short": (header()[:380], "truncated: its header asks for 592 bytes, and it holds at most 380"),
    "empty_header": (header()[:100], "its first 100 bytes are no NIfTI"),
}


def test_bad_headers_are_refused_with_their_reason(tmp_path):
    for name, (content, _) in BAD.items():
        (tmp_path / f"{name}.nii").write_bytes(content)
        (tmp_path / f"{name}_gz.nii.gz").write_bytes(gzip.compress(content))
    exams = read(tmp_path)
    for name, (_, reason) in BAD.items():
        error = exams[name].get("error", "was read")
        assert reason in error and f"{name}.nii" in error, (name, error)
        assert "error" in exams[f"{name}_gz"]


def test_of_a_pair_both_files_are_named(tmp_path):
    nib.save(nib.Nifti1Pair(np.zeros((4, 5, 6), "i2"), np.eye(4)), tmp_path / "pair.img")
    (tmp_path / "pair.img").write_bytes(b"short")
    error = read(tmp_path)["pair"]["error"]
    assert "pair.hdr' with '" in error and "pair.img': it is truncated" in error


def test_options_that_the_volume_cannot_meet(tmp_path):
    (tmp_path / "good.nii").write_bytes(header())
    for slices in ("6:-1:1", "0:7:1", "3:3:1", "0:-1:0"):
        error = read(tmp_path, options=[f"--slices={slices}"])["good"]["error"]
        assert "it has 6 slices along z; --slices asks for" in error


@pytest.mark.parametrize("axis", ["0", "1", "2"])
@pytest.mark.parametrize("upside_down", [False, True])
def test_of_a_truncated_volume_whole_slices_are_kept(tmp_path, axis, upside_down):
    voxels = np.random.default_rng(3).integers(0, 255, (6, 5, 8, 2), np.uint8)
    nib.save(nib.Nifti1Image(voxels, np.diag([1, 1, -1 if upside_down else 1, 1])), tmp_path / "whole.nii")
    content = (tmp_path / "whole.nii").read_bytes()
    for length in np.linspace(len(content) // 2, len(content) - 9, 30).astype(int):
        (tmp_path / f"{length}.nii").write_bytes(content[:length])
    exams = read(tmp_path, options=[f"--axis={axis}", "--window=127,255"])
    whole = exams.pop("whole")["slots"]
    kept = {int(name): kept_frames(exam, whole) for name, exam in exams.items()}
    assert kept[max(kept)] >= (15 if axis == "2" else 5)
    assert all("volume" in slot["fault"] for exam in exams.values() for slot in exam.get("slots", []) if slot["fault"])


def test_a_damaged_compressed_volume_leaves_the_others_of_its_exam(tmp_path):
    rng = np.random.default_rng(3)
    for name in "abc":
        nib.save(nib.Nifti1Image(rng.integers(0, 255, (6, 5, 4), np.uint8), np.eye(4)), tmp_path / f"{name}.nii.gz")
    manifest = write_manifest(tmp_path, [{"exam": "e", "path": f"{name}.nii.gz"} for name in "abc"])
    whole = read(manifest, options=["--window=0,255"])["e"]["slots"]
    content = (tmp_path / "b.nii.gz").read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(content[:-9])
    slots = read(manifest, options=["--window=0,255"])["e"]["slots"]
    assert [slot["sha256"] for slot in slots[:4] + slots[5:]] == [slot["sha256"] for slot in whole[:4] + whole[8:]]
    assert "b.nii.gz" in slots[4]["fault"]  # lost at its opening, as one frame


def test_the_window_of_a_truncated_volume_is_that_of_its_values(tmp_path):
    voxels = np.random.default_rng(3).integers(0, 255, (50, 40, 8), np.uint8)
    nib.save(nib.Nifti1Image(voxels, np.eye(4)), tmp_path / "whole.nii")
    (tmp_path / "cut.nii").write_bytes((tmp_path / "whole.nii").read_bytes()[:352 + 50 * 40 * 4])
    nib.save(nib.Nifti1Image(voxels[..., :4], np.eye(4)), tmp_path / "half.nii")
    exams = read(tmp_path, options=["--window=10%,90%"])
    assert [slot["sha256"] for slot in exams["cut"]["slots"][:4]] == hashes(exams["half"])
    assert [slot["present"] for slot in exams["cut"]["slots"]] == [True] * 4 + [False] * 4


def test_gzip_damage_is_refused(tmp_path):
    packed = gzip.compress(header() + bytes(5000))
    whole = gzip.compress(header())
    (tmp_path / "good.nii.gz").write_bytes(whole)
    (tmp_path / "two_members.nii.gz").write_bytes(
        gzip.compress(header()[:360]) + gzip.compress(header()[360:]))
    (tmp_path / "padded.nii.gz").write_bytes(packed + b"\0" * 10)
    for length in range(4, len(whole) - 1, 7):
        (tmp_path / f"cut{length}.nii.gz").write_bytes(whole[:length])
    for at in range(10, len(whole) - 4, 5):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        (tmp_path / f"flip{at}.nii.gz").write_bytes(damaged)
    exams = read(tmp_path)
    assert len({tuple(hashes(exams[name])) for name in
                ("good", "two_members", "padded")}) == 1
    accepted = [name for name, exam in exams.items() if name[:3] in ("cut", "fli")
                and "slots" in exam]
    assert accepted == []


def test_a_file_that_is_no_volume_is_said_to_be_none(tmp_path):
    (tmp_path / "text.nii.gz").write_bytes(gzip.compress(b"hello"))
    done = run(tmp_path)
    assert "no NIfTI-1 or NIfTI-2 header" in done.stdout
