"""The shell scripts and container definitions under examples/, as far as they can be tried anywhere."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))


def fake_cluster(folder, code):
    """srun that runs nothing but notes its arguments and exits with `code`; scontrol that notes them too."""
    for name, result in (("srun", code), ("scontrol", 0)):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{folder}/calls"\nexit {result}\n')
        script.chmod(0o755)
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", SLURM_JOB_ID="17", COLDFRAME="coldframe")


def submit(script, arguments, folder, code=0, **environment):
    done = subprocess.run(["bash", EXAMPLES / "slurm" / script, *arguments],
                          env=fake_cluster(folder, code) | environment, capture_output=True, text=True)
    calls = folder / "calls"
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


JOBS = {
    "extract.sbatch": "extract --input a --out b --preset p",
    "train.sbatch": "train --cache a --out b --resume --preset p",
}


@pytest.mark.parametrize("script", JOBS)
@pytest.mark.parametrize("code, requeued", [(0, False), (1, False), (3, False), (75, True), (143, True)])
def test_a_job_is_requeued_only_when_it_was_stopped(tmp_path, script, code, requeued):
    result, calls = submit(script, ["a", "b", "--preset", "p"], tmp_path, code)
    assert result == code
    assert calls[0] == "srun coldframe " + JOBS[script]
    assert calls[1:] == (["scontrol requeue 17"] if requeued else [])
    header = (EXAMPLES / "slurm" / script).read_text()
    assert all(f"#SBATCH --{option}" in header for option in ("requeue", "signal=TERM@", "open-mode=append"))


@pytest.mark.parametrize("script", JOBS)
def test_a_stopped_task_of_an_array_is_requeued_alone_and_not_for_ever(tmp_path, script):
    task = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}
    for restarts, requeued in (("19", ["scontrol requeue 17_3"]), ("20", [])):
        folder = tmp_path / restarts
        folder.mkdir()
        result, calls = submit(script, ["a", "b", "-c"], folder, 75, **task, SLURM_RESTART_COUNT=restarts)
        assert (result, calls[1:]) == (75, requeued)
        assert ("--part auto" in calls[0]) == (script == "train.sbatch")


def test_the_example_of_the_training_job_is_a_command_that_train_understands(tmp_path):
    text = (EXAMPLES / "slurm" / "train.sbatch").read_text()
    words = re.search(r"sbatch examples/slurm/train.sbatch (.*)", text)[1].split()[2:]
    done = subprocess.run([BUILD / "bin" / "coldframe-train_temporal", "train", "--cache", tmp_path / "none",
                           "--out", tmp_path / "run", *words], capture_output=True, text=True)
    assert done.returncode == 3 and "none" in done.stderr  # all words are known, the cache is missing


@pytest.mark.parametrize("script", ["extract.sbatch", "train.sbatch"])
def test_jobs_without_arguments_say_how_they_are_used(tmp_path, script):
    assert submit(script, [], tmp_path) == (2, [])


@pytest.mark.parametrize("name", ["Dockerfile", "coldframe.def"])
def test_images_install_the_wheel(name):
    text = (EXAMPLES / "containers" / name).read_text()
    assert "build/dist/coldframe-*.whl" in text and "/opt/install /opt/coldframe" in text


@pytest.mark.parametrize("gpu", ["0", "1"])
def test_an_image_without_a_gpu_leaves_its_libraries_out(tmp_path, gpu):
    """`install`, with a pip that notes what it is asked for."""
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin"\nfor name in pip coldframe; do\n'
                      f'printf "#!/bin/sh\\necho $name \\$* >>{tmp_path}/calls\\n" >"$3/bin/$name"; chmod +x "$3/bin/$name"; done\n')
    python.chmod(0o755)
    subprocess.run([EXAMPLES / "containers/install", tmp_path / "made", gpu, "x.whl"], check=True,
                   env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"))
    calls = (tmp_path / "calls").read_text().splitlines()
    if gpu == "1":
        assert calls == ["pip install --quiet x.whl", "coldframe extract --help"]
    else:
        assert calls[-2:] == ["pip install --quiet --no-deps x.whl", "coldframe setup --system --cpu"]


@pytest.mark.parametrize("arguments, code", [(["--help"], 0), (["--exams"], 1), (["--exams", "x"], 2), (["-z"], 2)])
def test_quickstart_refuses_what_it_does_not_know_before_it_does_anything(arguments, code):
    done = subprocess.run([EXAMPLES / "quickstart", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert "$ " not in done.stdout
    assert (done.stdout if code == 0 else done.stderr) != ""


PAGES = ["README.md", *(str(page.relative_to(ROOT)) for room in ("cache", "common", "examples", "extract", "tests", "train_temporal")
                        for page in sorted((ROOT / room).rglob("*.md")) if ".pytest_cache" not in page.parts)]


def headings(page):
    """The anchors of a page's headings."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", page.read_text(), re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page):
    folder, lost = (ROOT / page).parent, []
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", (ROOT / page).read_text())
    assert len(links) > (10 if page == "README.md" else -1)
    for link, heading in [found for found in links if not found[0].startswith("https:")]:
        target = folder / link if link else ROOT / page
        if not target.exists() or (heading and heading not in headings(target)):
            lost.append(f"{link}#{heading}")
    assert lost == []
