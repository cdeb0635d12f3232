"""Folders of DICOM files as exams; times, patients and columns that headers state."""

import datetime
import hashlib

import numpy as np
import pydicom
import pytest
import tifffile
from PIL import Image

from frames_helper import read, run, write_manifest
from test_dicom import greatest_difference, new_dataset, pattern, read_one, store

pytestmark = pytest.mark.filterwarnings("ignore")


def single(folder, name, frames=1, **attributes):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset = new_dataset(bits=8, allocated=8, frames=frames, **attributes)
    store(dataset, path, pattern(frames, 8))
    return path


def digits(uid):
    """How an exam's id ends."""
    return hashlib.sha256(uid.encode()).hexdigest()[:10]


def axial(z):
    return {"ImagePositionPatient": [0, 0, z], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}


def test_a_folder_is_grouped_by_series_and_ordered(tmp_path):
    angio = {"SeriesInstanceUID": "1.2.3.1", "SeriesNumber": 7, "AcquisitionDate": "20240301"}
    for name, time in (("a", "120005.5"), ("b", "120000"), ("c.dcm", "120002")):
        single(tmp_path, f"s/{name}", **angio, AcquisitionTime=time)
    for name, z in (("x", 30), ("y", 10), ("z", 20)):
        single(tmp_path, f"s/{name}", SeriesInstanceUID="1.2.3.2", SeriesNumber=8, **axial(z))
    single(tmp_path, "t/again", SeriesInstanceUID="1.2.3.3", SeriesNumber=7)
    single(tmp_path, "s/cine.dcm", frames=3, FrameTime=40, SOPInstanceUID="1.2.3.9")
    exams = read(tmp_path)
    first, second, again, cine = (f"OT-{part}" for part in (
        f"7-{digits('1.2.3.1')}", f"8-{digits('1.2.3.2')}", f"7-{digits('1.2.3.3')}",
        digits("1.2.3.9")))
    assert set(exams) == {first, second, again, cine}
    assert exams[first]["files"] == ["s/b", "s/c.dcm", "s/a"]
    assert [slot["time_s"] for slot in exams[first]["slots"]] == [0, 2, 5.5]
    assert exams[second]["files"] == ["s/y", "s/z", "s/x"]
    assert [slot["time_s"] for slot in exams[second]["slots"]] == [None] * 3
    assert [slot["time_s"] for slot in exams[cine]["slots"]] == [0, 0.04, 0.08]


def test_files_of_a_manifest_have_the_times_of_their_headers(tmp_path):
    for name, date_time in (("a", "20230101"), ("b", "20230701"), ("c", "20240101")):
        single(tmp_path, f"{name}.dcm", AcquisitionDateTime=date_time)
    single(tmp_path, "cine.dcm", frames=3, FrameTime=500, AcquisitionDateTime="20240101000010")
    single(tmp_path, "undated.dcm")
    for name in ("still1.dcm", "still2.dcm"):
        single(tmp_path, name, frames=2, AcquisitionDateTime="20240101")

    def manifest(*rows):
        return write_manifest(tmp_path, [dict(zip(("exam", "path", "frame"), ("e", *row, ""))) for row in rows])

    def times(*rows, options=()):
        exam, = read(manifest(*rows), 0, options).values()
        return [slot["time_s"] for slot in exam["slots"]]

    assert times(["a.dcm"], ["b.dcm"], ["c.dcm"]) == [0, 181 * 86400, 365 * 86400]
    assert times(["c.dcm"], ["cine.dcm"]) == [0, 10, 10.5, 11]
    assert times(["cine.dcm", "1-2"], ["undated.dcm"]) == [None] * 3
    assert times(["c.dcm"], ["cine.dcm", "2"], [""]) == [0, 11, None]
    done = run(manifest(["c.dcm"], ["b.dcm"], ["a.dcm"]))
    assert done.returncode == 3 and (
        "exam 'e': frame 1 ('b.dcm') has time -15897600.0 s before frame 0 at 0.0 s, by their headers; "
        "sort the manifest, give --sort time or pass --allow-unordered") in done.stderr
    day = 86400
    assert times(["c.dcm"], ["a.dcm"], options=["--allow-unordered"]) == [0, -365 * day]
    assert times(["c.dcm"], ["b.dcm"], ["a.dcm"], options=["--sort-by-time"]) == [0, 181 * day, 365 * day]
    assert "frame 2 ('a.dcm')" in run(manifest(["c.dcm"], [""], ["a.dcm"])).stderr
    (tmp_path / "junk.dcm").write_bytes(b"junk")  # its frame is lost, the others' order is not
    assert "frame 1 ('b.dcm')" in run(manifest(["c.dcm"], ["b.dcm"], ["junk.dcm"])).stderr
    assert "frame 2 ('b.dcm')" in run(manifest(["junk.dcm"], ["c.dcm"], ["b.dcm"])).stderr
    assert times(["c.dcm"], ["b.dcm"], ["a.dcm"], ["junk.dcm"], options=["--sort-by-time"]) == [0, None, 181 * day, 365 * day]
    assert times(["cine.dcm", "1-2"], ["c.dcm"], options=["--sort-by-time"]) == [0, 10.5, 11]
    single(tmp_path, "late.dcm", frames=2, FrameTime=500, AcquisitionDateTime="20240101000010.7")
    rows = ["cine.dcm"], ["late.dcm"]
    assert "frame 3 ('late.dcm') has time 0.7 s before frame 2 at 1.0 s" in run(manifest(*rows)).stderr
    assert "their clips overlap" in run(manifest(*rows), 0, ["--sort-by-time"]).stderr
    assert times(*rows, options=["--allow-unordered"]) == pytest.approx([0, 0.5, 1, 0.7, 1.2])
    assert times(["a.dcm"], [""], ["undated.dcm"]) == [None] * 3
    assert times(["still1.dcm", "1"], ["still2.dcm", "1"]) == [None] * 2


DATED = {"StudyDate": "20240301", "StudyTime": "235950"}
CLOCKS = {  # the headers of a series' three files, and their times
    "own date": ([{"AcquisitionDate": "20240301", "AcquisitionTime": t, "StudyDate": "20200101"}
                  for t in ("10", "1001", "1002")], [0, 60, 120], "2024-03-01T10:00"),
    "date of the study": ([{**DATED, "StudyTime": "0900", "AcquisitionTime": t}
                           for t in ("10", "1001", "1002.5")],
                          [0, 60, 120.5], "2024-03-01T10:00"),
    "date of the study, past midnight": (
        [{**DATED, "AcquisitionTime": t} for t in ("235959", "000001", "000003")],
        [0, 2, 4], "2024-03-01T23:59:59"),
    "date of content, past midnight": (
        [{"AcquisitionTime": a, "ContentDate": d, "ContentTime": c}
         for a, d, c in (("235950", "20240301", "235955"), ("235958", "20240302", "000003"),
                         ("000006", "20240302", "000011"))],
        [0, 8, 16], "2024-03-01T23:59:50"),
    "time of content": ([{**DATED, "StudyTime": "09", "ContentTime": t}
                         for t in ("10", "1001", "1002")], [0, 60, 120], "2024-03-01T10:00"),
    "no date": ([{"AcquisitionTime": t} for t in ("10", "1001", "1002")], [0, 60, 120], None),
    "no date, past midnight": ([{"AcquisitionTime": t} for t in ("2359", "0000", "0002")],
                               [0, 60, 180], None),
    "one with a date": ([{"AcquisitionTime": "10", **(DATED if i == 2 else {}), "InstanceNumber": i}
                         for i in range(3)], [None] * 3, None),
    "study alone": ([{**DATED, "InstanceNumber": i} for i in range(3)], [None] * 3,
                    "2024-03-01T23:59:50"),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_times_of_acquisition_are_those_of_the_images(tmp_path, name):
    headers, expected, start = CLOCKS[name]
    for file, attributes in zip(("c", "b", "a"), headers):
        single(tmp_path, file, **attributes)
    exam, = read(tmp_path).values()
    assert [slot["time_s"] for slot in exam["slots"]] == expected
    if expected[1] is not None:
        assert exam["files"] == ["c", "b", "a"]
    utc = datetime.timezone.utc
    assert exam["start_time"] == (
        start and datetime.datetime.fromisoformat(start).replace(tzinfo=utc).timestamp())


def test_times_of_day_do_not_order_a_study(tmp_path):
    for name, time in (("a", "12"), ("b", "10")):
        single(tmp_path, name, SeriesInstanceUID=f"1.9.{time}", AcquisitionTime=time)
    exam, = read(tmp_path, 0, ["--by-study"]).values()
    assert exam["files"] == ["a", "b"]
    assert [slot["time_s"] for slot in exam["slots"]] == [None] * 2


def test_a_study_is_one_exam_on_request(tmp_path):
    for name, series, date in (("a", "1", "20240301"), ("b", "2", "20230301"), ("c", "1", "20240302")):
        single(tmp_path, name, StudyInstanceUID="1.9", SeriesInstanceUID=f"1.9.{series}",
               AcquisitionDate=date, AcquisitionTime="10")
    single(tmp_path, "d", StudyInstanceUID="1.8", SeriesInstanceUID="1.8.1")
    exams = read(tmp_path, 0, ["--by-study"])
    assert {name: exam["files"] for name, exam in exams.items()} == {
        f"study-{digits('1.9')}": ["b", "a", "c"], f"study-{digits('1.8')}": ["d"]}
    assert ([slot["time_s"] for slot in exams[f"study-{digits('1.9')}"]["slots"]]
            == [0, 366 * 86400, 367 * 86400])


def test_a_copied_slice_leaves_its_volume_in_order(tmp_path):
    for name, z, time in (("1", 20, "100003"), ("2", 10, "100009"), ("3", 30, "100001")):
        single(tmp_path, f"{name}.dcm", **axial(z), ContentTime=time, StudyDate="20240301",
               SOPInstanceUID=f"1.5.{z}", InstanceNumber=int(name))
    (tmp_path / "2 (1).dcm").write_bytes((tmp_path / "2.dcm").read_bytes())
    exam, = read(tmp_path).values()
    assert exam["files"] == ["2 (1).dcm", "1.dcm", "3.dcm"]
    assert [slot["time_s"] for slot in exam["slots"]] == [None] * 3
    assert "passed over '2.dcm': it is a copy of '2 (1).dcm'" in run(tmp_path).stderr


def test_images_that_share_an_identifier_are_no_copies(tmp_path):
    for number in range(3):
        single(tmp_path, f"{number}.dcm", SOPInstanceUID="1.5", InstanceNumber=number)
    exam, = read(tmp_path).values()
    assert len(exam["slots"]) == 3


def test_what_is_no_image_is_passed_over_with_the_reason(tmp_path):
    single(tmp_path, "a")
    report = new_dataset()
    report.SOPClassUID = "1.2.840.10008.5.1.4.1.1.88.11"
    store(report, tmp_path / "report.dcm", np.zeros(0))
    del report.PixelData
    pydicom.dcmwrite(tmp_path / "report.dcm", report, enforce_file_format=True,
                     implicit_vr=False, little_endian=True)
    done = run(tmp_path)
    assert "passed over 'report.dcm': it is a structured report" in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_patients_and_studies_are_hashed_unless_kept(tmp_path):
    path = single(tmp_path, "a.dcm", ViewPosition="CC", PixelSpacing=[0.1953125, 0.25],
                  AcquisitionDateTime="20240301123005.25+0200")
    hashed, = read(path, 0, ["--salt=pepper"]).values()
    assert hashed["patient"] == hashlib.sha256(b"pepperp-007").hexdigest()[:16]  # of the name in its plain spelling
    assert hashed["columns"] == {
        "study": hashlib.sha256(b"pepper1.2.3").hexdigest()[:16], "view": "CC", "modality": "OT",
        "pixel_spacing": "0.1953125 0.25"}
    assert hashed["slots"][0]["spacing_mm"] == [0.1953125, 0.25]
    zone = datetime.timezone(datetime.timedelta(hours=2))
    when = datetime.datetime(2024, 3, 1, 12, 30, 5, 250000, zone)
    assert hashed["start_time"] == when.timestamp()
    kept, = read(path, 0, ["--keep-patient-id"]).values()
    assert kept["patient"] == "P-007" and kept["columns"]["study"] == "1.2.3"
    assert "Doe" not in str(hashed) + str(kept)


def frame_item(date_time=None, z=None):
    item = pydicom.Dataset()
    content = pydicom.Dataset()
    if date_time:
        content.FrameAcquisitionDateTime = date_time
    item.FrameContentSequence = [content]
    if z is not None:
        plane = pydicom.Dataset()
        plane.ImagePositionPatient = [0, 0, z]
        item.PlanePositionSequence = [plane]
    return item


NOW = [f"2024030112000{i}.5" for i in range(3)]
TIMES = {
    "FrameTime": ({"FrameTime": 20}, [0, 0.02, 0.04]),
    "FrameTimeVector": ({"FrameTimeVector": [0, 10, 30]}, [0, 0.01, 0.04]),
    "rate for display": ({"RecommendedDisplayFrameRate": 25}, [0, 0.04, 0.08]),
    "cine rate": ({"CineRate": 50}, [0, 0.02, 0.04]),
    "none": ({}, [None] * 3),
    "enhanced": ({"PerFrameFunctionalGroupsSequence": [frame_item(t, 5) for t in NOW]}, [0, 1, 2]),
    "enhanced volume": ({"PerFrameFunctionalGroupsSequence": [
        frame_item(t, z) for z, t in enumerate(NOW)]}, [None] * 3),
    "enhanced, decreasing": ({"PerFrameFunctionalGroupsSequence": [
        frame_item(t, 5) for t in NOW[::-1]]}, [0, 1, 2]),
    "enhanced, slice by slice, with a rate for display": (
        {"RecommendedDisplayFrameRate": 25, "PerFrameFunctionalGroupsSequence": [
            frame_item(t, z) for t, z in ((NOW[0], 5), (NOW[1], 5), (NOW[0], 6))]}, [0, 0, 1]),
    "enhanced, some unknown": ({"PerFrameFunctionalGroupsSequence": [
        frame_item(t, 5) for t in (NOW[0], None, NOW[1])]}, [None] * 3),
    "enhanced, all at one time, with a rate for display": (
        {"RecommendedDisplayFrameRate": 25, "PerFrameFunctionalGroupsSequence": [
            frame_item(NOW[0], 5)] * 3}, [0, 0.04, 0.08]),
    "enhanced, with a rate for display": (
        {"CineRate": 25, "PerFrameFunctionalGroupsSequence": [
            frame_item(t, 5) for t in NOW]}, [0, 1, 2]),
}


@pytest.mark.parametrize("name", TIMES)
def test_frames_have_the_times_that_the_header_states(tmp_path, name):
    attributes, expected = TIMES[name]
    exam, = read(single(tmp_path, "a.dcm", frames=3, **attributes)).values()
    times = [slot["time_s"] for slot in exam["slots"]]
    assert times == [pytest.approx(t) if t is not None else None for t in expected]


def test_volumes_that_are_stored_slice_by_slice_come_in_the_order_of_time(tmp_path):
    places = [(t, z) for z in (5, 6) for t in NOW]
    dataset = new_dataset(frames=6, bits=8, allocated=8,
                          PerFrameFunctionalGroupsSequence=[frame_item(*place) for place in places])
    values = np.arange(6).reshape(6, 1, 1) * 10 + np.zeros((6, 37, 51))
    store(dataset, tmp_path / "a.dcm", values)
    exam, frames = read_one(tmp_path / "a.dcm", tmp_path, "--window=127.5,256")
    assert [slot["time_s"] for slot in exam["slots"]] == [0, 0, 1, 1, 2, 2]
    assert [frame[0, 0, 0] // 10 for frame in frames] == [0, 3, 1, 4, 2, 5]


def region(kind, x0, y0, x1, y1):
    item = pydicom.Dataset()
    item.RegionSpatialFormat, item.RegionDataType = kind, 1
    item.RegionLocationMinX0, item.RegionLocationMinY0 = x0, y0
    item.RegionLocationMaxX1, item.RegionLocationMaxY1 = x1, y1
    item.PhysicalUnitsXDirection = item.PhysicalUnitsYDirection = 3
    item.PhysicalDeltaX, item.PhysicalDeltaY = 0.02, -0.03
    return item


def test_ultrasound_regions_give_place_and_spacing(tmp_path):
    regions = [region(1, 3, 4, 20, 30), region(3, 0, 0, 50, 36), region(1, 10, 2, 90, 20)]
    exam, = read(single(tmp_path, "a.dcm", SequenceOfUltrasoundRegions=regions)).values()
    assert exam["slots"][0]["region"] == [3, 2, 48, 29]  # cut at the frame's 51 columns
    assert exam["slots"][0]["spacing_mm"] == [pytest.approx(0.3), pytest.approx(0.2)]


def test_one_range_holds_for_all_files_of_a_series(tmp_path):
    stored = [np.full((1, 37, 51), level) for level in (100, 600, 1100)]
    for i, values in enumerate(stored):
        dataset = new_dataset(frames=1, InstanceNumber=i)
        store(dataset, tmp_path / str(i), values)
    exam, frames = read_one(tmp_path, tmp_path.parent)
    assert [frame[0, 0, 0] for frame in frames] == [0, 128, 255]
    _, frames = read_one(tmp_path, tmp_path.parent, "--window=600,2000")
    assert [frame[0, 0, 0] for frame in frames] == [64, 128, 191]


def test_the_range_found_for_one_file_leaves_alone_those_that_need_none(tmp_path):
    eight = pattern(1, 8)
    store(new_dataset(bits=8, allocated=8, frames=1, InstanceNumber=1), tmp_path / "d1", eight)
    store(new_dataset(bits=16, frames=1, InstanceNumber=2), tmp_path / "d2",
          np.full((1, 37, 51), 60000) - eight)
    _, frames = read_one(tmp_path, tmp_path.parent)
    assert np.array_equal(frames[0, ..., 0], eight[0])
    assert frames[1].min() == 0 and frames[1].max() == 255


def test_sixteen_bits_beside_floats_keep_their_range(tmp_path):
    sixteen = np.linspace(0, 65535, 12).reshape(3, 4).astype(np.uint16)
    tifffile.imwrite(tmp_path / "1.tif", sixteen, photometric="minisblack")
    tifffile.imwrite(tmp_path / "2.tif", (sixteen / 65535).astype("f4"), photometric="minisblack")
    _, frames = read_one(tmp_path, tmp_path.parent)
    assert np.array_equal(frames[0], frames[1])
    assert frames[0, 0, 1, 0] == 23


@pytest.mark.parametrize("kind, value", [("SS", -32768), ("US", 32768)])
@pytest.mark.parametrize("window", ["file", "10%,90%"])
def test_padding_takes_no_part_in_the_range(tmp_path, kind, value, window):
    values = np.arange(37 * 51) % 1000
    image = values.copy()
    image[::7] = -32768
    values[::7] = -1  # below the range: black
    dataset = new_dataset(frames=1, bits=16, signed=True)
    dataset.add_new("PixelPaddingValue", kind, value)
    store(dataset, tmp_path / "a.dcm", image.reshape(1, 37, 51))
    _, frames = read_one(tmp_path / "a.dcm", tmp_path, f"--window={window}")
    low, high = np.percentile(values[values >= 0], [0, 100] if window == "file" else [10, 90])
    expected = np.floor(255 * np.clip((values - low) / (high - low), 0, 1) + 0.5).astype(np.uint8)
    assert np.array_equal(frames[0, ..., 0].ravel(), expected)


def test_percentiles_are_numpys(tmp_path):
    values = pattern(2, 12)
    store(new_dataset(), tmp_path / "a.dcm", values)
    _, frames = read_one(tmp_path / "a.dcm", tmp_path, "--window=2%,90%")
    low, high = np.percentile(values, [2, 90])
    expected = np.floor(255 * np.clip((values - low) / (high - low), 0, 1) + 0.5).astype(np.uint8)
    assert greatest_difference(frames[..., 0], expected) == 0
