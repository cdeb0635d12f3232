"""DICOM frames against pydicom's: equal after lossless decoders, within 2 levels after lossy ones."""

import warnings

import numpy as np
import pydicom
import pytest

from dicom_reference import reference_frames
from frames_helper import SHARED, read

DICOM = SHARED / "data/dicom"
LOSSY = {"1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51", "1.2.840.10008.1.2.4.81",
         "1.2.840.10008.1.2.4.91"}


def read_one(path, folder, *options):
    """What the header says, and the frames as pixels."""
    dump = folder / "dump.rgb"
    exam, = read(path, 0, (f"--dump={dump}", *options)).values()
    if "error" in exam:
        return exam, None
    first = exam["slots"][0]
    shape = (len(exam["slots"]), first["height"], first["width"], 3)
    return exam, np.fromfile(dump, np.uint8).reshape(shape)


def greatest_difference(ours, theirs):
    assert ours.shape == theirs.shape
    return int(np.abs(ours.astype(int) - theirs).max())


@pytest.mark.skipif(not DICOM.exists(), reason="no shared data here")
@pytest.mark.filterwarnings("ignore")
def test_shared_files_equal_pydicoms(tmp_path, capsys):
    rows, wrong = [], []
    for path in sorted(DICOM.glob("*/*")):
        syntax = pydicom.dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID
        exam, frames = read_one(path, tmp_path)
        if "too_short" in path.name:
            verdict = f"refused: {exam.get('error', 'no, it was read')}"
            wrong += [path.name] if "truncated" not in verdict else []
        else:
            difference = greatest_difference(frames, reference_frames(path))
            verdict = "equal" if difference == 0 else f"within {difference}"
            wrong += [path.name] if difference > (2 if syntax in LOSSY else 0) else []
        rows.append((path.name, syntax.name, "" if frames is None else len(frames), verdict))
    with capsys.disabled():
        print()
        for name, syntax, count, verdict in rows:
            print(f"{name:44} {syntax:74} {count:>3}  {verdict}")
    assert rows and not wrong
