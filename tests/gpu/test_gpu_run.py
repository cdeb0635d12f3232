"""What tests/gpu/pack packs starts where there is nothing else, and tests/gpu/run writes its page, failures first."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

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


def test_the_page_tells_failures_first_and_goes_on(tmp_path):
    out, folder = tmp_path / "out", tmp_path / "folder"
    done = subprocess.run([sys.executable, HERE / "run", "--here", "--device", "cpu", "--only", "kernels", "engine", "--out", out,
                           "--folder", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "results-all.json").read_text())
    assert [(one["stage"], one["failed"]) for one in results["stages"]] == [("kernels", ""), ("engine", "")]
    assert "2 of 2 stages passed" in (out / "results-all.txt").read_text()

    sys.path.insert(0, str(HERE))
    run, stages = load("run"), importlib.import_module("stages")

    def fail(context):
        context.run("sh", "-c", "echo reason; exit 3")

    def stall(context):
        context.run("sleep", 600)

    context = stages.Context(root=HERE, build=BUILD, device="cpu", out=out, work=folder)
    results = [run.run_stage(stages.Stage(name, 1, seconds, body), context)
               for name, seconds, body in [("fine", 60, lambda _: {"rate": 3}), ("broken", 60, fail), ("stuck", 1, stall)]]
    page = run.page({"device": "cpu"}, results).splitlines()
    assert page[2] == "FAILED broken: RuntimeError: sh ended with 3: reason"
    assert page[3] == "FAILED stuck: took longer than 1 s" and page[4] == "1 of 3 stages passed"
