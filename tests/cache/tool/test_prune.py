"""prune, pack --where and verify with a list: exams taken out of a cache; info beside a job at work."""
import subprocess

import pytest

from tool_support import DRIVER, driver, dump, refusal, tool, tool_json


@pytest.fixture(params=["x.h5", "x.cache"])
def cache(tmp_path, request):
    """Exams 0 to 8 (patients P0 of 0, P1 of 2 and 3, …), and a failure of the exam `broken`."""
    driver("write", tmp_path / request.param, 0, 9)
    return tmp_path / request.param


def test_prune_takes_a_patient_out(cache):
    before = dump(cache)
    report = tool_json("prune", cache, "--where", "patient=P1")
    assert report == {"path": str(cache), "exams": 2, "failures": 0, "left": 7, "unknown": []}
    assert dump(cache) == [exam for exam in before if exam["id"] not in "23"]
    assert tool("verify", cache).returncode == 0
    assert tool_json("info", cache)["failures"][0]["exam"] == "broken"
    again = refusal("prune", cache, "--where", "patient=P1")
    assert "no exam of" in again


@pytest.mark.parametrize("text", ["4\nbroken\nnobody\n", "exam,why\n4,withdrawn\nbroken,\nnobody,\"a, b\"\n"])
def test_prune_takes_exams_of_a_file_out(cache, tmp_path, text):
    before = dump(cache)
    (tmp_path / "withdrawn.txt").write_text(text)
    result = tool("prune", cache, "--exams", tmp_path / "withdrawn.txt")
    assert result.returncode == 0 and "1 exam and 1 failure taken out, 8 exams left" in result.stderr
    assert "1 exam of the list: nobody" in result.stderr
    assert dump(cache) == [exam for exam in before if exam["id"] != "4"]
    assert tool_json("info", cache)["failures"] == []
    assert tool("verify", cache).returncode == 0
    # A second time there is nothing to do, and nothing wrong with that.
    assert tool_json("prune", cache, "--exams", tmp_path / "withdrawn.txt")["exams"] == 0


def test_prune_says_what_it_needs(cache, tmp_path):
    before = dump(cache)
    (tmp_path / "all.txt").write_text("".join(f"{i}\n" for i in range(9)))
    assert "either --where" in refusal("prune", cache)
    assert "either --where" in refusal("prune", cache, "--where", "exam=1", "--exams", tmp_path / "all.txt")
    assert "these are all 9 exams" in refusal("prune", cache, "--exams", tmp_path / "all.txt")
    assert "no column 'sex'" in refusal("prune", cache, "--where", "sex=f")
    assert "no such cache" in refusal("prune", tmp_path / "none.h5", "--exams", tmp_path / "all.txt")
    assert dump(cache) == before


def test_pack_makes_a_copy_of_some_exams(cache, tmp_path):
    before = dump(cache)
    report = tool_json("pack", tmp_path / "some.h5", cache, "--where", "label=yes", "--where", "exam!=5")
    kept = [exam for exam in before if exam["columns"]["label"] == "yes" and exam["id"] != "5"]
    assert dump(tmp_path / "some.h5") == kept and report["exams"] == len(kept) > 1
    assert dump(cache) == before
    assert tool("verify", tmp_path / "some.h5").returncode == 0
    assert tool_json("info", tmp_path / "some.h5")["failures"] == []
    assert tool_json("diff", cache, tmp_path / "some.h5")["different"] == []
    assert "no exam of" in refusal("pack", tmp_path / "none.h5", cache, "--where", "label=never")


@pytest.mark.parametrize("text", ["{}", "exam\n{}"])
def test_verify_takes_a_list_of_exams(cache, tmp_path, text):
    (tmp_path / "list.txt").write_text(text.format("".join(f"{name}\n" for name in [*range(1, 9), "new", "broken"])))
    findings = tool_json("verify", cache, "--input", tmp_path / "list.txt")["findings"]
    assert {finding["exam"]: finding["problem"].split(":")[0] for finding in findings} == {
        "new": "is missing", "0": "is extra", "broken": "failed"}


def test_info_says_that_a_job_is_at_work(tmp_path):
    for name in ("x.h5", "x.cache"):
        path = tmp_path / name
        with subprocess.Popen([DRIVER, "hold", path, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            assert job.stdout.readline() == b"ready\n"
            result = tool("info", path)
            assert result.returncode == 0 and f"a job is at work (process {job.pid} on " in result.stdout
            report = tool_json("info", path)
            assert report["exams"] == 0 and f"process {job.pid} on " in report["writers"][0]
            for verb in ("ls", "stats", "verify"):
                assert "a job is at work" in refusal(verb, path)
            job.stdin.close()
        with subprocess.Popen([DRIVER, "hold", path, "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            assert job.stdout.readline() == b"ready\n"
            assert f"process {job.pid} on " in tool("info", path).stdout
            report = tool_json("info", path)
            assert report["exams"] == 2 and len(report["writers"]) == 1
            assert "is being written by process" in refusal("prune", path, "--where", "exam=1")
            job.stdin.close()
        assert tool_json("info", path)["writers"] == [] and "at work" not in tool("info", path).stdout
