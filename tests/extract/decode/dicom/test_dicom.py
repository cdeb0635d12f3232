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
    """Returns what the header says, and the frames as pixels."""
    dump = folder / "dump.rgb"
    exam, = read(path, 0, (f"--dump={dump}", *options)).values()
    if "error" in exam:
        return exam, None
    first = exam["slots"][0]
    shape = (sum(slot["present"] for slot in exam["slots"]), first["height"], first["width"], 3)
    return exam, np.fromfile(dump, np.uint8).reshape(shape)


def greatest_difference(ours, theirs):
    assert ours.shape == theirs.shape
    return int((np.maximum(ours, theirs) - np.minimum(ours, theirs)).max())


@pytest.mark.skipif(not DICOM.exists(), reason="no shared data here")
@pytest.mark.filterwarnings("ignore")
def test_shared_files_equal_pydicoms(tmp_path, capsys):
    rows, wrong = [], []
    for path in sorted(DICOM.glob("*/*")):
        syntax = pydicom.dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID
        exam, frames = read_one(path, tmp_path)
        if "too_short" in path.name:  # it has no end mark, though all of its frames
            whole = reference_frames(path.with_name(path.name.replace("_too_short", "")))
            wrong += [path.name] if greatest_difference(frames, whole[:len(frames)]) > 0 else []
            verdict = f"{len(frames)} of {len(whole)} frames are whole"
            wrong += [path.name] if len(frames) < len(whole) - 1 else []
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


# Files of our own: rows x columns is odd, so that padding and packing show.
ROWS, COLUMNS = 37, 51
RNG = np.random.default_rng(11)


def pattern(frames, bits, signed=False, samples=1):
    """Smooth and noisy, over the whole range of the stored values."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    y, x, t = np.mgrid[0:ROWS, 0:COLUMNS, 0:frames * samples]
    wave = (np.sin(x / 9 + t) + np.cos(y / 7 - t)) / 4 + 0.5 + RNG.normal(0, 0.01, x.shape)
    values = np.clip(np.rint(low + np.clip(wave, 0, 1) * (high - low)), low, high)
    values = np.moveaxis(values, 2, 0).reshape(frames, samples, ROWS, COLUMNS)
    return np.moveaxis(values, 1, -1)[..., 0] if samples == 1 else np.moveaxis(values, 1, -1)


def new_dataset(photometric="MONOCHROME2", bits=12, allocated=16, signed=False, frames=2,
                samples=1, planar=0, **attributes):
    dataset = pydicom.Dataset()
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    dataset.SOPInstanceUID = pydicom.uid.generate_uid()
    dataset.StudyInstanceUID, dataset.SeriesInstanceUID = "1.2.3", "1.2.3.4"
    dataset.Modality, dataset.PatientID, dataset.PatientName = "OT", "P-007", "Doe^Jo"
    dataset.Rows, dataset.Columns, dataset.NumberOfFrames = ROWS, COLUMNS, frames
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = samples, photometric
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = allocated, bits, bits - 1
    dataset.PixelRepresentation = int(signed)
    if samples > 1:
        dataset.PlanarConfiguration = planar
    for name, value in attributes.items():
        setattr(dataset, name, value)
    return dataset


def store(dataset, path, values, syntax=pydicom.uid.ExplicitVRLittleEndian, order="<"):
    kind = ("i" if dataset.PixelRepresentation else "u") + str(dataset.BitsAllocated // 8)
    if dataset.get("PlanarConfiguration") == 1:
        values = np.moveaxis(values, -1, 1)
    data = values.astype(order + kind).tobytes()
    dataset.PixelData = data + b"\0" * (len(data) % 2)
    dataset["PixelData"].VR = "OW" if dataset.BitsAllocated > 8 else "OB"
    dataset.file_meta = pydicom.dataset.FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = syntax
    implicit = syntax == pydicom.uid.ImplicitVRLittleEndian
    pydicom.dcmwrite(path, dataset, enforce_file_format=True, implicit_vr=implicit,
                     little_endian=order == "<")


LUT = {"LUTDescriptor": [256, -100, 10], "LUTData": [int(1023 * (i / 255) ** 2) for i in range(256)]}


def lut_item():
    item = pydicom.Dataset()
    item.add_new("LUTDescriptor", "SS", LUT["LUTDescriptor"])
    item.add_new("LUTData", "US", LUT["LUTData"])
    return [item]


UNCOMPRESSED = {
    "8 bits as they are": {"bits": 8, "allocated": 8},
    "8 bits inverted": {"bits": 8, "allocated": 8, "photometric": "MONOCHROME1"},
    "8 bits signed": {"bits": 8, "allocated": 8, "signed": True},
    "5 bits": {"bits": 5, "allocated": 8},
    "12 bits": {},
    "16 bits": {"bits": 16},
    "16 bits signed": {"bits": 16, "signed": True},
    "12 bits signed": {"signed": True},
    "32 bits": {"bits": 32, "allocated": 32},
    "32 bits signed": {"bits": 32, "allocated": 32, "signed": True},
    "window": {"WindowCenter": 1000, "WindowWidth": 700},
    "first of two windows": {"WindowCenter": [900, 10], "WindowWidth": [300, 20]},
    "width of one": {"WindowCenter": 1000, "WindowWidth": 1},
    "window linear exact": {"WindowCenter": 2000, "WindowWidth": 1000.5,
                            "VOILUTFunction": "LINEAR_EXACT"},
    "window sigmoid": {"WindowCenter": 2000, "WindowWidth": 900, "VOILUTFunction": "SIGMOID"},
    "window inverted": {"WindowCenter": 1000, "WindowWidth": 700, "photometric": "MONOCHROME1"},
    "window of 32 bits": {"bits": 32, "allocated": 32, "WindowCenter": 2.0**31,
                          "WindowWidth": 2.0**30},
    "Hounsfield": {"signed": True, "RescaleSlope": 2.5, "RescaleIntercept": -1024,
                   "WindowCenter": 40, "WindowWidth": 400},
    "padding": {"signed": True, "bits": 16, "PixelPaddingValue": -32768,
                "PixelPaddingRangeLimit": -20000},
    "padding inverted": {"photometric": "MONOCHROME1", "PixelPaddingValue": 4095,
                         "PixelPaddingRangeLimit": 3000, "RescaleSlope": 2,
                         "RescaleIntercept": -5},
    "padding beside a window": {"WindowCenter": 1000, "WindowWidth": 700,
                                "PixelPaddingValue": 1000, "PixelPaddingRangeLimit": 1100},
    "VOI table": {"signed": True, "bits": 9, "VOILUTSequence": lut_item},
    "RGB": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "RGB"},
    "RGB by plane": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "RGB", "planar": 1},
    "RGB of 16 bits": {"bits": 16, "samples": 3, "photometric": "RGB"},
    "YBR_FULL": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "YBR_FULL"},
    "YBR_FULL by plane": {"bits": 8, "allocated": 8, "samples": 3, "photometric": "YBR_FULL",
                          "planar": 1},
}


def make(options):
    options = {key: value() if callable(value) else value for key, value in options.items()}
    dataset = new_dataset(**options)
    return dataset, pattern(dataset.NumberOfFrames, dataset.BitsStored,
                            bool(dataset.PixelRepresentation), dataset.SamplesPerPixel)


SYNTAXES = {"explicit": (pydicom.uid.ExplicitVRLittleEndian, "<"),
            "implicit": (pydicom.uid.ImplicitVRLittleEndian, "<"),
            "deflated": (pydicom.uid.DeflatedExplicitVRLittleEndian, "<"),
            "big endian": (pydicom.uid.ExplicitVRBigEndian, ">")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_uncompressed_pixels_equal_pydicoms(tmp_path, name):
    for syntax, how in SYNTAXES.items():
        dataset, values = make(UNCOMPRESSED[name])
        path = tmp_path / "a.dcm"
        store(dataset, path, values, *how)
        exam, frames = read_one(path, tmp_path)
        assert frames is not None, (syntax, exam)
        assert greatest_difference(frames, reference_frames(path)) == 0, syntax
        if name == "8 bits as they are":
            assert np.array_equal(frames[..., 0], values)
