"""`coldframe doctor` on this machine, and where something is missing."""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", pathlib.Path(__file__).parents[2] / "build"))


def doctor(*words, program=BUILD / "bin/coldframe", variables=None, **options):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "COLDFRAME_LIBTORCH"))}
    return subprocess.run([program, "doctor", *words], capture_output=True, text=True, env=clean | (variables or {}), **options)


def checks(**options):
    """(exit code, {subject: its line in JSON})."""
    done = doctor("--json", **options)
    told = json.loads(done.stdout)
    assert done.stderr == "" and told["ready"] == (done.returncode == 0)
    assert told["ready"] == (not any(check["stops"] for check in told["checks"]))
    assert all(check["to_do"] for check in told["checks"] if check["stops"])
    return done.returncode, {check["subject"]: check for check in told["checks"]}


def stopping(found):
    return [subject for subject, check in found.items() if check["stops"]]


def test_a_machine_on_which_tests_run_is_ready(tmp_path):
    code, found = checks(cwd=tmp_path, variables={"TMPDIR": str(tmp_path)})
    assert code == 0, stopping(found)
    assert found["this folder"]["found"].startswith(f"{tmp_path}, ") and found["temporary folder"]["found"].startswith(f"{tmp_path}, ")
    assert found["processors"]["found"].endswith(f" usable of {os.cpu_count()}") or "the container or job" in found["processors"]["found"]
    assert list(tmp_path.iterdir()) == []


def test_versions_are_those_of_the_libraries(tmp_path):
    _, found = checks(cwd=tmp_path)
    linked = subprocess.run(["ldd", BUILD / "bin/coldframe-train_temporal"], capture_output=True, text=True, check=True).stdout
    torch = pathlib.Path(re.search(r"libtorch_cpu\.so => (\S+)", linked)[1]).resolve().parents[1]
    version = re.search(r"__version__ = '(.*)'", (torch / "version.py").read_text())[1]
    assert found["LibTorch"]["found"].startswith(f"{version} in {torch}, ")
    assert found["FFmpeg"]["found"].endswith(", libavcodec " + re.search(r"libavcodec\.so\.(\d+)", linked)[1])
    soname = int(re.search(r"libopencv_core\.so\.(\d+)", linked)[1])  # 406 of 4.6
    assert found["OpenCV"]["found"].startswith(f"{soname // 100}.{soname % 100}.")
    assert re.fullmatch(r"1\.\d+\.\d+", found["HDF5"]["found"])


def test_text_and_json_have_the_same_lines(tmp_path):
    (tmp_path / "torch").mkdir()
    for variables in ({}, {"COLDFRAME_LIBTORCH": str(tmp_path / "torch")}):
        told = json.loads(doctor("--json", cwd=tmp_path, variables=variables).stdout)
        lines = doctor(cwd=tmp_path, variables=variables).stdout.splitlines()
        width = max(len(check["subject"]) for check in told["checks"]) + 2
        expected = []
        for check in told["checks"]:
            expected += [check["subject"].ljust(width) + check["found"]] + [" " * width + "-> " + check["to_do"]] * bool(check["to_do"])
        without_sizes = [[re.sub(r"[\d.]+ [KMGT]iB", "SIZE", line) for line in each] for each in (lines[:-1], expected)]
        assert without_sizes[0] == without_sizes[1]
        assert lines[-1] == ("Coldframe can extract and train here." if told["ready"] else
                             "Coldframe cannot extract and train here before this is done: LibTorch.")


def test_without_libtorch_it_says_what_to_do_and_what_stays_unknown(tmp_path):
    code, found = checks(cwd=tmp_path, variables={"COLDFRAME_LIBTORCH": str(tmp_path)})
    assert code == 1 and stopping(found) == ["LibTorch"]
    assert f"COLDFRAME_LIBTORCH names '{tmp_path}', which holds no lib/libtorch_cpu.so" in found["LibTorch"]["to_do"]
    assert all(found[subject]["found"] == "unknown until LibTorch is there" for subject in ("CPU engine", "HDF5", "FFmpeg", "OpenCV"))


@pytest.mark.parametrize("extract, said", [
    (None, "not found"),
    ("echo 'coldframe-train_temporal: error while loading shared libraries: libavcodec.so.59: cannot open' >&2; exit 127", "libavcodec.so.59: cannot open"),
    ("exit 3", "it says nothing"),
    ("echo '[1, 2]'", "[1, 2]")])
def test_programs_that_do_not_start_are_said(tmp_path, extract, said):
    folder = tmp_path / "it's here"
    folder.mkdir()
    shutil.copy(BUILD / "bin/coldframe", folder / "coldframe")
    if extract:
        (folder / "coldframe-train_temporal").write_text(f"#!/bin/sh\n{extract}\n")
        (folder / "coldframe-train_temporal").chmod(0o755)
    code, found = checks(program=folder / "coldframe", cwd=tmp_path)
    assert code == 1 and stopping(found) == ["programs"] and said in found["programs"]["to_do"]
    assert found["FFmpeg"]["found"] == "unknown until that program starts"


def test_a_limit_on_memory_is_named_and_may_keep_libtorch_from_loading(tmp_path):
    limit = 400 << 20
    code, found = checks(cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert "ulimit -v 400.0 MiB" in found["memory"]["found"]
    assert code == 1 and stopping(found) == ["programs"] and "(ulimit -v)" in found["programs"]["to_do"]


def test_what_slurm_grants_is_named(tmp_path):
    code, found = checks(cwd=tmp_path, variables={"SLURM_MEM_PER_NODE": "4096", "SLURM_CPUS_PER_TASK": "1"})
    assert code == 0 and found["memory"]["found"].endswith("; SLURM_MEM_PER_NODE 4096")
    assert found["processors"]["found"].endswith("; SLURM_CPUS_PER_TASK 1")


def test_folders_that_cannot_be_written_to_are_told(tmp_path):
    """Nobody may make folders in /sys, root included."""
    code, found = checks(cwd="/sys", variables={"TMPDIR": str(tmp_path / "none")})
    assert code == 1 and stopping(found) == ["temporary folder", "this folder"]
    assert found["this folder"]["found"] == "/sys, not usable" and "may be written to" in found["this folder"]["to_do"]


def test_gpus_on_which_libtorch_computes_nothing_are_no_obstacle(tmp_path):
    shutil.copy(BUILD / "tests/made_up_gpus.so", tmp_path / "libcuda.so.1")
    code, found = checks(cwd=tmp_path, variables={"LD_LIBRARY_PATH": str(tmp_path)})
    assert code == 0 and found["GPU 1"]["found"].startswith("GPU 1, 80.0 GiB, compute capability 9.0, driver ")
    assert found["CUDA"]["found"] == "not usable: jobs compute on the CPU" and "LibTorch" in found["CUDA"]["to_do"]


def test_help_and_unknown_options_are_those_of_all_commands():
    assert doctor("--help").stdout.startswith("Usage: coldframe doctor [options]")
    done = doctor("--jsno")
    assert done.returncode == 2 and "--json" in done.stderr
