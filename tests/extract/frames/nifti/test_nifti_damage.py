"""Volumes that are damaged, impossible or of a variety that is not read: each is refused with its
reason, and nothing crashes."""

import gzip

import nibabel as nib
import numpy as np

from frames_helper import read, run
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
    "short": (header()[:400], "truncated: its header asks for 592 bytes, and it holds at most 400"),
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


def test_options_that_the_volume_cannot_meet(tmp_path):
    (tmp_path / "good.nii").write_bytes(header())
    for slices in ("6:-1:1", "0:7:1", "3:3:1", "0:-1:0"):
        error = read(tmp_path, options=[f"--slices={slices}"])["good"]["error"]
        assert "it has 6 slices along z; --slices asks for" in error


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


def test_flipped_header_bytes_never_crash_the_reader(tmp_path):
    whole = header()
    for at in range(352):
        for bit in (1, 128):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            (tmp_path / f"{at}_{bit}.nii").write_bytes(damaged)
    assert len(read(tmp_path)) == 704


def test_a_file_that_is_no_volume_is_said_to_be_none(tmp_path):
    (tmp_path / "text.nii.gz").write_bytes(gzip.compress(b"hello"))
    done = run(tmp_path)
    assert "no NIfTI-1 or NIfTI-2 header" in done.stdout
