"""A cache on a disk that is full or read-only: file systems of the test's own, in a user's name space."""
import json
import subprocess

import pytest

from tool_support import DRIVER, TOOL

IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]


def may_mount(folder):
    return subprocess.run([*IN_NAMESPACE, f'mount -t tmpfs none "{folder}"'], capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk").mkdir()
    if not may_mount(tmp_path / "disk"):
        pytest.skip("this system lets users mount nothing")
    return tmp_path / "disk"


def run(disk, script):
    """Runs bash with $write, $dump, $tool and $disk; returns what it printed, exit codes and all."""
    head = f'disk="{disk}"; write="{DRIVER} write"; dump="{DRIVER} dump"; tool="{TOOL}"; '
    done = subprocess.run([*IN_NAMESPACE, head + script], cwd=disk.parent, capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("name", ["x.h5", "x.cache"])
def test_a_full_disk_keeps_what_was_acknowledged(disk, name):
    out, errors = run(disk, f"""
        mount -t tmpfs -o size=300k none $disk
        $write $disk/{name} 0 200 > log; echo $?
        $dump $disk/{name} > full.json
        $tool verify $disk/{name} > /dev/null; echo $?
        mount -o remount,size=20m $disk
        $write $disk/{name} $(wc -l < log) 60 > /dev/null; echo $?
        $dump $disk/{name} > whole.json
        $tool verify $disk/{name} > /dev/null; echo $?
        ls -A $disk""")
    assert out == ["3", "0", "0", "0", name], errors
    assert "No space left on device; free some space and run the same command again" in errors
    acknowledged = (disk.parent / "log").read_text().split()
    assert 5 < len(acknowledged) < 60
    assert [exam["id"] for exam in json.loads((disk.parent / "full.json").read_text())] == acknowledged
    assert [exam["id"] for exam in json.loads((disk.parent / "whole.json").read_text())] == [str(i) for i in range(60)]


def test_an_export_on_a_full_disk_leaves_nothing_in_the_way_of_the_same_command(disk):
    out, errors = run(disk, """
        mount -t tmpfs -o size=4m none $disk
        $write $disk/x.h5 0 40 > /dev/null; echo $?
        cat /dev/zero > $disk/filler 2> /dev/null
        truncate -s -8k $disk/filler
        $tool export $disk/y.npy $disk/x.h5; echo $?
        rm $disk/filler
        ls -A $disk
        $tool export $disk/y.npy $disk/x.h5; echo $?
        ls $disk""")
    assert out[:3] == ["0", "3", "x.h5"] and out[3:] == ["0", "x.h5", "y.exams.csv", "y.frames.csv", "y.npy", "y.recipe.json"], out
    assert "No space left on device; free some space and run the same command again" in errors


def test_a_read_only_disk_is_read_and_not_written(disk):
    out, errors = run(disk, """
        mount -t tmpfs none $disk
        $write $disk/x.h5 0 3 > /dev/null; echo $?
        mount -o remount,ro $disk
        for verb in info ls stats verify; do $tool $verb $disk/x.h5 > /dev/null; echo $?; done
        $tool report report.html $disk/x.h5; echo $?
        $write $disk/x.h5 3 5; echo $?
        $write $disk/y.cache 0 2; echo $?
        ls -A $disk""")
    assert out == ["0", "0", "0", "0", "0", "0", "3", "3", "x.h5"], errors
    refusals = [line for line in errors.splitlines() if line.startswith("error")]
    assert len(refusals) == 2
    for line in refusals:
        assert "Read-only file system" in line and "that you may write to" in line
