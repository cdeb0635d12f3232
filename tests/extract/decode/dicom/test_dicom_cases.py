"""DICOM files of kinds that other tools have read in a wrong order, number, shape or colour without a word: each kind
made here, and the shared files of such kinds where they are."""

import io
import json
import subprocess

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.encaps import encapsulate, encapsulate_extended, generate_frames

from frames_helper import SHARED, read, run, write_manifest
from test_dicom import new_dataset, read_one, store
from test_dicom_folders import axial, digits, single

pytestmark = pytest.mark.filterwarnings("ignore")
CASES = SHARED / "cases"
SIDE = 32
JPEG, H264 = "1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.102"


def plain(levels, side=SIDE):
    """Frames of one grey level each."""
    return np.stack([np.full((side, side), level) for level in levels])


def dataset(frames, **attributes):
    return new_dataset(bits=8, allocated=8, frames=frames, **{"Rows": SIDE, "Columns": SIDE, **attributes})


def write(path, levels, **attributes):
    path.parent.mkdir(parents=True, exist_ok=True)
    store(dataset(len(levels), **attributes), path, plain(levels))
    return path


def levels_of(frames):
    return [int(round(frame[:16, :16].mean())) for frame in frames]


def look(path, folder, *options):
    """The exam, the level of each frame, and its times."""
    exam, frames = read_one(path, folder, *options)
    assert frames is not None, exam["error"]
    return exam, levels_of(frames), [slot["time_s"] for slot in exam["slots"]]


def jpeg(image, **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def store_code(data, path, codes, syntax=JPEG, table=True):
    data.PixelData = encapsulate(codes, has_bot=table)
    data["PixelData"].VR = "OB"
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = syntax
    pydicom.dcmwrite(path, data, enforce_file_format=True, implicit_vr=False, little_endian=True)
    return path


@pytest.mark.parametrize("modality, base, step", [("MR", 0, 31.25), ("CT", 12.5, 80)])
def test_phases_that_trigger_time_alone_tells_apart(tmp_path, modality, base, step):
    for name, phase in enumerate([3, 0, 4, 1, 2]):
        write(tmp_path / "in" / f"IM{name}", [20 + 10 * phase], Modality=modality, TriggerTime=base + step * phase,
              AcquisitionDate="20240101", AcquisitionTime="101010", InstanceNumber=name, **axial(30))
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 30, 40, 50, 60] and times == pytest.approx([step / 1000 * i for i in range(5)])
    assert (exam["order"], exam["times"]) == ("trigger time", "trigger time")
    assert exam["columns"]["frame_order"] == "trigger time"


def test_phases_of_several_slices_come_phase_by_phase(tmp_path):
    for name, (slice_, phase) in enumerate([(1, 2), (0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]):
        write(tmp_path / "in" / f"{name}", [20 + 10 * phase + 100 * slice_], TriggerTime=40 * phase,
              AcquisitionDate="20240101", AcquisitionTime=f"10101{slice_}", **axial(8 * slice_))
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 120, 30, 130, 40, 140]
    assert times == pytest.approx([0, 0, 0.04, 0.04, 0.08, 0.08])
    assert exam["order"] == "trigger time, then place"


def test_beats_come_by_acquisition_though_each_slice_has_a_trigger_time(tmp_path):
    """Perfusion: the trigger time belongs to the slice."""
    for name, (beat, slice_) in enumerate([(2, 0), (0, 1), (1, 0), (0, 0), (2, 1), (1, 1)]):
        write(tmp_path / "in" / f"{name}", [20 + 10 * beat + 100 * slice_], TriggerTime=100 + 150 * slice_,
              AcquisitionDate="20240101", AcquisitionTime=f"10101{beat}", **axial(8 * slice_))
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 120, 30, 130, 40, 140] and times == [0, 0, 1, 1, 2, 2]
    assert exam["order"] == "acquisition time, then place" and "frame_order" not in exam["columns"]


@pytest.mark.parametrize("times", [True, False])
def test_temporal_positions_of_a_series(tmp_path, times):
    for name, (position, z) in enumerate([(2, 5), (1, 5), (3, 0), (1, 0), (3, 5), (2, 0)]):
        clock = {"AcquisitionDate": "20240101", "AcquisitionTime": f"1010{2 * position:02}.{z}"} if times else {}
        write(tmp_path / "in" / f"{name}", [20 * position + 2 * z], TemporalPositionIdentifier=position,
              InstanceNumber=name, **clock, **axial(z))
    exam, levels, found = look(tmp_path / "in", tmp_path)
    assert levels == [20, 30, 40, 50, 60, 70]
    assert found == (pytest.approx([0, 0.5, 2, 2.5, 4, 4.5]) if times else [None] * 6)


def test_content_time_where_nothing_else_tells(tmp_path):
    for name, second in enumerate([4, 0, 2]):
        write(tmp_path / "in" / f"{name}", [20 + 10 * second], ContentTime=f"1010{second:02}", InstanceNumber=1,
              AcquisitionDate="20240101", AcquisitionTime="100000", ContentDate="20240101")
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 40, 60] and times == [0, 2, 4] and exam["times"] == "content time"


def test_names_alone_are_told(tmp_path):
    for name, level in (("2", 20), ("10", 30)):
        write(tmp_path / "in" / name, [level])
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 30] and times == [None] * 2 and exam["order"] == "file names"


def test_series_of_a_study_are_not_mixed_by_times_of_their_own(tmp_path):
    for name, (series, phase) in enumerate([(1, 0), (1, 1), (2, 0), (2, 1)]):
        write(tmp_path / "in" / f"{name}", [20 + 10 * name], SeriesInstanceUID=f"1.2.3.{series}", TriggerTime=40 * phase,
              TemporalPositionIdentifier=1 + phase, InstanceNumber=name)
    assert look(tmp_path / "in", tmp_path, "--by-study")[1] == [20, 30, 40, 50]


def group(**facts):
    """A frame's functional groups."""
    item, content = pydicom.Dataset(), pydicom.Dataset()
    if "temporal" in facts:
        content.TemporalPositionIndex = facts["temporal"]
    if "time" in facts:
        content.FrameAcquisitionDateTime = facts["time"]
    item.FrameContentSequence = [content]
    if "reference" in facts:
        content.FrameReferenceDateTime = facts["reference"]
    if "offset" in facts:
        item.TemporalPositionSequence = [pydicom.Dataset()]
        item.TemporalPositionSequence[0].TemporalPositionTimeOffset = facts["offset"]
    if "trigger" in facts:
        item.CardiacSynchronizationSequence = [pydicom.Dataset()]
        item.CardiacSynchronizationSequence[0].NominalCardiacTriggerDelayTime = facts["trigger"]
    if "place" in facts:
        item.PlanePositionSequence, item.PlaneOrientationSequence = [pydicom.Dataset()], [pydicom.Dataset()]
        item.PlanePositionSequence[0].ImagePositionPatient = facts["place"]
        item.PlaneOrientationSequence[0].ImageOrientationPatient = facts.get("axes", [1, 0, 0, 0, 1, 0])
    return item


ENHANCED = {  # groups by level, levels in order, times
    "temporal positions, slice by slice": (
        {20 + 20 * t + z: {"temporal": t + 1, "place": [0, 0, z]} for z in (0, 5) for t in range(3)},
        [20, 25, 40, 45, 60, 65], [None] * 6),
    "temporal positions, coronal": (
        {20 + 20 * t + y: {"temporal": 7 - 2 * t, "place": [0, y, 0], "axes": [1, 0, 0, 0, 0, -1]}
         for y in (3, 0) for t in range(2)}, [40, 43, 20, 23], [None] * 4),
    "temporal positions with trigger delays": (
        {20 + 20 * t: {"temporal": 3 - t, "trigger": 90 - 30 * t, "place": [0, 0, 4]} for t in range(3)},
        [60, 40, 20], [0, 0.03, 0.06]),
    "slices in any order": (
        {20 + z: {"place": [0, 0, z], "time": f"2024010110101{z % 7}"} for z in (40, 0, 30, 10, 20)},
        [20, 30, 40, 50, 60], [None] * 5),
    "slices in any order, sagittal": (
        {20 + x: {"place": [x - 20, 0, 0], "axes": [0, 1, 0, 0, 0, 1]} for x in (8, 4, 0, 12)},
        [20, 24, 28, 32], [None] * 4),
}


@pytest.mark.parametrize("name", ENHANCED)
def test_frames_of_enhanced_objects_come_by_time_then_place(tmp_path, name):
    groups, expected, expected_times = ENHANCED[name]
    path = write(tmp_path / "a.dcm", list(groups), Modality="MR",
                 PerFrameFunctionalGroupsSequence=[group(**facts) for facts in groups.values()])
    exam, levels, times = look(path, tmp_path)
    assert levels == expected and times == [t if t is None else pytest.approx(t) for t in expected_times]
    assert exam["columns"]["frame_order"] == exam["order"] and "p" in exam["order"]


VECTOR = [0, 100, 50, 25]
POINTERS = {
    "to the frame time": ({"FrameIncrementPointer": 0x00181063, "FrameTime": 40, "FrameTimeVector": [0, 1, 1, 1]},
                          [0, 0.04, 0.08, 0.12]),
    "to the vector": ({"FrameIncrementPointer": 0x00181065, "FrameTime": 40, "FrameTimeVector": VECTOR},
                      [0, 0.1, 0.15, 0.175]),
    "to a vector of intervals": ({"FrameIncrementPointer": 0x00181065, "FrameTimeVector": [20, 30, 5]},
                                 [0, 0.02, 0.05, 0.055]),
    "to a vector of other frames": ({"FrameIncrementPointer": 0x00181065, "FrameTimeVector": [0, 1], "FrameTime": 9},
                                    [None] * 4),
    "nowhere, beside a vector": ({"FrameTimeVector": VECTOR, "FrameTime": 40}, [0, 0.1, 0.15, 0.175]),
    "nowhere, beside a vector of other frames": ({"FrameTimeVector": [0, 1], "FrameTime": 40}, [0, 0.04, 0.08, 0.12]),
}


@pytest.mark.parametrize("pointer", POINTERS)
def test_times_are_those_that_the_pointer_names(tmp_path, pointer):
    attributes, expected = POINTERS[pointer]
    exam, _, times = look(write(tmp_path / "a.dcm", [20, 30, 40, 50], **attributes), tmp_path)
    assert times == [t if t is None else pytest.approx(t) for t in expected]
    assert bool(exam["notes"]) == ("of other frames" in pointer and times[0] is None)


def part(number, of, offset, **attributes):
    return {"ConcatenationUID": "1.2.9", "SOPInstanceUIDOfConcatenationSource": "1.2.8", "InConcatenationNumber": number,
            "InConcatenationTotalNumber": of, "ConcatenationFrameOffsetNumber": offset, **attributes}


def test_a_concatenation_is_one_exam(tmp_path):
    for name, number in (("b", 1), ("a", 2)):
        levels = [20 + 10 * (3 * number + i) for i in range(-3, 0)]
        write(tmp_path / "in" / name, levels, FrameTime=25, **part(number, 2, 3 * (number - 1)))
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 30, 40, 50, 60, 70] and times == pytest.approx([0.025 * i for i in range(6)])
    assert exam["id"] == f"OT-{digits('1.2.8')}" and exam["columns"]["frame_order"] == "concatenation"
    rows = [{"path": f"in/{name}"} for name in "ab"]
    _, levels, again = look(write_manifest(tmp_path, rows), tmp_path)
    assert levels == [20, 30, 40, 50, 60, 70] and again == times


def test_a_concatenation_with_a_gap_keeps_its_times(tmp_path):
    for name, number in (("b", 1), ("a", 3)):
        write(tmp_path / "in" / name, [20, 30], FrameTime=50, **part(number, 3, 2 * (number - 1)))
    _, _, times = look(tmp_path / "in", tmp_path)
    assert times == pytest.approx([0, 0.05, 0.2, 0.25])
    assert "2 of the 3 files of its concatenation are there" in run(tmp_path / "in").stderr


def test_frames_of_a_concatenation_alternate_between_its_files(tmp_path):
    """Enhanced MR, a slice in each file."""
    for z in (0, 5):
        groups = [group(temporal=t + 1, time=f"2024010110101{t}", place=[0, 0, z]) for t in (2, 0, 1)]
        write(tmp_path / "in" / f"{9 - z}", [20 + 20 * t + z for t in (2, 0, 1)],
              **part(1 + z // 5, 2, 3 * z // 5, PerFrameFunctionalGroupsSequence=groups))
    _, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == [20, 25, 40, 45, 60, 65] and times == [0, 0, 1, 1, 2, 2]


STAMP = "202401011010{:02}"
CLOCKS = {  # what the frames of each of two files state, by their time; the clock of both, the order of levels
    "one states more than the other": (
        [lambda t: {"time": STAMP.format(40 - t), "offset": t}, lambda t: {"offset": t}], "temporal offset", [20, 30, 40, 50]),
    "acquisition in both": (
        [lambda t: {"time": STAMP.format(t), "offset": t}, lambda t: {"time": STAMP.format(t), "reference": STAMP.format(9 - t)}],
        "acquisition time", [20, 30, 40, 50]),
    "the first that tells frames apart": (
        [lambda t: {"time": STAMP.format(1), "reference": STAMP.format(t)}] * 2, "reference time", [20, 30, 40, 50]),
    "none in both": ([lambda t: {"time": STAMP.format(t)}, lambda t: {"offset": t}], "", [20, 40, 30, 50]),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_files_of_a_concatenation_share_one_clock(tmp_path, name):
    facts, clock, expected = CLOCKS[name]
    for number in (1, 2):
        moments = [number - 1, number + 1]
        groups = [group(place=[0, 0, 4], **facts[number - 1](t)) for t in moments]
        write(tmp_path / "in" / str(number), [20 + 10 * t for t in moments],
              **part(number, 2, 2 * (number - 1), PerFrameFunctionalGroupsSequence=groups))
    exam, levels, times = look(tmp_path / "in", tmp_path)
    assert levels == expected and times == ([0, 1, 2, 3] if clock else [None] * 4)
    assert (exam["order"], exam["times"]) == (clock or "concatenation", clock)


def test_positions_of_a_concatenation_are_compared_over_all_its_files(tmp_path):
    """Radial slices: each file's planes are parallel to each other, and not to the other file's."""
    turned = {1: [1, 0, 0, 0, 1, 0], 2: [0, 1, 0, 0, 0, 1]}
    for number, axes in turned.items():
        groups = [group(place=[0, 0, 0], axes=axes, temporal=t + 1) for t in range(2)]
        write(tmp_path / "in" / str(number), [20 + 20 * t + number for t in range(2)],
              **part(number, 2, 2 * (number - 1), PerFrameFunctionalGroupsSequence=groups))
    assert look(tmp_path / "in", tmp_path)[1] == [21, 22, 41, 42]


COUNTS = {"missing": None, "nought": 0, "one": 1, "fewer": 2}


@pytest.mark.parametrize("stated", COUNTS)
@pytest.mark.parametrize("coding", ["native", "16 bits", "JPEG", "JPEG without a table", "JPEG with an extended table", "RLE"])
def test_there_are_as_many_frames_as_the_pixel_data_holds(tmp_path, stated, coding):
    levels = [20, 30, 40, 50, 60]
    data = dataset(len(levels), FrameTime=40)
    path = tmp_path / "a.dcm"
    if coding.startswith("JPEG"):
        codes = [jpeg(frame.astype(np.uint8)) for frame in plain(levels)]
        if "extended" in coding:
            _, data.ExtendedOffsetTable, data.ExtendedOffsetTableLengths = encapsulate_extended(codes)
        store_code(data, path, codes, table=coding == "JPEG")
    else:
        if coding == "16 bits":
            data.BitsAllocated, data.BitsStored, data.HighBit = 16, 8, 7
        store(data, path, plain(levels))
    if coding == "RLE":
        data = pydicom.dcmread(path)
        data.compress(pydicom.uid.RLELossless)
        data.save_as(path)
    data = pydicom.dcmread(path)
    data.NumberOfFrames = COUNTS[stated]
    if COUNTS[stated] is None:
        del data.NumberOfFrames
    data.save_as(path)
    exam, found, times = look(path, tmp_path)
    assert found == levels and times == pytest.approx([0.04 * i for i in range(5)])
    assert "its pixel data holds 5" in exam["notes"][0] and exam["id"] == f"OT-{digits(data.SOPInstanceUID)}"


def test_padding_is_no_frame(tmp_path):
    write(tmp_path / "a.dcm", [20])
    data = pydicom.dcmread(tmp_path / "a.dcm")
    data.PixelData += bytes(3 * SIDE * SIDE + 20)
    data.save_as(tmp_path / "a.dcm")
    exam, levels, _ = look(tmp_path / "a.dcm", tmp_path)
    assert levels == [20] and not exam["notes"]


@pytest.mark.parametrize("attribute, value", [("Columns", SIDE - 1), ("Rows", SIDE + 7), ("BitsAllocated", 16)])
def test_pixel_data_of_another_shape_is_refused(tmp_path, attribute, value):
    write(tmp_path / "a.dcm", [20, 30, 40])
    data = pydicom.dcmread(tmp_path / "a.dcm")
    setattr(data, attribute, value)
    data.save_as(tmp_path / "a.dcm")
    exam, frames = read_one(tmp_path / "a.dcm", tmp_path)
    assert frames is None and ("no whole number of frames" in exam["error"] or "too few for" in exam["error"])


def colours(seed=3):
    """[2, SIDE, SIDE, 3]: smooth, with chroma of its own in each half."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    red, blue = np.where(x < SIDE // 2, 200, 40), np.where(x < SIDE // 2, 40, 210)
    return np.stack([np.stack([red, 30 + y + 20 * i, blue], -1) for i in range(2)]).astype(np.uint8)


def to_ybr(rgb, partial=False):
    rgb = rgb.astype(float)
    y = rgb @ [0.299, 0.587, 0.114]
    cb, cr = (rgb[..., 2] - y) / 1.772, (rgb[..., 0] - y) / 1.402
    scale = (219 / 255, 224 / 255, 16) if partial else (1, 1, 0)
    ybr = np.stack([y * scale[0] + scale[2], cb * scale[1] + 128, cr * scale[1] + 128], -1)
    return np.clip(np.rint(ybr), 0, 255).astype(np.uint8)


def in_pairs(ybr):
    """Y1 Y2 Cb Cr."""
    left, right = ybr[:, :, ::2], ybr[:, :, 1::2]
    return np.stack([left[..., 0], right[..., 0], left[..., 1], left[..., 2]], -1)


@pytest.mark.parametrize("photometric", ["YBR_FULL_422", "YBR_PARTIAL_422", "YBR_PARTIAL_420", "YBR_FULL"])
@pytest.mark.parametrize("shared", [True, False])
def test_uncompressed_colours_with_chroma_of_pairs_and_of_pixels(tmp_path, photometric, shared):
    if shared and not photometric.endswith("_422"):
        return
    ybr = to_ybr(colours(), "PARTIAL" in photometric)
    data = dataset(2, SamplesPerPixel=3, PhotometricInterpretation=photometric, PlanarConfiguration=0)
    store(data, tmp_path / "a.dcm", in_pairs(ybr) if shared else ybr)
    exam, frames = read_one(tmp_path / "a.dcm", tmp_path)
    assert frames is not None, exam["error"]
    assert np.abs(frames.astype(int) - colours()).max() <= 2
    assert bool(exam["notes"]) == (not shared and photometric != "YBR_FULL")


def without_markers(code):
    """The code without JFIF's and Adobe's."""
    out, at = code[:2], 2
    while code[at + 1] != 0xDA:
        length = 2 + int.from_bytes(code[at + 2:at + 4], "big")
        out += b"" if code[at + 1] in (0xE0, 0xEE) else code[at:at + length]
        at += length
    return out + code[at:]


def adobe(code, transform):
    return code[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform]) + without_markers(code)[2:]


CODES = {  # the header's photometric interpretation, the code, whether both agree
    "JFIF called RGB": ("RGB", lambda rgb: jpeg(rgb), False),
    "Adobe's mark, called RGB": ("RGB", lambda rgb: adobe(jpeg(rgb), 1), False),
    "no mark, called RGB": ("RGB", lambda rgb: without_markers(jpeg(rgb, subsampling=0)), False),
    "no mark, with coarse chroma, called RGB": ("RGB", lambda rgb: without_markers(jpeg(rgb, subsampling=2)), False),
    "RGB by Adobe's mark, called YBR_FULL": ("YBR_FULL", lambda rgb: adobe(jpeg_of_rgb(rgb), 0), False),
    "RGB without a mark": ("RGB", lambda rgb: without_markers(jpeg_of_rgb(rgb)), True),
    "YBR_FULL_422": ("YBR_FULL_422", lambda rgb: jpeg(rgb), True),
}


def jpeg_of_rgb(rgb):
    """Three components that are not converted; Pillow writes them so for a picture that calls itself YCbCr."""
    file = io.BytesIO()
    table = [[3] * 64] * 2
    Image.frombytes("YCbCr", rgb.shape[1::-1], rgb.tobytes()).save(file, "JPEG", qtables=table, subsampling=0)
    code = bytearray(file.getvalue())
    at = code.index(b"\xff\xc0")
    for component in range(3):
        code[at + 12 + 3 * component] = 0
    return bytes(code)


@pytest.mark.parametrize("name", CODES)
def test_colours_of_jpeg_are_as_they_are_coded(tmp_path, name):
    photometric, encode, agrees = CODES[name]
    data = dataset(2, SamplesPerPixel=3, PhotometricInterpretation=photometric, PlanarConfiguration=0)
    store_code(data, tmp_path / "a.dcm", [encode(frame) for frame in colours()])
    exam, frames = read_one(tmp_path / "a.dcm", tmp_path)
    left, right = np.s_[:, 4:12, 4:12], np.s_[:, 4:12, 22:30]
    for place in (left, right):
        assert np.abs(frames[place].astype(int) - colours()[place]).mean() < 6
    assert bool(exam["notes"]) != agrees


OTHER = {
    "segmentation": ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.66.4", "Modality": "SEG"}, "a segmentation"),
    "label map": ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.66.7", "Modality": "SEG"}, "a segmentation"),
    "segmentation as secondary capture": ({"Modality": "SEG"}, "a segmentation"),
    "dose grid": ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.481.2", "Modality": "RTDOSE"}, "a dose grid"),
    "parametric map": ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.30", "Modality": "MR"}, "a parametric map"),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_was_drawn_on_images_is_passed_over(tmp_path, name):
    attributes, what = OTHER[name]
    for z in range(3):
        write(tmp_path / "in" / f"{z}.dcm", [20 + z], Modality="MR", SeriesInstanceUID="1.2.3.5", **axial(z))
    write(tmp_path / "in" / "other.dcm", [0, 255], **attributes)
    done = run(tmp_path / "in")
    assert f"passed over 'other.dcm': it is {what}" in done.stderr and len(done.stdout.splitlines()) == 1


def test_portal_images_are_images(tmp_path):
    write(tmp_path / "a.dcm", [20], SOPClassUID="1.2.840.10008.5.1.4.1.1.481.1", Modality="RTIMAGE")
    assert look(tmp_path / "a.dcm", tmp_path)[1] == [20]


def recode(path, implicit, called):
    """Stores the data set in one representation of values under the name of another."""
    data = pydicom.dcmread(path)
    file = pydicom.filebase.DicomBytesIO()
    file.is_implicit_VR, file.is_little_endian = implicit, True
    pydicom.filewriter.write_dataset(file, data)
    head = pydicom.filebase.DicomBytesIO()
    data.file_meta.TransferSyntaxUID = called
    pydicom.filewriter.write_file_meta_info(head, data.file_meta)
    return head.getvalue(), file.getvalue()


@pytest.mark.parametrize("implicit, called", [(True, "1.2.840.10008.1.2.1"), (False, "1.2.840.10008.1.2")])
def test_representations_of_values_are_as_they_are_found(tmp_path, implicit, called):
    path = write(tmp_path / "a.dcm", [20, 30, 40], FrameTime=20)
    meta, data = recode(path, implicit, called)
    path.write_bytes(bytes(128) + b"DICM" + meta + data)
    exam, levels, times = look(path, tmp_path)
    assert levels == [20, 30, 40] and times == [0, 0.02, 0.04] and "its meta header calls it" in exam["notes"][0]
    assert exam["patient"]


@pytest.mark.parametrize("implicit", [True, False])
@pytest.mark.parametrize("before", ["nothing", "the prefix alone", "a preamble without a meta header", "the meta header"])
def test_files_without_preamble_or_meta_header(tmp_path, implicit, before):
    path = write(tmp_path / "a.dcm", [20, 30], FrameTime=20)
    meta, data = recode(path, implicit, "1.2.840.10008.1.2" if implicit else "1.2.840.10008.1.2.1")
    start = {"nothing": b"", "the prefix alone": b"DICM" + meta, "the meta header": meta,
             "a preamble without a meta header": bytes(128) + b"DICM"}[before]
    path.write_bytes(start + data)
    exam, levels, times = look(path, tmp_path)
    assert levels == [20, 30] and times == [0, 0.02] and not exam["notes"]


JPEG2000 = {"signed, called unsigned": (True, False, 12, 12), "unsigned, called signed": (False, True, 12, 12),
            "of 10 bits, called 16": (False, False, 10, 16), "of 14 bits, called 12": (False, False, 14, 12)}


@pytest.mark.parametrize("name", JPEG2000)
def test_jpeg_2000_of_other_bits_than_the_header_states(tmp_path, name):
    openjpeg = pytest.importorskip("openjpeg.utils")
    is_signed, called_signed, bits, called = JPEG2000[name]
    low = -(1 << bits - 1) if is_signed else 0
    values = np.linspace(low, low + (1 << bits) - 1, SIDE * SIDE).reshape(SIDE, SIDE).astype("i2" if is_signed else "u2")
    code = openjpeg.encode_array(values, bits_stored=bits, photometric_interpretation=2)
    data = new_dataset(bits=called, signed=called_signed, frames=1, Rows=SIDE, Columns=SIDE)
    path = store_code(data, tmp_path / "a.dcm", [bytes(code)], "1.2.840.10008.1.2.4.90")
    theirs = pydicom.dcmread(path).pixel_array.astype(float)
    exam, frames = read_one(path, tmp_path)
    expected = np.floor(255 * (theirs - theirs.min()) / (theirs.max() - theirs.min()) + 0.5)
    assert np.array_equal(frames[0, ..., 0], expected)
    assert bool(exam["notes"]) == (name != "of 10 bits, called 16")


CLIPS = {  # what is in the fragments: the transfer syntax, FFmpeg's arguments
    "H.264 in MP4": (H264, ["-c:v", "libx264", "-f", "mp4"]),
    "H.264 alone": (H264, ["-c:v", "libx264", "-f", "h264"]),
    "MPEG-2 alone": ("1.2.840.10008.1.2.4.100", ["-c:v", "mpeg2video", "-f", "mpeg2video"]),
    "MPEG-2 in a transport stream": ("1.2.840.10008.1.2.4.101", ["-c:v", "mpeg2video", "-f", "mpegts"]),
    "HEVC in MP4": ("1.2.840.10008.1.2.4.107", ["-c:v", "libx265", "-f", "mp4"]),
}
ENCODERS = {"libx264", "libx265", "mpeg2video"}


@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize("name", CLIPS)
def test_the_stream_of_a_video_goes_to_the_reader_of_clips(tmp_path, name, fragments):
    syntax, arguments = CLIPS[name]
    clip = tmp_path / "plain.mp4" if "mp4" in arguments else tmp_path / "plain.mkv"
    source = ["-f", "lavfi", "-i", "testsrc2=size=64x64:rate=20:duration=1", "-pix_fmt", "yuv420p"]
    stream = tmp_path / "stream"
    try:
        subprocess.run(["ffmpeg", "-v", "error", "-y", *source, *arguments, str(stream)], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no FFmpeg with this encoder here")
    if clip.suffix == ".mp4":
        clip.write_bytes(stream.read_bytes())
    else:  # the same frames without loss
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(stream), "-fps_mode", "passthrough", "-c:v", "ffv1", str(clip)],
                       check=True)
    code = stream.read_bytes()
    cuts = [len(code) * i // fragments for i in range(fragments + 1)]
    cuts = [cut + cut % 2 for cut in cuts]  # only the last fragment may be padded
    data = new_dataset("YBR_PARTIAL_420", 8, 8, frames=20, samples=3, Rows=64, Columns=64, FrameTime=40)
    path = store_code(data, tmp_path / "a.dcm", [code[a:b] for a, b in zip(cuts, cuts[1:])], syntax, table=False)
    exam, frames = read_one(path, tmp_path)
    assert frames is not None, exam["error"]
    _, expected = read_one(clip, tmp_path)
    assert np.array_equal(frames, expected[:len(frames)]) and len(frames) == 20
    assert [slot["time_s"] for slot in exam["slots"]] == pytest.approx([0.04 * i for i in range(20)])
    assert exam["kind"] == "dicom" and exam["patient"]


SHARED_CASES = {"03": ["native.dcm", "jpeg.dcm", "jpeg_states_3_of_8.dcm"], "05": ["a.dcm"], "09": ["."], "10": ["a.dcm"],
                "12": ["."], "14": ["."]}


@pytest.mark.skipif(not CASES.exists(), reason="no shared cases here")
@pytest.mark.parametrize("number", SHARED_CASES)
def test_shared_cases_of_order_and_number(tmp_path, number):
    case, = CASES.glob(f"{number}_*")
    expected = json.loads((CASES / "expected.json").read_text())[number]
    for name in SHARED_CASES[number]:
        exam, levels, times = look(case / name, tmp_path)
        assert len(levels) == len(expected.get("block_levels", range(4)))
        if number != "14":
            assert np.abs(np.subtract(levels, expected["block_levels"])).max() <= 1
        if "times" in expected:
            assert times == pytest.approx(expected["times"])


@pytest.mark.skipif(not CASES.exists(), reason="no shared cases here")
@pytest.mark.parametrize("number, most", [("02", 3), ("06", 6)])
def test_shared_cases_of_colour(tmp_path, number, most):
    case, = CASES.glob(f"{number}_*")
    _, frames = read_one(case / "a.dcm", tmp_path)
    difference = np.abs(frames.astype(int) - np.load(case / "expected_rgb.npy"))
    assert difference.mean() < 1 and (difference > most).mean() < 0.01
    if number == "06":  # the code lost up to 25 levels at edges; what it kept is read as libjpeg-turbo reads it
        codes = generate_frames(pydicom.dcmread(case / "a.dcm").PixelData)
        decoded = np.stack([np.asarray(Image.open(io.BytesIO(code)).convert("RGB")) for code in codes])
        assert np.abs(frames.astype(int) - decoded).max() <= 1


@pytest.mark.skipif(not CASES.exists(), reason="no shared cases here")
def test_shared_cases_of_frame_times_and_video(tmp_path):
    expected = json.loads((CASES / "expected.json").read_text())
    case = CASES / "08_frame_times"
    for name in ("pointer_to_frame_time", "pointer_to_vector"):
        assert look(case / f"{name}.dcm", tmp_path)[2] == pytest.approx(expected["08"][name])
    case = CASES / "29_dicom_video"
    exam, frames = read_one(case / "a.dcm", tmp_path)
    assert [slot["time_s"] for slot in exam["slots"]] == pytest.approx(expected["29"]["times"])
    assert np.array_equal(frames, read_one(case / "plain.mp4", tmp_path)[1])
