"""Names of exams after DICOM headers, wherever the files lie and whoever lists them."""

import pytest
from PIL import Image

from dicom_directory import write_dicomdir
from frames_helper import read, run, write_manifest
from test_dicom_folders import digits, single

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_folder_of_images_may_be_called_as_a_series_beside_it_is(tmp_path):
    single(tmp_path, "a", SeriesInstanceUID="1.2.3.1", SeriesNumber=1)
    name = f"OT-1-{digits('1.2.3.1')}"
    (tmp_path / name).mkdir()
    Image.new("RGB", (5, 4)).save(tmp_path / name / "x.png")
    exams = read(tmp_path)
    assert {id: exam["files"] for id, exam in exams.items()} == {
        name: ["a"], f"{name}-2": [f"{name}/x.png"]}


def test_names_of_exams_stay_when_others_come_and_files_move(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    attributes = {"SeriesNumber": 1, "PatientID": "B"}
    for folder in (old, new / "b/deep"):
        single(folder, "b1", SeriesInstanceUID="1.7", InstanceNumber=1, **attributes)
        single(folder, "b2", SeriesInstanceUID="1.7", InstanceNumber=2, **attributes)
        single(folder, "cine", frames=2, SOPInstanceUID="1.7.7", **attributes)
    before = read(old)
    assert set(before) == {f"OT-1-{digits('1.7')}", f"OT-1-{digits('1.7.7')}"}
    single(new, "a1", SeriesInstanceUID="1.6", SeriesNumber=1, PatientID="A")
    after = read(new)
    assert len(after) == 3
    for name, exam in before.items():
        assert after[name]["patient"] == exam["patient"]
        assert after[name]["files"] == [f"b/deep/{file}" for file in exam["files"]]


def test_a_name_holds_no_more_than_is_plain_and_common(tmp_path):
    single(tmp_path, "a", SeriesInstanceUID="1.1", SeriesNumber=3, Modality="DOE^JO")
    for number in (4, 5):
        single(tmp_path, f"b{number}", SeriesInstanceUID="1.2", SeriesNumber=number)
    assert set(read(tmp_path)) == {f"dicom-3-{digits('1.1')}", f"OT-{digits('1.2')}"}


def test_clips_of_one_identifier_are_named_after_their_paths(tmp_path):
    for name in ("x/a.dcm", "x/b.dcm"):
        single(tmp_path, name, frames=2, SOPInstanceUID="1.1", PatientName=name)
    (tmp_path / "y.dcm").write_bytes((tmp_path / "x/a.dcm").read_bytes())
    assert list(read(tmp_path)) == ["x/a", "x/b"]
    assert "passed over 'y.dcm': it is a copy of 'x/a.dcm'" in run(tmp_path).stderr


def test_a_series_of_several_patients_is_passed_over(tmp_path):
    for name, patient in (("a", "A"), ("b", ""), ("c", "C")):
        single(tmp_path, name, SeriesInstanceUID="1.1", PatientID=patient)
    single(tmp_path, "d", SeriesInstanceUID="1.2")
    assert [exam["files"] for exam in read(tmp_path).values()] == [["d"]]
    assert ("passed over 3 files, such as 'a' and 'c': they are of different patients, but state "
            "the same SeriesInstanceUID" in run(tmp_path).stderr)


def test_a_manifest_may_leave_the_exams_to_the_headers(tmp_path):
    for name, time in (("a", "120005"), ("b", "120000"), ("c", "120002")):
        single(tmp_path, f"in/{name}", SeriesInstanceUID="1.1", AcquisitionTime=time)
    single(tmp_path, "in/cine", frames=2, FrameTime=40)
    (tmp_path / "in/copy").write_bytes((tmp_path / "in/cine").read_bytes())
    expected = read(tmp_path / "in")
    rows = [{"path": f"in/{name}", "label": len(name)} for name in ("a", "b", "c", "cine", "copy")]
    manifest = write_manifest(tmp_path, rows)
    exams = read(manifest)
    assert set(exams) == set(expected)
    for name, exam in exams.items():
        assert exam["slots"] == expected[name]["slots"]
        assert exam["files"] == [f"in/{file}" for file in expected[name]["files"]]
        assert exam["columns"]["label"] == str(len(exam["files"][0]) - 3)
    assert "passed over 'in/copy': it is a copy of 'in/cine'" in run(manifest).stderr
    write_manifest(tmp_path, [*rows[:4], {"path": "in/gone", "label": 9}])
    assert "error" in read(manifest)["in/gone"]
    write_manifest(tmp_path, [{"exam": "mine", **rows[0]}, {"exam": "", **rows[3]}])
    assert len(read(manifest)) == 2 and "mine" in read(manifest)
    Image.new("RGB", (5, 4)).save(tmp_path / "x.png")
    write_manifest(tmp_path, [{"exam": "", "path": "x.png"}])
    assert "line 2: column 'exam' is empty" in run(manifest).stderr
    write_manifest(tmp_path, [{"id": "1", "path": "x.png"}])
    assert "no column 'exam'; the columns are: id, path" in run(manifest).stderr


def test_a_dicomdir_names_the_files_of_its_folder(tmp_path):
    names = [["IMAGES", "IM1"], ["IMAGES", "IM2"], ["SMALL"]]
    for name in names[:2]:
        single(tmp_path, "/".join(name), SeriesInstanceUID="1.1")
    single(tmp_path, "small", SeriesInstanceUID="1.2")
    single(tmp_path, "unnamed", SeriesInstanceUID="1.3")
    dicomdir = write_dicomdir(tmp_path, [*names, ["GONE"]])
    exams = read(dicomdir)
    assert sorted(exam["files"] for exam in exams.values()) == [["IMAGES/IM1", "IMAGES/IM2"], ["small"]]
    assert "passed over 'GONE'" in run(dicomdir).stderr
    folder = run(tmp_path)
    assert len(folder.stdout.splitlines()) == 3 and "DICOMDIR" not in folder.stderr


@pytest.mark.parametrize("names, reason", [
    ([["..", "OTHER"]], "names the file '..\\OTHER'; expected one in its own folder"),
    ([["A/../../OTHER"]], "expected one in its own folder"),
    ([["LINK", "OTHER"]], "lies outside its folder"),
    ([], "it names no file")])
def test_a_dicomdir_leads_nowhere_else(tmp_path, names, reason):
    single(tmp_path, "OTHER")
    disc = tmp_path / "disc"
    disc.mkdir()
    (disc / "LINK").symlink_to(tmp_path)
    done = run(write_dicomdir(disc, names))
    assert done.returncode == 3 and reason in done.stderr
