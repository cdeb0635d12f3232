"""verify --input: the stamp is made here as common/files/fingerprint.h words it, and by extract in tests/extract."""
import os

import pytest

from tool_support import driver, refusal, tool, tool_json


@pytest.fixture
def job(tmp_path):
    """A manifest of exams a, b, c whose cache was made when the files looked as they do."""
    for name in ("a.gif", "b1.png", "b2.png", "c.gif"):
        (tmp_path / name).write_text(name)
    rows = "exam,path\na,a.gif\nb,b1.png\nb,b2.png\nb,b1.png\nc,c.gif\n"
    (tmp_path / "exams.csv").write_text(rows)
    driver("stamped", tmp_path / "x.h5", "a", tmp_path / "a.gif", "b", tmp_path / "b1.png", "b", tmp_path / "b2.png",
           "c", tmp_path / "c.gif")
    return tmp_path


def problems(job, manifest="exams.csv"):
    findings = tool_json("verify", job / "x.h5", "--input", job / manifest)["findings"]
    return {finding["exam"]: finding["problem"].split(":")[0].split(" (")[0] for finding in findings}


def test_nothing_is_wrong_at_first(job):
    assert problems(job) == {}
    assert tool("verify", job / "x.h5", "--input", job / "exams.csv").returncode == 0


def test_missing_extra_failed_and_stale(job):
    (job / "exams.csv").write_text("exam,path\na,a.gif\nb,b1.png\nb,b2.png\nd,d.gif\nbroken,x.gif\n")
    os.utime(job / "b2.png", ns=(1, 1))
    assert problems(job) == {"b": "is stale", "d": "is missing", "c": "is extra", "broken": "failed"}
    result = tool("verify", job / "x.h5", "--input", job / "exams.csv")
    assert result.returncode == 1 and "exam 'd': is missing" in result.stdout


def test_a_changed_size_and_a_removed_file_are_stale(job):
    times = (job / "a.gif").stat()
    (job / "a.gif").write_text("longer than before")
    os.utime(job / "a.gif", ns=(times.st_atime_ns, times.st_mtime_ns))
    (job / "c.gif").unlink()
    assert problems(job) == {"a": "is stale", "c": "is stale"}


def test_other_files_of_an_exam_are_stale(job):
    (job / "exams.csv").write_text("exam,path\na,a.gif\nb,b2.png\nb,b1.png\nc,c.gif\n")
    os.utime(job / "b1.png", ns=(5, 5))
    assert problems(job) == {"b": "is stale"}


@pytest.mark.parametrize("text, words", [("path\na.gif\n", "'exam'"), ("", "empty"), ("exam,path\n,a.gif\n", "is empty")])
def test_manifests_that_are_none(job, text, words):
    (job / "bad.csv").write_text(text)
    assert words in refusal("verify", job / "x.h5", "--input", job / "bad.csv")
    assert "nowhere" in refusal("verify", job / "x.h5", "--input", job / "nowhere.csv")
