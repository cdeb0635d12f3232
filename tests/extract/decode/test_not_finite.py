"""Frames of floats without a finite number, of every kind of file that holds floats: they are lost, others are shown."""

import nibabel
import numpy as np
import pydicom
import pytest
import tifffile
from pydicom.uid import ExplicitVRLittleEndian, ParametricMapStorage, generate_uid

from frames_helper import read, sha256

NAN, INF = np.nan, np.inf
# [T, H, W]: all NaN; numbers; some NaN and both infinities; all infinite.
FRAMES = np.stack([np.full((2, 3), NAN), [[0, 1, 2], [3, 4, 5]], [[NAN, 5, INF], [-INF, 0, NAN]],
                   [[INF, -INF, INF]] * 2]).astype(np.float32).repeat(2, axis=2)
LEVELS = np.array([[[0, 51, 102], [153, 204, 255]], [[0, 255, 255], [0, 0, 0]]], np.uint8).repeat(2, axis=2)


def save_dicom(path, photometric="MONOCHROME2"):
    file = pydicom.Dataset()
    file.file_meta = pydicom.dataset.FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = ParametricMapStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = generate_uid()
    file.NumberOfFrames, file.Rows, file.Columns = FRAMES.shape
    file.BitsAllocated, file.SamplesPerPixel, file.PhotometricInterpretation = 32, 1, photometric
    file.FloatPixelData = FRAMES.tobytes()
    pydicom.dcmwrite(path, file, enforce_file_format=True)


SAVERS = {"npy": lambda path: np.save(path, FRAMES), "dcm": save_dicom,
          "tif": lambda path: tifffile.imwrite(path, FRAMES, photometric="minisblack"),
          # Axial slices as rot90 of the volume shows them.
          "nii": lambda path: nibabel.save(nibabel.Nifti1Image(FRAMES.transpose(2, 1, 0)[:, ::-1], np.eye(4)), path)}


def slots_of(folder, suffix):
    exam, = read(folder, options=["--window=0%,100%"] if suffix == "nii" else []).values()
    return exam["slots"]


@pytest.mark.parametrize("suffix", SAVERS)
def test_frames_without_a_number_are_lost(tmp_path, suffix):
    SAVERS[suffix](tmp_path / f"a.{suffix}")
    slots = slots_of(tmp_path, suffix)
    assert [slot["present"] for slot in slots] == [False, True, True, False]
    for slot in slots:
        assert ("none of the values is a finite number" in slot["fault"]) != slot["present"]
    for slot, levels in zip(slots[1:3], LEVELS):
        assert slot["sha256"] == sha256(np.repeat(levels[..., None], 3, -1))


def test_nan_is_black_where_the_least_value_is_white(tmp_path):
    save_dicom(tmp_path / "a.dcm", "MONOCHROME1")
    _, numbers, partly, _ = slots_of(tmp_path, "dcm")
    assert numbers["sha256"] == sha256(np.repeat(255 - LEVELS[0][..., None], 3, -1))
    shown = np.where(np.isnan(FRAMES[2]), 0, 255 - LEVELS[1]).astype(np.uint8)
    assert partly["sha256"] == sha256(np.repeat(shown[..., None], 3, -1))


def test_an_exam_without_a_number_says_so(tmp_path):
    np.save(tmp_path / "a.npy", np.full((3, 4, 5), NAN))
    assert "none of the values is a finite number" in read(tmp_path)["a"]["error"]
