"""What tests/gpu/pack packs starts where there is nothing else; tests/gpu/run writes its page, failures first; what its
stages compare fails where it differs."""
import argparse
import importlib.machinery
import importlib.metadata
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


needs_cuda_build = pytest.mark.skipif(not (BUILD / "bin/libcoldframe_cuda.so").exists(), reason="a build without the CUDA toolkit")


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


@needs_cuda_build
@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
                    reason="this user may not make namespaces")
def test_packed_programs_start_in_an_empty_root(tmp_path):
    import torch

    pack = load("pack")
    site = pathlib.Path(torch.__file__).resolve().parents[1]
    root = empty_root(tmp_path, site)
    names = pack.VIT + pack.PROGRAMS
    pack.stage(root / "carry", names, {})
    starts = [f"chroot {root} /carry/{name} {'--gtest_list_tests' if name.startswith('tests/') else '--help'}"
              for name in names if not name.endswith(".so") and name not in ("tests/vit_gpu_speed", "tests/make_cache")]
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


@needs_cuda_build
def test_stages_run_from_what_the_archives_hold_and_these_are_small(tmp_path):
    """Compressed as little as possible, so that this is an upper bound, and quick."""
    done = subprocess.run([sys.executable, HERE / "pack", "--out", tmp_path, "--level", "0"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    archives = sorted(tmp_path.glob("*.tar.xz"))
    assert [file.name for file in archives] == ["programs-1.tar.xz", "programs-2.tar.xz", "vit.tar.xz"]
    assert all(file.stat().st_size < load("pack").MOST_BYTES for file in archives)
    assert archives[-1].stat().st_size < 10 << 20

    out, folder = tmp_path / "out", tmp_path / "folder"
    names = ["kernels", "jobs", "amp", "input"]
    done = subprocess.run([sys.executable, HERE / "run", "--unpack", *archives, "--folder", folder, "--device", "cpu", "--out", out,
                           "--only", *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {one["stage"]: one for one in json.loads((out / "results-all.json").read_text())["stages"]}
    assert [one["failed"] for one in found.values()] == [""] * 4
    assert found["input"]["skipped"] == "tests/extract_tests is not there" and not found["jobs"]["skipped"]
    assert (out / "results-all.txt").read_text() in done.stdout and "3 of 3 stages passed, 1 skipped" in done.stdout
    assert "===== jobs" in (out / "log-all.txt").read_text() and len(list(out.iterdir())) == 3


def test_pack_refuses_an_archive_that_is_too_large(tmp_path, monkeypatch):
    pack = load("pack")
    (tmp_path / "file").write_bytes(os.urandom(2000))
    monkeypatch.setattr(pack, "MOST_BYTES", 3000)
    pack.pack(tmp_path, [tmp_path / "file"], tmp_path / "fits.tar.xz", 0)
    monkeypatch.setattr(pack, "MOST_BYTES", 1000)
    with pytest.raises(SystemExit, match="too-large.tar.xz has more than"):
        pack.pack(tmp_path, [tmp_path / "file"], tmp_path / "too-large.tar.xz", 0)


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Its modules, and a context as on a GPU."""
    monkeypatch.syspath_prepend(str(HERE))
    modules = argparse.Namespace(run=load("run"), **{name: importlib.import_module(name)
                                                     for name in ("stages", "context", "comparing", "speed", "training")})
    modules.here = modules.context.Context(root=HERE, build=BUILD, device="cuda", work=tmp_path / "work")
    return modules


def test_the_page_tells_failures_first_and_goes_on(tmp_path, gpu):
    def fail(context):
        context.run("sh", "-c", "echo reason; exit 3")

    def stall(context):
        context.run("sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; echo so far; wait")

    def slow(context):
        return {"peer / ours": gpu.speed.goal(context, 0.5, 1), "other": gpu.speed.goal(context, 1.5, 1)}

    def absent(context):
        context.program("tests/nothing")

    results = [gpu.run.run_stage(gpu.stages.Stage(name, 1, seconds, body), gpu.here, 300)
               for name, seconds, body in [("fine", 60, lambda _: {"rate": 3}), ("broken", 60, fail), ("stuck", 1, stall),
                                           ("slow", 60, slow), ("absent", 60, absent), ("long", 301, fail)]]
    page = gpu.run.page({"device": "cuda"}, results).splitlines()
    assert page[:7] == ["device: cuda", "FAILED broken: RuntimeError: sh ended with 3: reason",
                        "FAILED stuck: took longer than 1 s; stuck.log ends with: so far",
                        "MISSED slow: peer / ours: 0.5 (goal 1 or more: MISSED)", "skipped absent: tests/nothing is not there",
                        "skipped long: may take 301 s, and 300 s are left", "2 of 4 stages passed, 2 skipped"]
    assert ends((tmp_path / "child").read_text().strip()), "a child of the stage that hung goes on"


def test_the_page_stays_short_whatever_the_stages_say(gpu):
    results = [{"stage": stage.name, "seconds": 1.5, "failed": "why " * 1000 if number % 4 == 0 else "", "skipped": "",
                "figures": {f"line {i}": "figure " * 100 for i in range(30)}} for number, stage in enumerate(gpu.stages.STAGES)]
    page = gpu.run.page({"device": "cuda"}, results)
    assert len(page) < 12_000 and page.count("\n") <= 100
    for one in results:
        assert any(line.startswith(one["stage"]) and ("passed" in line or "FAILED" in line) for line in page.splitlines())


def test_each_part_ends_within_ten_minutes(gpu):
    for part in gpu.stages.PARTS:
        assert sum(stage.seconds for stage in gpu.stages.STAGES if stage.part == part) <= 600
    assert len({stage.name for stage in gpu.stages.STAGES}) == len(gpu.stages.STAGES)


def made_run(folder, losses=(0.7, 0.5, 0.4), best=2, rates=(0.01, 0.01, 0.01), probability="0.25", card=None):
    """What comparisons read of a run of one fit."""
    (folder / "models").mkdir(parents=True)
    rows = [f"gru,0,0,0,{epoch},{loss},{loss},{rate},{int(epoch == best)}"
            for epoch, (loss, rate) in enumerate(zip(losses, rates))]
    (folder / "metrics.csv").write_text("\n".join(["model,repeat,fold,seed,epoch,train_loss,validation_loss,learning_rate,best",
                                                   *rows]) + "\n")
    (folder / "predictions.csv").write_text(f"repeat,fold,exam,label,p_1,predicted\n0,0,exam-1,1,{probability},0\n")
    header = json.dumps({"__metadata__": {"card": json.dumps(card or {"model": {"architecture": "gru"}})}}).encode()
    (folder / "models/fold-0-seed-0.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def test_runs_that_differ_are_not_the_same(tmp_path, gpu):
    run = made_run(tmp_path / "run")
    assert gpu.comparing.same_results(run, made_run(tmp_path / "equal"), 1e-9) == 0
    near = made_run(tmp_path / "near", probability="0.2504")
    assert gpu.comparing.same_results(run, near, 1e-3) == pytest.approx(4e-4)
    for name, changed in {"probability": {"probability": "0.27"}, "nan": {"probability": "nan"}, "word": {"probability": "none"},
                          "loss": {"losses": (0.7, 0.5, 0.41)}, "fewer": {"losses": (0.7, 0.5)}, "best": {"best": 1}}.items():
        with pytest.raises(RuntimeError, match="differ by|rows"):
            gpu.comparing.same_results(run, made_run(tmp_path / name, **changed), 1e-3)
            pytest.fail(f"{name} was not noticed")


def test_a_run_counts_only_with_the_model_that_was_asked_for(tmp_path, gpu):
    run = made_run(tmp_path / "run")
    gpu.comparing.fitted(run, "gru", 0.1)
    gpu.comparing.fitted(run, "bigru", 0.1)
    with pytest.raises(RuntimeError, match="is of 'gru', expected 'lstm'"):
        gpu.comparing.fitted(run, "lstm", 0.1)
    with pytest.raises(RuntimeError, match="is of 'summary', expected 'gru'"):  # which took its place
        gpu.comparing.fitted(made_run(tmp_path / "summary", card={"model": {"architecture": "summary"}}), "gru", 0.1)
    with pytest.raises(RuntimeError, match="too little to compare"):
        gpu.comparing.fitted(made_run(tmp_path / "still", losses=(0.7, 0.7, 0.699)), "gru", 0.1)
    shutil.rmtree(run / "models")
    with pytest.raises(RuntimeError, match="has no models"):
        gpu.comparing.fitted(run, "gru", 0.1)


def test_a_tuned_run_counts_only_where_the_tuned_vit_was_kept(tmp_path, gpu):
    card = {"model": {"architecture": "gru"}, "tuned": {"block": 11}}
    rates = (0, 0.01, 0.01)
    gpu.comparing.tuned(made_run(tmp_path / "tuned", card=card, rates=rates), 11)
    with pytest.raises(RuntimeError, match="tuned from block 11 on, expected 0"):
        gpu.comparing.tuned(tmp_path / "tuned", 0)
    with pytest.raises(RuntimeError, match="kept what it went on from"):
        gpu.comparing.tuned(made_run(tmp_path / "frozen", card=card, rates=rates, best=0), 11)
    with pytest.raises(RuntimeError, match="no tuned ViT"):
        gpu.comparing.tuned(made_run(tmp_path / "plain", rates=rates), 11)


@pytest.mark.parametrize("ends_with, why", [("echo ERROR SUMMARY: 0 errors", None), ("exit 9", "ended with 9"),
                                            ("true", "told of no end")])
def test_what_the_sanitizer_finds_fails_its_stage(tmp_path, monkeypatch, gpu, ends_with, why):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\n{ends_with}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    stage = gpu.stages.Stage("sanitizer", 1, 60, gpu.training.sanitized(lambda _: ["program"]))
    failed = gpu.run.run_stage(stage, gpu.here)["failed"]
    assert (why in failed) if why else failed == ""


def test_libtorchs_own_warnings_fail_a_stage(gpu):
    gpu.training.check_warnings("gru", "warning: few patients: 24: intervals are wide\n")
    with pytest.raises(RuntimeError, match="memory: .*no current CUDA context"):
        gpu.training.check_warnings("memory", "Attempting to run cuBLAS, but there was no current CUDA context!\n")


def test_a_stage_that_is_not_there_is_named(tmp_path):
    done = subprocess.run([sys.executable, HERE / "run", "--here", "--device", "cpu", "--only", "kernel", "--out", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "no such stage: kernel; there are kernels" in done.stderr


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
    version = importlib.metadata.version("torch")  # of the environment that runs this
    done = subprocess.run(["/usr/bin/python3", HERE / "run", "--here", "--device", "cpu", "--only", "kernels", "--out", tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 0 and f"torch: {version}" in done.stdout, done.stdout + done.stderr


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
