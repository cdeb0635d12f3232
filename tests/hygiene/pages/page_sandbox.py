"""A copy of the tree in which pages' commands run in seconds and write nothing into the house: `coldframe` gets its
smallest settings there, and what the pages call exams.csv, exams.cache or vit.safetensors is made."""

import csv
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

from page_commands import ROOT
from shared import made_once

BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
EXAMS, FRAMES = 24, 2

# Settings of `coldframe COMMAND`: those of SET always, those of SHOWN where a page shows them.
WRAPPER = '''#!{python}
import os, sys
SET = {{"train": {{"--epochs": "1", "--bootstrap": "10"}}, "extract": {{"--image-size": "112"}},
       "evaluate": {{"--bootstrap": "10"}}, "coldframe-make-exams": {{"--exams": "24", "--frames": "2", "--size": "64"}}}}
SHOWN = {{"train": {{"--folds": "2", "--seeds": "2", "--repeats": "1"}}, "extract": {{"--frames": "2"}},
         "plan": {{"--measure-exams": "1", "--measure-frames": "1", "--measure-rounds": "1"}}}}
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
command = name if name in SET else words[0] if words else ""
if {{"--help", "--list", "--block"}} & set(words):
    command = ""
if command == "plan" and "--measure" in words:
    words = [word.replace("_small_", "_tiny_").replace("_base_", "_tiny_") for word in words] + ["--image-size", "64"]
for option, value in {{**SET.get(command, {{}}), **SHOWN.get(command, {{}})}}.items():
    if option in words:
        at = words.index(option) + 1
        words[at] = value if words[at][:1].isdigit() else words[at]
    elif option in SET.get(command, {{}}):
        words += [option, value]
os.execv("{programs}/" + name, [name, *words])
'''
# Builds nothing: what tests/run built is there. A target that is gone is an error, as for cmake.
CMAKE = '''#!/bin/sh
targets= seen=
for word; do
  case $word in --target) seen=yes ;; -*) seen= ;; *) [ -z "$seen" ] || targets="$targets $word" ;; esac
done
[ -z "$targets" ] || ninja -C {build} -t query $targets >/dev/null
'''
PYTHON = f'#!/bin/sh\nexec {sys.executable} "$@"\n'


def script(path, text):
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def make_house(house):
    """The files under version control, and a build/ whose programs are those of the real one."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True).stdout.split("\0")[:-1]
    for name in listed or [str(path.relative_to(ROOT)) for top in ("tests", "examples", "common") for path in (ROOT / top).rglob("*")]:
        if name.startswith(("tests/", "examples/", "common/")) and (ROOT / name).is_file():
            (house / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, house / name)
    (house / "build/bin").mkdir(parents=True)
    for kept in ("tests", "test-venv", "venv"):
        (house / "build" / kept).symlink_to(BUILD / kept)
    for program in (BUILD / "bin").iterdir():
        (house / "build/bin" / program.name).symlink_to(program)
    for name in ("coldframe", "coldframe-make-exams"):
        script(house / "build/bin" / name, WRAPPER.format(python=sys.executable, programs=BUILD / "bin"))
    (house / "path").mkdir()
    for program in (house / "build/bin").iterdir():
        (house / "path" / program.name).symlink_to(program)
    script(house / "path/cmake", CMAKE.format(build=BUILD))
    for name in ("python", "python3"):
        script(house / "path" / name, PYTHON)
    for name in ("pocus.cache", "pocus-vit.cache"):
        (house / "build" / name).symlink_to(stock("exams.cache"))


def house():
    return made_once("house of the pages' commands", lambda path: (path.mkdir(), make_house(path)))


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COLDFRAME_BUILD", "PYTEST"))}
    return kept | {"PATH": f"{house() / 'path'}:{os.environ['PATH']}", "PYTHON": sys.executable}


def folder_for(folder):
    """A root of the tree for commands whose outputs are their own."""
    for name in ("tests", "examples", "common"):
        (folder / name).symlink_to(house() / name)
    (folder / "build").mkdir()
    for entry in (house() / "build").iterdir():
        (folder / "build" / entry.name).symlink_to(entry)
    return folder


def coldframe(*words):
    done = subprocess.run([BUILD / "bin/coldframe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"


def make_exams(path):
    """exams.csv, two exams of each patient, with every column that the pages' commands name."""
    frames = path.with_name("made")
    subprocess.run([BUILD / "bin/coldframe-make-exams", "--out", frames, "--exams", str(EXAMS), "--frames", str(FRAMES), "--size",
                    "64"], check=True, capture_output=True)
    rows = list(csv.DictReader((frames / "exams.csv").open()))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, extrasaction="ignore", fieldnames=[*(name for name in rows[0] if name != "time"), "abnormal", "age", "sex", "site", "days", "died", "date"])
        table.writeheader()
        for row in rows:
            number = int(row["exam"][1:])
            label = number // 2 % 2
            row |= {"path": frames / row["path"], "patient": f"P{40 + number // 2:04}", "label": label, "abnormal": label, "age": 40 + number,
                    "sex": "fm"[number % 3 > 0], "site": "abc"[number // 2 % 3], "days": 100 + 50 * number, "died": number // 4 % 2,
                    "date": f"2024-0{1 + number % 2}-01"}
            table.writerow(row)


def make_weights(path):
    """A ViT-Ti of random weights; `vit_folder` as timm writes it for the hub."""
    import timm
    from safetensors.torch import save_file

    model = timm.create_model("vit_tiny_patch16_224", num_classes=0)
    if path.suffix:
        save_file(model.state_dict(), path)
    else:
        path.mkdir()
        save_file(model.state_dict(), path / "model.safetensors")
        pixels = {key: model.pretrained_cfg[key] for key in ("input_size", "mean", "std", "interpolation", "crop_pct")}
        (path / "config.json").write_text(json.dumps({"architecture": "vit_tiny_patch16_224", "num_classes": 0,
                                                      "num_features": 192, "global_pool": "token", "pretrained_cfg": pixels}))


def make_retfound(path):
    import timm
    import torch

    torch.save(timm.create_model("vit_small_patch14_reg4_dinov2", num_classes=0, img_size=392).state_dict(), path)


def make_dinov2(path):
    from transformers import Dinov2Config, Dinov2Model

    Dinov2Model(Dinov2Config(hidden_size=48, num_attention_heads=3, image_size=224, patch_size=14)).save_pretrained(path)


def make_videomae(path):
    from transformers import VideoMAEConfig, VideoMAEImageProcessor, VideoMAEModel

    VideoMAEModel(VideoMAEConfig(hidden_size=48, num_attention_heads=3, num_hidden_layers=2, image_size=112)).save_pretrained(path)
    VideoMAEImageProcessor(size={"shortest_edge": 112}, crop_size={"height": 112, "width": 112}).save_pretrained(path)


def make_volumes(path):
    """ct.csv, two volumes of NIfTI."""
    import nibabel
    import numpy as np

    for name in "ab":
        nibabel.save(nibabel.Nifti1Image(np.random.default_rng(0).integers(-1000, 400, (24, 20, 12), np.int16), np.eye(4)), path.with_name(f"{name}.nii"))
    path.write_text("".join(["exam,path,patient,label\n", *(f"{name},{path.with_name(f'{name}.nii')},P{name},{name == 'a':d}\n" for name in "ab")]))


PIXELS = ["--mean", 0.5, "--std", 0.5, "--pool", "cls", "--image-size", 112, "--keep-patient-id"]


def make_cache(path):
    coldframe("extract", "--input", stock("exams.csv"), "--out", path, "--weights", stock("vit.safetensors"), *PIXELS)


def make_cut_cache(path):
    coldframe("extract", "--input", stock("exams.csv"), "--out", path, "--weights", stock("vit.safetensors"), "--cut", 10, *PIXELS)


def make_random_cut_cache(path):
    coldframe("extract", "--input", stock("exams.csv"), "--out", path, "--random-weights", 0, "--architecture", "vit_tiny_patch16_224",
              "--cut", 10, *PIXELS)


def make_parts(path):
    """A cache that lies in parts, of which there is one."""
    coldframe("extract", "--input", stock("exams.csv"), "--out", path, "--weights", stock("vit.safetensors"), "--part", "0/1", *PIXELS)


def make_backbone(path):
    import torch

    torch.jit.script(torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())).save(path)


def make_run(path):
    coldframe("train", "--cache", stock("exams.cache"), "--target", "label", "--out", path, "--folds", 2, "--time", "off", "--epochs", 1, "--bootstrap", 10)


def make_split(path):
    """A split of MedNet's form."""
    split = {part: [{"exam": f"Train/{100 * p + e}_L", "label": e % 2, "frames": [{"file": f"{t}.jpg", "elapsed_seconds": 60.0 * t + e}
                                                                                for t in range(FRAMES)]} for e in range(6)]
             for p, part in enumerate(["train", "validation", "test"])}
    path.write_text(json.dumps(split))


def make_frames(path):
    """The images of that split."""
    subprocess.run([sys.executable, ROOT / "examples/mednet/make_frames.py", stock("temporal_hyperftype.json"), path, "--side", "48"],
                   check=True, capture_output=True)


# What pages take for granted: by name, what makes it. A name that stands for another has the same content.
MAKERS = {"exams.csv": make_exams, "ct.csv": make_volumes, "exams.cache": make_cache, "cut.cache": make_cut_cache, "y.cache": make_random_cut_cache, "vit.safetensors": make_weights,
          "vit_folder": make_weights, "retfound_green.pth": make_retfound, "dinov2-small": make_dinov2, "videomae-small": make_videomae, "runs/first": make_run,
          "x.h5": make_cache, "parts.cache": make_parts, "backbone.ts.pt": make_backbone, "FRAMES": make_frames,
          "temporal_hyperftype.json": make_split}
ALIASES = {"cohort.csv": "exams.csv", "x.cache": "exams.cache", "features.cache": "exams.cache",
           "other_hospital.cache": "exams.cache", "new.cache": "exams.cache", "site1.h5": "x.h5", "site2.h5": "x.h5",
           "fa.cache": "exams.cache", "icga.cache": "exams.cache", "build/pocus.cache": "exams.cache",
           "build/quickstart/exams.cache": "exams.cache", "retfoundgreen_statedict.pth": "retfound_green.pth",
           "runs/label": "runs/first"}
FRAME_FOLDERS = {"dicoms", "exams", "new_exams"}


def stock(name):
    name = ALIASES.get(name, name)
    return made_once(f"{name} of the pages' commands", MAKERS[name], Path(name).name)


def outputs(text):
    return set(re.findall(r"(?:--out|--html|--maps|make_large_cache|cache report|cache merge|cache export|cache import) (\S+)", text))


def prepared(text, made=()):
    """Lines of a shell: what a command reads is there, fresh, unless others `made` it, and what it writes is not."""
    lines = [f"rm -rf {name}" for name in sorted(outputs(text))]
    for name in sorted(set(re.split(r"[\s,=]+", text)) & (MAKERS.keys() | ALIASES.keys() | FRAME_FOLDERS) - set(made) - outputs(text)):
        if name in FRAME_FOLDERS:
            source = f"{stock('exams.csv').with_name('made')}/frames/E000[0-2]"
        else:
            source = stock("parts.cache" if re.search("cache (progress|finish)", text) else name)
        lines.append(f"rm -rf {name}; mkdir -p ./{name if name in FRAME_FOLDERS else os.path.dirname(name)}; cp -r {source} {name}")
    return lines


def run(commands, folder):
    """[(exit code, what it printed)] of each command, one after another in one shell. Each may use what those before it
    wrote, and write anew what one of them, an alternative to it, wrote."""
    lines, made = [], set()
    for number, text in enumerate(commands):
        lines += prepared(text, made) + [f"{{\n{text}\n}} >said.{number} 2>&1 </dev/null; echo $? >code.{number}"]
        made |= outputs(text)
    shell = subprocess.Popen(["bash", "-c", "\n".join(lines)], cwd=folder_for(folder), env=environment(), start_new_session=True)
    try:
        assert shell.wait(timeout=300) == 0
    finally:
        if shell.poll() is None:  # with all that it started
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return [(int((folder / f"code.{number}").read_text()), (folder / f"said.{number}").read_text()) for number in range(len(commands))]
