"""`extract --part`: one cache by several processes, whatever is killed, twice at work, or lost."""

import json
import os
import random
import shutil
import signal
import subprocess

import pytest
from parts_support import Cache, assert_equals_whole, cache, command, environment, extract, make_job


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return make_job(tmp_path_factory.mktemp("parts"))


def test_parts_make_the_cache_of_one_process(job):
    for index in (2, 0, 1):
        done = extract(job, "three.cache", "--part", f"{index}/3")
        assert f"part {index} of 3 (--part) alone" in done.stderr
    assert_equals_whole(job, "three.cache")
    assert "all 3 parts are complete, 23 exams, 0 failures" in cache("finish", job / "three.cache", "--pack", job / "three.h5")
    assert_equals_whole(job, "three.h5")
    assert not list((job / "three.cache").glob(".*"))
    cache("verify", job / "three.cache")
    refused = cache("finish", job / "three.cache", expect=3)
    assert "no part has left a record" in refused


def test_finish_and_progress_tell_what_is_missing(job):
    extract(job, "some.cache", "--part", "1/5")
    extract(job, "some.cache", "--part", "4/5")
    told = cache("finish", job / "some.cache", expect=1)
    assert "3 parts of 5 are incomplete" in told and "--array=0,2-3" in told
    state = cache("progress", job / "some.cache", "--json")
    assert (state["complete"], state["waiting"], state["exams"]) == (2, 3, 9)
    assert [part["exams"] for part in state["parts"]] == [0, 5, 0, 0, 4]
    assert "2 of 5 complete, 0 at work, 3 not begun" in cache("progress", job / "some.cache")
    for index in (0, 2, 3):
        extract(job, "some.cache", "--part", f"{index}/5")
    cache("finish", job / "some.cache")
    assert_equals_whole(job, "some.cache")


def test_slurm_says_which_part(job):
    array = dict(SLURM_ARRAY_TASK_MIN=1, SLURM_ARRAY_TASK_MAX=3, SLURM_ARRAY_TASK_STEP=2, SLURM_ARRAY_TASK_COUNT=2)
    for task in (1, 3):
        extract(job, "slurm.cache", SLURM_ARRAY_TASK_ID=task, **array)
    cache("finish", job / "slurm.cache")
    assert_equals_whole(job, "slurm.cache")
    partly = extract(job, "partly.cache", expect=2, SLURM_ARRAY_TASK_ID=1)
    assert "SLURM_ARRAY_TASK_MIN is not" in partly.stderr and not (job / "partly.cache").exists()
    extract(job, "off.cache", "--part", "off", SLURM_ARRAY_TASK_ID=1)
    assert_equals_whole(job, "off.cache")


@pytest.fixture
def uneven(job, tmp_path):
    """Exams of 1 to 7 frames, and their survey."""
    rows, paths = ["exam,path,label"], iter(sorted(job.glob("*.png")))
    for exam in range(12):
        rows += [f"U{exam:02d},{next(paths)},0" for _ in range(1 + exam * 5 % 7)]
    (tmp_path / "exams.csv").write_text("\n".join(rows) + "\n")
    survey = subprocess.run(command(tmp_path, "x", "--dry-run", "--json"), capture_output=True, text=True, env=environment())
    (tmp_path / "survey.json").write_text(survey.stdout)
    extract(tmp_path, "whole.cache")
    return tmp_path


def test_parts_are_balanced_by_a_survey(uneven):
    def frames(out):
        exams = Cache(uneven / "whole.cache").exams.set_index("exam")["frames"]
        records = [json.loads(path.read_text()) for path in sorted((uneven / out).glob(".part-*.json"))]
        return [int(sum(exams[exam] for exam in record["exams"])) for record in records]

    for index in range(3):
        extract(uneven, "surveyed.cache", "--part", f"{index}/3", "--survey", uneven / "survey.json")
        extract(uneven, "counted.cache", "--part", f"{index}/3")
    surveyed, counted = frames("surveyed.cache"), frames("counted.cache")
    assert sum(surveyed) == sum(counted) and max(surveyed) - min(surveyed) <= 1 < max(counted) - min(counted)
    cache("finish", uneven / "surveyed.cache")
    assert_equals_whole(uneven, "surveyed.cache")


def test_a_part_that_is_assigned_otherwise_does_not_count(uneven):
    for index in range(3):
        extract(uneven, "mixed.cache", "--part", f"{index}/3", "--survey", uneven / "survey.json")
    done = extract(uneven, "mixed.cache", "--part", "1/3")
    assert "were assigned otherwise" in done.stderr
    told = cache("finish", uneven / "mixed.cache", expect=1)
    assert "--array=0,2" in told and "COLDFRAME_PARTS=3" in told and "same --input and --survey" in told
    for index in (0, 2):
        extract(uneven, "mixed.cache", "--part", f"{index}/3")
    cache("finish", uneven / "mixed.cache")
    assert_equals_whole(uneven, "mixed.cache")


def test_a_job_that_was_divided_anew_is_complete_when_both_divisions_are(job, tmp_path):
    """Hosts' clocks differ: that of the first division is an hour ahead."""
    header, *rows = (job / "exams.csv").read_text().splitlines()
    rows = [row.replace(",", f",{job}/", 1) for row in rows]
    manifest, out = tmp_path / "exams.csv", tmp_path / "x.cache"
    manifest.write_text("\n".join([header, *rows[:30]]) + "\n")
    for index in range(2):
        extract(tmp_path, "x.cache", "--part", f"{index}/2")
    manifest.write_text("\n".join([header, *rows]) + "\n")
    assert "were assigned otherwise" in extract(tmp_path, "x.cache", "--part", "0/3").stderr
    for path in out.glob(".part-*-of-2.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"started": record["started"] + 3600}))
    told = cache("finish", out, expect=1)
    assert "2 parts of 3 are incomplete" in told and "--array=1-2" in told
    assert "divided in 2 ways" in told and ".part-0-of-2.json, .part-1-of-2.json; .part-0-of-3.json" in told
    state = cache("finish", out, "--json", expect=1)
    assert [division["incomplete"] for division in state["divisions"]] == [[], [1, 2]]
    assert [part["waiting"] for part in cache("progress", out, "--json")["divisions"]] == [0, 2]
    assert len(list(out.glob(".part-*.json"))) == 3
    for index in (1, 2):
        extract(tmp_path, "x.cache", "--part", f"{index}/3")
    told = cache("finish", out)
    assert "all 2 parts are complete, 10 exams" in told and "all 3 parts are complete, 23 exams" in told
    assert not list(out.glob(".*"))


def test_of_a_division_that_was_given_up_the_records_are_removed(job, tmp_path):
    shutil.copytree(job, tmp_path / "job")
    extract(tmp_path / "job", "x.cache", "--part", "1/4")
    for index in range(2):
        extract(tmp_path / "job", "x.cache", "--part", f"{index}/2")
    out = tmp_path / "job/x.cache"
    assert "remove its records" in cache("finish", out, expect=1)
    (out / ".part-1-of-4.json").unlink()
    cache("finish", out)
    assert_equals_whole(tmp_path / "job", "x.cache")


def test_progress_goes_by_the_clock_of_the_file_system_alone(job):
    out = job / "clock.cache"
    extract(job, "clock.cache", "--part", "0/2")
    record = out / ".part-0-of-2.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"finished": False, "started": 4e9}))
    assert cache("progress", out, "--json")["stand_still"] == []
    for path in (record, *out.glob("shard-*")):
        os.utime(path, (1.5e9, 1.5e9))
    assert cache("progress", out, "--json", expect=1)["stand_still"] == [0]


def test_while_parts_share_a_cache_nobody_changes_it_as_a_whole(job):
    extract(job, "held.cache", "--part", "0/2")
    left = job / "held.cache/.shard-0001-000001.h5.99-0.tmp"
    left.write_bytes(b"what a killed writer left")
    for refused in (extract(job, "held.cache", "--part", "off", expect=3).stderr,
                    cache("prune", job / "held.cache", "--where", "label=0", expect=3)):
        assert "parts of a job share it" in refused and "--give-up" in refused
    assert "the job has ended, 12 exams" in cache("finish", job / "held.cache", "--give-up", expect=1)
    assert not left.exists() and not list((job / "held.cache").glob(".*.json"))
    extract(job, "held.cache", "--part", "off")
    assert_equals_whole(job, "held.cache")


def test_a_part_that_was_killed_again_is_incomplete_though_its_exams_are_there(job):
    """After its sources changed, old features must not pass for new ones."""
    for index in range(2):
        extract(job, "again.cache", "--part", f"{index}/2")
    record = job / "again.cache/.part-1-of-2.json"
    record.write_text(record.read_text().replace('"finished":true', '"finished":false'))
    assert "--array=1" in cache("finish", job / "again.cache", expect=1)


def test_finish_without_a_shard_says_which_parts_to_run(job):
    out = job / "none.cache"
    extract(job, "none.cache", "--part", "0/2")
    for shard in out.glob("shard-*"):
        shard.unlink()
    assert "--array=0-1" in cache("finish", out, expect=1)


def test_all_at_once_with_kills_and_a_part_that_runs_twice(job):
    random.seed(5)
    out, parts = "wild.cache", [0, 1, 2, 3, 3]  # the last one twice: the first was thought dead
    running = {number: subprocess.Popen(command(job, out, "--part", f"{part}/4"), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment())
               for number, part in enumerate(parts)}
    for number in (1, 4):  # killed once it is at work, or perhaps just when it is done
        while running[number].poll() is None and not list((job / out).glob(f".part-{parts[number]}-of-4.json")):
            pass
        running[number].send_signal(signal.SIGKILL)
    for number, process in running.items():
        said = process.communicate()
        assert process.returncode in ((0,) if number not in (1, 4) else (0, -signal.SIGKILL)), said
    extract(job, out, "--part", "1/4")
    cache("finish", job / out, "--pack", job / "wild.h5")
    assert_equals_whole(job, out)
    assert_equals_whole(job, "wild.h5")
    cache("verify", job / out)
    cache("verify", job / "wild.h5")


def test_what_two_writers_of_a_part_store_twice_counts_once(job):
    out = job / "twice.cache"
    extract(job, "twice.cache", "--part", "0/2")
    first = sorted(out.glob("shard-*.h5"))
    kept = {path.name: path.read_bytes() for path in first}
    for path in first:
        path.unlink()
    extract(job, "twice.cache", "--part", "0/2")
    for path in sorted(out.glob("shard-*.h5")):  # the zombie's shard comes late, under a name that is free
        path.rename(path.with_name(path.name.replace("-000000", "-000007")))
    for name, content in kept.items():
        (out / name).write_bytes(content)
    extract(job, "twice.cache", "--part", "1/2")
    cache("finish", out, "--pack", job / "twice.h5")
    cache("verify", out)
    assert_equals_whole(job, "twice.cache")
    assert_equals_whole(job, "twice.h5")


def test_failures_are_told_and_do_not_hold_up_the_end(job, tmp_path):
    lines = (job / "exams.csv").read_text().splitlines()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    manifest = [lines[0], *(line.replace(",", f",{job}/", 1) for line in lines[1:7]), f"BAD,{broken},1"]
    (tmp_path / "exams.csv").write_text("\n".join(manifest) + "\n")
    for index in range(2):
        extract(tmp_path, "x.cache", "--part", f"{index}/2", expect=1 if index == 0 else 0)
    report = cache("finish", tmp_path / "x.cache", "--json", expect=1)
    assert (report["exams"], report["failed"], report["incomplete"]) == (2, ["BAD"], [])


def test_what_does_not_go_with_parts_is_refused(job):
    for extra, words in [(("--part", "5/5"), "expected I/N"),
                         (("--part", "0/2", "--survey", job / "exams.csv"), "exams.csv")]:
        refused = extract(job, "refused.cache", *extra, expect=3 if "--survey" in extra else 2)
        assert words in refused.stderr and "Traceback" not in refused.stderr
    assert "one file" in extract(job, "refused.h5", "--part", "0/2", expect=2).stderr


def test_the_first_part_decides_the_precision(job):
    automatic = ["--precision", "auto"]
    done = subprocess.run([*command(job, "agreed.cache", "--part", "0/2"), "--quiet"], capture_output=True, text=True,
                          env=environment())
    assert done.returncode == 0, done.stderr
    agreed = json.loads((job / "agreed.cache/.agreement.json").read_text())
    assert agreed == {"precision": "fp32", "device": "cpu"}
    words = command(job, "agreed.cache", "--part", "1/2")
    words[words.index("--precision"):words.index("--precision") + 2] = automatic
    assert subprocess.run(words, capture_output=True, text=True, env=environment()).returncode == 0
    assert_equals_whole(job, "agreed.cache")
    (job / "agreed.cache/.agreement.json").write_text('{"precision": "fp32", "device": "cuda"}')
    other = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert other.returncode == 3 and "the first part computes in fp32 on cuda" in other.stderr


def test_a_record_that_is_none_is_refused_by_name(job):
    extract(job, "record.cache", "--part", "0/2")
    good = json.loads((job / "record.cache/.part-0-of-2.json").read_text())
    for bad in ({"part": 3}, good | {"parts": 4294967295}, good | {"parts": -1}, good | {"exams": 3}, good | {"part": 2}, []):
        (job / "record.cache/.part-1-of-2.json").write_text(json.dumps(bad))
        for verb in ("finish", "progress"):
            refused = cache(verb, job / "record.cache", expect=3)
            assert ".part-1-of-2.json: no record of a part" in refused


def test_an_agreement_that_is_none_is_refused_by_name(job):
    (job / "agreement.cache").mkdir()
    for bad in ("[]", '{"precision": 3, "device": "cpu"}', "{"):
        (job / "agreement.cache/.agreement.json").write_text(bad)
        refused = extract(job, "agreement.cache", "--part", "0/2", expect=3)
        assert ".agreement.json" in refused.stderr
