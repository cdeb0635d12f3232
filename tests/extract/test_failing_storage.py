"""Storage that fails now and then."""

import signal
import subprocess

import pytest
from parts_support import (assert_equals_whole, cache, command, environment, extract, failing, make_job,
                           run_on_failing_storage)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return make_job(tmp_path_factory.mktemp("storage"))


def shards(folder, out):
    return {path.name: path.read_bytes() for path in (folder / out).glob("shard-*.h5")}


def test_errors_that_pass_lose_nothing_and_are_told_once(job):
    done = extract(job, "passing.cache", "--part", "0/1", **failing(f"{job}/", 1, 20))
    assert done.stderr.count("it is tried again for up to 1m") == 1
    cache("finish", job / "passing.cache")
    assert shards(job, "passing.cache") == shards(job, "whole.cache")


def test_a_stop_request_ends_the_waiting(job):
    process = subprocess.Popen(command(job, "stopped.cache"), stderr=subprocess.PIPE, text=True,
                               env=environment(**failing("-1.png", 1, 1)))
    for line in process.stderr:
        if "it is tried again" in line:
            break
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 75, said
    extract(job, "stopped.cache")
    assert_equals_whole(job, "stopped.cache")


def test_a_file_that_is_missing_is_not_waited_for(job, tmp_path):
    (tmp_path / "exams.csv").write_text("exam,path\nA,empty/a.png\n")
    (tmp_path / "empty").mkdir()
    done = extract(tmp_path, "x.cache", expect=1)
    assert "tried again" not in done.stderr


def test_parts_on_storage_without_locks_that_fails(job):
    assert run_on_failing_storage(job, "failing.cache", 7, links=False) > 3
