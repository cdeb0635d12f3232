"""The shell scripts and container definitions under examples/, as far as they can be tried anywhere."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def fake_cluster(folder, code):
    """srun that runs nothing but notes its arguments and exits with `code`; scontrol that notes them too."""
    for name, result in (("srun", code), ("scontrol", 0)):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{folder}/calls"\nexit {result}\n')
        script.chmod(0o755)
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", SLURM_JOB_ID="17", COLDFRAME="coldframe")


def submit(script, arguments, folder, code=0):
    done = subprocess.run(["bash", EXAMPLES / "slurm" / script, *arguments], env=fake_cluster(folder, code),
                          capture_output=True, text=True)
    calls = folder / "calls"
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.parametrize("code, requeued", [(0, False), (1, False), (3, False), (75, True)])
def test_extraction_job_is_requeued_only_when_it_was_stopped(tmp_path, code, requeued):
    result, calls = submit("extract.sbatch", ["in.csv", "out.cache", "--preset", "p"], tmp_path, code)
    assert result == code
    assert calls[0] == "srun coldframe extract --input in.csv --out out.cache --preset p"
    assert calls[1:] == (["scontrol requeue 17"] if requeued else [])


def test_training_job_passes_its_arguments_on(tmp_path):
    result, calls = submit("train.sbatch", ["a.cache", "runs/1", "--target", "label"], tmp_path)
    assert (result, calls) == (0, ["srun coldframe train --cache a.cache --out runs/1 --target label"])


@pytest.mark.parametrize("script", ["extract.sbatch", "train.sbatch"])
def test_jobs_without_arguments_say_how_they_are_used(tmp_path, script):
    assert submit(script, [], tmp_path) == (2, [])


@pytest.mark.parametrize("name", ["Dockerfile", "coldframe.def"])
def test_images_hold_all_that_the_build_reads(name):
    text = (EXAMPLES / "containers" / name).read_text()
    cmake = (ROOT / "CMakeLists.txt").read_text()
    rooms = set(re.findall(r"^add_subdirectory\((\w+)\)", cmake, re.M))
    assert {"common", "cache", "extract", "train_temporal"} <= rooms
    for needed in rooms | {"CMakeLists.txt", "CMakePresets.json", "LICENSE"}:
        assert (ROOT / needed).exists()
        assert re.search(rf"^\s*(COPY )?.*\b{re.escape(needed)}\b", text, re.M), needed


@pytest.mark.parametrize("arguments, code", [(["--help"], 0), (["--exams"], 1), (["--exams", "x"], 2), (["-z"], 2)])
def test_quickstart_refuses_what_it_does_not_know_before_it_does_anything(arguments, code):
    done = subprocess.run([EXAMPLES / "quickstart", *arguments], capture_output=True, text=True, timeout=10)
    assert done.returncode == code
    assert "$ " not in done.stdout
    assert (done.stdout if code == 0 else done.stderr) != ""


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
