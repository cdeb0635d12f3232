"""What tests/gpu/pack packs starts where there is nothing else, and tests/gpu/run writes its page, failures first."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", HERE.parents[1] / "build"))


def load(name):
    loader = importlib.machinery.SourceFileLoader(f"gpu_{name}", str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def empty_root(folder, site):
    """A root with the C and C++ libraries and the wheel in /site."""
    root = folder / "root"
    for name in ["lib", "lib64", "site", "carry", "proc", "tmp"]:
        (root / name).mkdir(parents=True)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    for name in ["c", "m", "mvec", "dl", "pthread", "rt", "util", "resolv", "stdc++", "gcc_s"]:
        for path in pathlib.Path("/lib/x86_64-linux-gnu").glob(f"lib{name}.so.[0-9]"):
            shutil.copy(path, root / "lib")
        for path in pathlib.Path("/usr/lib/x86_64-linux-gnu").glob(f"lib{name}.so.[0-9]"):
            shutil.copy(path, root / "lib")
    (root / "carry" / "torch").symlink_to("/site/torch")
    return root


@pytest.mark.skipif(not (BUILD / "bin/libcoldframe_cuda.so").exists(), reason="a build without the CUDA toolkit")
@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
                    reason="this user may not make namespaces")
def test_packed_programs_start_in_an_empty_root(tmp_path):
    import torch

    pack = load("pack")
    site = pathlib.Path(torch.__file__).resolve().parents[1]
    root = empty_root(tmp_path, site)
    names = pack.PROGRAMS + pack.CODECS
    pack.stage(root / "carry", names, {})
    starts = [f"chroot {root} /carry/{name} {'--gtest_list_tests' if name.startswith('tests/') else '--help'}"
              for name in names if not name.endswith(".so") and name not in ("tests/vit_gpu_speed", "tests/make_cache",
                                                                             "tests/train_epochs")]
    lines = [f"mount --bind {site} {root}/site", f"mount --rbind /proc {root}/proc",
             *(f"{start} >{tmp_path}/said 2>&1 || {{ echo {start.split('/')[-1]}; cat {tmp_path}/said; }}" for start in starts)]
    done = subprocess.run(["unshare", "-rm", "sh", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr
    carried = {file.name for file in (root / "carry/lib").iterdir()}
    assert any(name.startswith("libcurl") for name in carried) and not any(name.startswith("libresolv") for name in carried)


def ends(process):
    """Whether it does within a minute: a signal that was sent takes effect when the machine has time for it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if pathlib.Path("/proc", process, "stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_the_page_tells_failures_first_and_goes_on(tmp_path):
    out, folder = tmp_path / "out", tmp_path / "folder"
    done = subprocess.run([sys.executable, HERE / "run", "--here", "--device", "cpu", "--only", "kernels", "engine", "--out", out,
                           "--folder", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "results-all.json").read_text())
    assert [(one["stage"], one["failed"]) for one in results["stages"]] == [("kernels", ""), ("engine", "")]
    assert "2 of 2 stages passed" in (out / "results-all.txt").read_text()

    sys.path.insert(0, str(HERE))
    run, stages, context = load("run"), importlib.import_module("stages"), importlib.import_module("context")

    def fail(context):
        context.run("sh", "-c", "echo reason; exit 3")

    def stall(context):
        context.run("sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; echo so far; wait")

    context = context.Context(root=HERE, build=BUILD, device="cuda", out=out, work=folder)
    results = [run.run_stage(stages.Stage(name, 1, seconds, body), context)
               for name, seconds, body in [("fine", 60, lambda _: {"rate": 3}), ("broken", 60, fail), ("stuck", 1, stall)]]
    page = run.page({"device": "cpu"}, results).splitlines()
    assert page[2] == "FAILED broken: RuntimeError: sh ended with 3: reason"
    assert page[3] == "FAILED stuck: took longer than 1 s; stuck.log ends with: so far" and page[4] == "1 of 3 stages passed"
    assert ends((tmp_path / "child").read_text().strip()), "a child of the stage that hung goes on"


def test_a_child_that_left_the_group_of_its_stage_ends_too(tmp_path):
    script = f"""
import pathlib, subprocess, sys
sys.path.insert(0, {str(HERE)!r})
from stages import Stage
from test_gpu_run import load
run = load("run")
run.STAGES = [Stage("leaves", 1, 60, lambda _: subprocess.run(
    ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $! >{tmp_path}/child"]) and None)]
sys.argv = ["run", "--device", "cpu", "--folder", {str(BUILD)!r}, "--out", {str(tmp_path)!r}]
run.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 1 stages passed" in done.stdout, done.stdout + done.stderr
    assert ends((tmp_path / "child").read_text().strip()), "a process of its own session goes on"


def test_the_system_python_gives_way_to_that_of_the_test_environment(tmp_path):
    done = subprocess.run(["/usr/bin/python3", HERE / "run", "--here", "--device", "cpu", "--only", "kernels", "--out", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "torch: 2.11" in done.stdout, done.stdout + done.stderr


def test_a_peer_that_does_not_start_fails_the_benchmark(tmp_path, monkeypatch, capsys):
    sys.path.insert(0, str(HERE.parents[0] / "benchmarks/vit"))
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "compare", lambda *_: ["timm compile"])
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--model", "vit_tiny_patch16_224"])
    with pytest.raises(SystemExit, match="did not start.*timm compile"):
        gpu.main()

    options = argparse.Namespace(build=tmp_path, batch=1, precision="fp32", device="cpu", engine=[], peers=["eager"])
    monkeypatch.setattr(gpu, "Contender", lambda command: failing(command) if "eager" in command else "runs")
    running, missing = gpu.start(options, "vit_tiny_patch16_224", 32, "cls", tmp_path)
    assert missing == ["timm eager"] and set(running) == {"engine", "matrix product", "copy"}
    assert "timm eager: no GPU" in capsys.readouterr().err


def failing(command):
    raise RuntimeError("no GPU")


def test_the_benchmark_goes_on_from_the_turns_that_it_kept(tmp_path, monkeypatch, capsys):
    sys.path.insert(0, str(HERE.parents[0] / "benchmarks/vit"))
    gpu = importlib.import_module("gpu")
    options = argparse.Namespace(batch=4, precision="fp32", device="cpu", passes=2, rounds=2, state=tmp_path / "turns.json")
    first = {"engine": Counted(limit=2), "copy": Counted()}
    with pytest.raises(TimeoutError):  # in its second turn: the first call warms up
        gpu.take_turns(options, first, "vit", 32)
    again = {"engine": Counted(), "copy": Counted()}
    gpu.take_turns(options, again, "vit", 32)
    assert [again[name].calls for name in again] == [2, 1] and [len(again[name].times) for name in again] == [2, 2]
    assert capsys.readouterr().out.count("round 1: ") == 2


class Counted:
    """A contender that ends at its `limit`th turn."""

    def __init__(self, limit=10**9):
        self.calls, self.limit, self.times = 0, limit, []

    def ask(self, line):
        self.calls += 1
        if self.calls > self.limit:
            raise TimeoutError
        return [0.5]
