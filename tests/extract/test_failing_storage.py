"""Storage that fails now and then."""

import signal
import subprocess
import time

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


def test_a_mount_that_goes_and_comes_back(job, tmp_path):
    """In a mount namespace of the test's own. A file that is just missing is not waited for."""
    mount, store, hold, said, ended = (tmp_path / name for name in ("mount", "store", "hold", "said", "ended"))
    for folder in (mount, store):
        folder.mkdir()
    shell = subprocess.Popen(["unshare", "--mount", "sh"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def do(line):
        shell.stdin.write(line + "\n")
        shell.stdin.flush()

    def wait_for(what):
        deadline = time.monotonic() + 60
        while not what() and not ended.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not what():
            hold.unlink(missing_ok=True)
            shell.kill()
            pytest.fail(said.read_text() if said.exists() else "it did not begin")

    do(f"mount -t tmpfs none {store} && cp {job}/*.png {job}/exams.csv {store} && mount --bind {store} {mount}"
       f" && touch {hold}")
    while shell.poll() is None and not hold.exists():
        pass
    if shell.poll() is not None:
        pytest.skip("no mount namespaces here: " + shell.stderr.read())
    variables = failing("3-1.png", 0, 0) | dict(COLDFRAME_TEST_FAULTS_TRACE=tmp_path / "trace", COLDFRAME_TEST_FAULTS_HOLD=hold)
    words = command(mount, job / "mount.cache")
    do("(" + " ".join(f"{name}='{value}'" for name, value in variables.items()) + " " +
       " ".join(f"'{word}'" for word in words) + f" 2>{said}; code=$?; touch {ended}; exit $code) &")
    wait_for(lambda: (tmp_path / "trace").exists())
    do(f"umount --lazy {mount} && rm {hold}")
    wait_for(lambda: said.exists() and "it is tried again" in said.read_text())
    do(f"mount --bind {store} {mount}; wait $!; exit $?")
    shell.wait(60)
    assert shell.returncode == 0 and "No such file or directory; it is tried again" in said.read_text()
    assert_equals_whole(job, "mount.cache")


def test_a_file_that_is_missing_is_not_waited_for(job, tmp_path):
    (tmp_path / "exams.csv").write_text("exam,path\nA,empty/a.png\n")
    (tmp_path / "empty").mkdir()
    done = extract(tmp_path, "x.cache", expect=1)
    assert "tried again" not in done.stderr


def test_parts_on_storage_without_locks_that_fails(job):
    assert run_on_failing_storage(job, "failing.cache", 7, links=False) > 3
