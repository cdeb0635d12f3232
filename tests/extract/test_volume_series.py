"""DICOM series and files of several slices as blocks: where they lie, and which ones form no volume."""

import nibabel
import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, EnhancedCTImageStorage, ExplicitVRLittleEndian, generate_uid

from test_volumes import monai_blocks
from volumes import WINDOW, Voxels, extract, made_values, monai_volume, rows_of, save

SPACING = (0.8, 1.1, 2.5)  # from column to column, from row to row, from slice to slice
AXIAL = (1, 0, 0, 0, 1, 0)
COS, SIN = 0.95533649, 0.29552021  # of 0.3 radians, as a header has room for
OBLIQUE = (COS, SIN, 0, 0, 0, -1)  # a turned coronal plane


@pytest.fixture(scope="module")
def voxels(tmp_path_factory):
    return save(Voxels(), tmp_path_factory.mktemp("voxels") / "voxels.pt")


def image_of(values, spacing=SPACING):
    """Columns run along the first axis of `values`; Hounsfield units by slope 1 and intercept -1024."""
    image = Dataset()
    image.SOPClassUID, image.SOPInstanceUID = CTImageStorage, generate_uid()
    image.Modality, image.PatientID = "CT", "P1"
    image.Columns, image.Rows = values.shape[:2]
    image.PixelSpacing = [spacing[1], spacing[0]]
    image.SamplesPerPixel, image.PhotometricInterpretation = 1, "MONOCHROME2"
    image.BitsAllocated, image.BitsStored, image.HighBit, image.PixelRepresentation = 16, 16, 15, 0
    image.RescaleSlope, image.RescaleIntercept = 1, -1024
    image.PixelData = np.ascontiguousarray((values.astype(int) + 1024).astype("<u2").T).tobytes()
    return image


def write(image, path):
    image.file_meta = FileMetaDataset()
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.save_as(path, enforce_file_format=True)


def places_of(count, orientation, spacing=SPACING, drift=(0, 0, 0)):
    normal = np.cross(orientation[:3], orientation[3:])
    return [np.array([-40.0, 25, -10]) + k * (spacing[2] * normal + drift) for k in range(count)]


def write_series(folder, values, orientation=AXIAL, places=None, seed=0):
    """One file for each slice, whose names do not tell their order."""
    folder.mkdir()
    places = places_of(values.shape[2], orientation) if places is None else places
    series, names = generate_uid(), np.random.default_rng(seed).permutation(values.shape[2])
    for k, place in enumerate(places):
        image = image_of(values[..., k])
        image.SeriesInstanceUID, image.InstanceNumber = series, k + 1
        image.ImagePositionPatient, image.ImageOrientationPatient = list(np.round(place, 6)), list(orientation)
        write(image, folder / f"{names[k]:03}.dcm")
    return folder


def as_nifti(path, values, orientation, places):
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1] = np.multiply(orientation[:3], SPACING[0]), np.multiply(orientation[3:], SPACING[1])
    affine[:3, 2], affine[:3, 3] = (places[-1] - places[0]) / (len(places) - 1), places[0]
    nibabel.save(nibabel.Nifti1Image(values, np.diag([-1, -1, 1, 1]) @ affine), path)
    return path


def require_alike(cache, volume):
    expected, centres = monai_blocks(volume, (10, 10, 10), 0.25)
    ((features, columns),) = rows_of(cache).values()
    assert np.abs(features - expected).max() < 1e-4
    assert np.abs(np.array([columns[f"block_{axis}"].astype(float) for axis in "xyz"]).T - centres).max() < 1e-3


ORIENTATIONS = pytest.mark.parametrize("orientation", [AXIAL, OBLIQUE, (-1, 0, 0, 0, -1, 0)], ids=["axial", "oblique", "prone"])


@ORIENTATIONS
def test_a_series_lies_where_the_same_nifti_file_does(tmp_path, voxels, orientation):
    values = made_values((20, 18, 12))
    summary = extract(write_series(tmp_path / "series", values, orientation), tmp_path / "x.h5", voxels, "--block", 10, *WINDOW)
    assert summary["patients"] == 1
    require_alike(tmp_path / "x.h5", monai_volume(as_nifti(tmp_path / "a.nii", values, orientation, places_of(12, orientation))))


@ORIENTATIONS
def test_a_series_is_what_monai_makes_of_its_folder(tmp_path, voxels, orientation):
    folder = write_series(tmp_path / "series", made_values((20, 18, 12)), orientation)
    extract(folder, tmp_path / "x.h5", voxels, "--block", 10, "--spacing", "1,1,1.5", *WINDOW)
    require_alike(tmp_path / "x.h5", monai_volume(folder, (1, 1, 1.5), reader="PydicomReader"))


def test_an_enhanced_file_is_a_volume(tmp_path, voxels):
    values = made_values((20, 18, 12))
    write_series(tmp_path / "series", values)
    image = image_of(values)
    image.PixelData = b"".join(image_of(values[..., k]).PixelData for k in range(12))
    image.Columns, image.Rows, image.NumberOfFrames = 20, 18, 12
    image.SOPClassUID = EnhancedCTImageStorage
    image.SeriesInstanceUID = generate_uid()
    shared, measures, plane = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing = [SPACING[1], SPACING[0]]
    plane.ImageOrientationPatient = list(AXIAL)
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = Sequence([measures]), Sequence([plane])
    image.SharedFunctionalGroupsSequence = Sequence([shared])
    image.PerFrameFunctionalGroupsSequence = Sequence()
    for place in places_of(12, AXIAL):
        frame, position = Dataset(), Dataset()
        position.ImagePositionPatient = list(place)
        frame.PlanePositionSequence = Sequence([position])
        image.PerFrameFunctionalGroupsSequence.append(frame)
    write(image, tmp_path / "enhanced.dcm")
    for source in ("series", "enhanced.dcm"):
        extract(tmp_path / source, tmp_path / f"{source}.h5", voxels, "--block", 10, "--spacing", 1.2, *WINDOW)
    (a, of_a), (b, of_b) = (next(iter(rows_of(tmp_path / f"{source}.h5").values())) for source in ("series", "enhanced.dcm"))
    assert np.array_equal(a, b) and all(np.array_equal(of_a[name], of_b[name]) for name in of_a)


def without(places, k):
    return [place for i, place in enumerate(places) if i != k]


def moved(places, k, mm):
    return [place + [0, 0, mm * (i == k)] for i, place in enumerate(places)]


EVEN = places_of(12, AXIAL)


@pytest.mark.parametrize("places, words, message", [
    (without(EVEN, 5), [], "lie 5.00 mm, between others 2.50 mm: a slice is missing, and a volume is read whole or not at all"),
    (moved(EVEN, 5, 0.6), [], "its slices are unevenly spaced: between"),
    ([*EVEN, EVEN[5]], [], "lie at one place; a volume has one value at each"),
    ([EVEN[0]], [], "it is a single slice, of no known thickness"),
    (places_of(12, AXIAL, drift=(0, 0.8, 0)), ["--spacing", 1], "its axes are not at right angles (a tilted gantry?)")])
def test_slices_that_form_no_volume(tmp_path, voxels, places, words, message):
    values = made_values((20, 18, len(places)))
    folder = write_series(tmp_path / "series", values, places=places)
    summary = extract(folder, tmp_path / "x.h5", voxels, "--block", 10, *WINDOW, *words, expect=1)
    assert message in summary["failures"][0]["reason"]


def test_a_tilted_series_is_read_as_it_is(tmp_path, voxels):
    values, places = made_values((20, 18, 12)), places_of(12, AXIAL, drift=(0, 0.8, 0))
    folder = write_series(tmp_path / "series", values, places=places)
    extract(folder, tmp_path / "x.h5", voxels, "--block", 10, *WINDOW)
    require_alike(tmp_path / "x.h5", monai_volume(as_nifti(tmp_path / "a.nii", values, AXIAL, places)))


def edited(folder, **attributes):
    path = sorted(folder.glob("*.dcm"))[3]
    image = pydicom.dcmread(path)
    for name, value in attributes.items():
        if value is None:
            delattr(image, name)
        else:
            setattr(image, name, value)
    image.save_as(path)


@pytest.mark.parametrize("attributes, message", [
    ({"ImagePositionPatient": None}, "does not state where its values lie"),
    ({"PixelSpacing": [0.9, 0.9]}, "its slices are not parallel or differ in spacing"),
    ({"ImageOrientationPatient": [1, 0, 0, 0, 0.8, 0.6]}, "its slices are not parallel or differ in spacing"),
    ({"Rows": 9, "PixelData": bytes(2 * 9 * 20)}, "its slices differ in size")])
def test_a_slice_that_differs(tmp_path, voxels, attributes, message):
    folder = write_series(tmp_path / "series", made_values((20, 18, 12)))
    edited(folder, **attributes)
    summary = extract(folder, tmp_path / "x.h5", voxels, "--block", 10, *WINDOW, expect=1)
    assert message in summary["failures"][0]["reason"]


def test_a_damaged_slice_fails_its_exam(tmp_path, voxels):
    folder = write_series(tmp_path / "series", made_values((20, 18, 12)))
    path = sorted(folder.glob("*.dcm"))[4]
    path.write_bytes(path.read_bytes()[:-50])
    summary = extract(folder, tmp_path / "x.h5", voxels, "--block", 10, *WINDOW, expect=1)
    assert path.name in summary["failures"][0]["reason"]
