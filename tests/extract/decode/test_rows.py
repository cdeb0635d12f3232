"""Rows of a manifest that name a folder or a pattern; exams and patients out of paths."""

import pytest
from PIL import Image

from frames_helper import read, run, write_manifest


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (5, 4)).save(path)


def test_a_row_may_name_a_folder_or_a_pattern(tmp_path):
    for name in ("a/10.png", "a/2.png", "a/notes.txt", "[b]/x1.png", "[b]/x10.png", "[b]/x9.png", "[b]/y.png"):
        image(tmp_path / name) if name.endswith("png") else (tmp_path / name).write_text("-")
    manifest = write_manifest(tmp_path, [{"exam": "A", "path": "a", "label": 1},
                                         {"exam": "", "path": "a/", "label": 3},
                                         {"exam": "B", "path": "?b]/x*.png", "label": 2}])
    exams = read(manifest)
    assert {name: exam["files"] for name, exam in exams.items()} == {
        "A": ["a/2.png", "a/10.png"], "a": ["a/2.png", "a/10.png"],
        "B": ["[b]/x1.png", "[b]/x9.png", "[b]/x10.png"]}
    assert [exam["columns"]["label"] for exam in exams.values()] == ["1", "3", "2"]


@pytest.mark.parametrize("row, reason", [
    ({"path": "many"}, "line 2: the folder 'many' holds 2 exams, 'one' and 'two' among them"),
    ({"path": "many/one", "frame": "3"}, "line 2: 'many/one' stands for several files")])
def test_a_row_of_several_files_says_what_is_wrong(tmp_path, row, reason):
    image(tmp_path / "many/one/1.png")
    image(tmp_path / "many/two/1.png")
    done = run(write_manifest(tmp_path, [{"exam": "e", **row}]))
    assert done.returncode == 3 and reason in done.stderr, done.stderr


def test_a_folder_that_holds_nothing_is_an_exam_that_cannot_be_read(tmp_path):
    image(tmp_path / "one.png")
    (tmp_path / "empty").mkdir()
    done = run(write_manifest(tmp_path, [{"exam": "e", "path": "one.png"}, {"exam": "f", "path": "empty"}]))
    assert done.returncode == 0 and "'empty': it is a folder" in done.stdout.replace(str(tmp_path) + "/", ""), done.stdout


def patients(source, pattern):
    exams = read(source, 0, [f"--exam-from={pattern}", "--keep-patient-id"])
    return {name: (exam["patient"], exam["files"]) for name, exam in exams.items()}


def test_exams_and_patients_come_out_of_paths(tmp_path):
    for name in ("P1/day 1/1.png", "P1/day 1/2.png", "P12/day 2/1.png"):
        image(tmp_path / name)
    assert patients(tmp_path, r"P(?<patient>\d+)/(?<exam>.+)") == {
        "day 1": ("1", ["P1/day 1/1.png", "P1/day 1/2.png"]), "day 2": ("12", ["P12/day 2/1.png"])}
    done = run(tmp_path, 0, ["--exam-from=(?<exam>day)"])
    assert "--exam-from calls two exams 'day': 'P1/day 1/1.png' and 'P12/day 2'" in done.stderr
    done = run(tmp_path, 0, ["--exam-from=(?<exam>P12.*)"])
    assert "--exam-from matches neither 'P1/day 1' nor 'P1/day 1/1'" in done.stderr


def test_files_of_a_flat_folder_are_told_apart(tmp_path):
    for name in ("pat1_a_1", "pat1_a_2", "pat2_a_1"):
        image(tmp_path / f"all/{name}.png")
    assert patients(tmp_path, r"(?<exam>(?<patient>pat\d+)_.)") == {
        "pat1_a": ("pat1", ["all/pat1_a_1.png", "all/pat1_a_2.png"]), "pat2_a": ("pat2", ["all/pat2_a_1.png"])}
