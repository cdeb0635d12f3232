"""Storage that is slow, fails now and then, or is full: `--retry-for` and `--stage`."""

import pathlib
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


def test_what_does_not_pass_fails_in_time(job):
    done = extract(job, "away.cache", "--retry-for", "0.2", "--part", "0/4", expect=1, **failing("4-1.png", 1, 1))
    assert "4-1.png': " in done.stdout and ("Stale file handle" in done.stdout or "Input/output error" in done.stdout)
    for part in range(4):
        extract(job, "away.cache", "--part", f"{part}/4")
    cache("finish", job / "away.cache")
    assert_equals_whole(job, "away.cache")


def test_a_stop_request_ends_the_waiting(job):
    process = subprocess.Popen(command(job, "stopped.cache", "--retry-for", "3600"), stderr=subprocess.PIPE, text=True,
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
    words = command(mount, job / "mount.cache", "--retry-for", 300)
    do("(" + " ".join(f"{name}='{value}'" for name, value in variables.items()) + " " +
       " ".join(f"'{word}'" for word in words) + f" 2>{said}; code=$?; touch {ended}; exit $code) &")
    wait_for(lambda: (tmp_path / "trace").exists())
    do(f"umount {mount} && rm {hold}")
    wait_for(lambda: said.exists() and "it is tried again" in said.read_text())
    do(f"mount --bind {store} {mount}; wait $!; exit $?")
    shell.wait(60)
    assert shell.returncode == 0 and "No such file or directory; it is tried again" in said.read_text()
    assert_equals_whole(job, "mount.cache")


def test_a_file_that_is_missing_is_not_waited_for(job, tmp_path):
    (tmp_path / "exams.csv").write_text("exam,path\nA,empty/a.png\n")
    (tmp_path / "empty").mkdir()
    done = extract(tmp_path, "x.cache", "--retry-for", 3600, expect=1)
    assert "tried again" not in done.stderr


def test_parts_on_storage_without_locks_that_fails(job):
    assert run_on_failing_storage(job, "failing.cache", 7, "--stage", job, links=False) > 3


# --stage


def test_a_staged_job_makes_the_same_bytes_and_leaves_nothing(job, tmp_path):
    for name, size in (("staged", "1GiB"), ("narrow", "20kB"), ("tight", "1kB")):
        done = extract(job, f"{name}.cache", "--stage", tmp_path, "--stage-size", size)
        assert shards(job, f"{name}.cache") == shards(job, "whole.cache")
        assert not list(tmp_path.iterdir())
        assert done.stderr.count("are read where they lie") == (name == "tight")


def test_decoders_read_the_copies(job, tmp_path):
    """Each file of the input is read once from where it lies: its second reading, for the digest, meets the copy."""
    trace = tmp_path / "trace"
    counts = {}
    for name, extra in (("direct", []), ("copied", ["--stage", tmp_path])):
        extract(job, f"{name}.cache", *extra, **failing("0-0.png", 0, 0), COLDFRAME_TEST_FAULTS_TRACE=trace)
        counts[name] = len(trace.read_text().splitlines())
        trace.unlink()
    assert counts["copied"] < counts["direct"]


def test_a_killed_job_leaves_no_copy(job, tmp_path):
    process = subprocess.Popen(command(job, "killed.cache", "--part", "0/1", "--stage", tmp_path), env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    descriptors = pathlib.Path(f"/proc/{process.pid}/fd")

    def staged():
        try:
            return any(str(tmp_path) in str(link.readlink()) for link in descriptors.iterdir())
        except OSError:
            return False

    while process.poll() is None and not staged():
        pass
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())  # killed before it took the name away
    (tmp_path / ".coldframe-stage-aBcD12").write_bytes(b"")
    (tmp_path / "another's").write_bytes(b"")
    extract(job, "killed.cache", "--part", "0/1", "--stage", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["another's"]
    assert_equals_whole(job, "killed.cache")


def test_a_disk_without_room_is_told_once(job):
    done = extract(job, "full.cache", "--stage", "/dev/full-is-no-folder", expect=3)
    assert "/dev/full-is-no-folder" in done.stderr and "check that it exists" in done.stderr
    refused = extract(job, "full.cache", "--stage-size", "1GiB", expect=2)
    assert "name the folder, too" in refused.stderr


def test_a_full_disk_is_told_once_and_does_no_harm(job, tmp_path):
    words = " ".join(f"'{word}'" for word in command(job, "small.cache", "--stage", tmp_path))
    done = subprocess.run(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=64k none {tmp_path} && exec {words}"],
                          capture_output=True, text=True, env=environment())
    if "unshare:" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("No space left on device") == 1 and "are read where they lie" in done.stderr
    assert shards(job, "small.cache") == shards(job, "whole.cache")
