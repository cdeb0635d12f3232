"""The house rules: who may include whom, what lies where, how a file may look.

They hold for files under version control (for all files of the source tree where there is no git).
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "cache", "common",
             "examples", "extract", "pyproject.toml", "tests", "train_temporal"}
CODE = (".cpp", ".h", ".cu", ".cuh")
MAX_LINES = 1200

# Each room and the rooms from which it may include; a name with a suffix is one file of a room. A room
# stands for the folders in it that have no line of their own.
COMMON = {"common", "common/system"}
EXTRACTION = COMMON | {"common/torch", "cache", "extract", "extract/cuda", "extract/decode",
                       "extract/input", "extract/preprocess", "extract/vit"}
EVALUATION = {"train_temporal/evaluate", "train_temporal/labels"}
MODELS = {"train_temporal/data", "train_temporal/models", "train_temporal/models/kernels",
          "train_temporal/fit", "train_temporal/fit/tune"}
ROOMS = {
    "common": COMMON,
    "common/system": COMMON,
    "common/torch": COMMON | {"common/torch"},
    "cache": COMMON | {"cache", "cache/hdf5"},
    "cache/hdf5": COMMON | {"cache/format/format.h", "cache/hdf5"},
    "cache/tool": COMMON | {"cache", "cache/tool"},
    # Files to frames; it knows no list of exams.
    "extract/decode": COMMON | {"extract/decode"},
    "extract/input": COMMON | {"extract/decode", "extract/input"},
    "extract/preprocess": COMMON | {"extract/cuda", "extract/decode/frame.h", "extract/decode/volume.h",
                                    "extract/decode/window.h", "extract/preprocess"},
    "extract/vit": COMMON | {"common/torch", "extract/vit", "extract/cuda"},
    "extract/cuda": {"extract/cuda", "common/numbers/dtype.h", "common/system/gpu_libraries.h"},
    # extract's main, options and pipeline
    "extract": EXTRACTION | {"extract/inspect/benchmark.h", "extract/inspect/doctor.h",
                             "extract/inspect/dry_run.h"},
    # doctor tells HDF5's version, too
    "extract/inspect": EXTRACTION | {"cache/hdf5/file_writer.h", "extract/inspect"},
    "train_temporal/evaluate": COMMON | {"train_temporal/evaluate"},
    "train_temporal/labels": COMMON | {"cache"} | EVALUATION,
    "train_temporal/report": COMMON | {"train_temporal/evaluate", "train_temporal/report"},
    "train_temporal/data": COMMON | {"common/torch", "cache", "train_temporal/data"},
    "train_temporal/models/kernels": COMMON | {"common/torch", "train_temporal/models/kernels"},
    "train_temporal/models": COMMON | {"common/torch", "cache", "train_temporal/data",
                                       "train_temporal/labels", "train_temporal/models",
                                       "train_temporal/models/kernels"},
    "train_temporal/fit": COMMON | {"common/torch"} | EVALUATION | MODELS,
    # Of extract it takes the ViT.
    "train_temporal/fit/tune": COMMON | {"common/torch", "extract/vit",
                                         "extract/preprocess/normalization.h",
                                         "train_temporal/data", "train_temporal/fit/tune",
                                         "train_temporal/models", "train_temporal/models/kernels"},
    # What the report and predict show of single exams; it reads finished runs.
    "train_temporal/explain": COMMON | {"common/torch", "cache", "extract/vit",
                                        "train_temporal/data", "train_temporal/explain",
                                        "train_temporal/fit/tune", "train_temporal/labels",
                                        "train_temporal/models", "train_temporal/report",
                                        "train_temporal/run"},
    # What training would take before it runs: architectures, sizes of a cache, and the steps of tune.
    "train_temporal/plan": COMMON | {"common/torch", "cache", "extract/vit",
                                     "train_temporal/fit/tune", "train_temporal/models",
                                     "train_temporal/plan"},
    # The options of exams as they come, and recipes for people, are extract's.
    "train_temporal/run": COMMON | {"common/torch", "cache", "extract", "train_temporal/report",
                                    "train_temporal/run"} | EVALUATION | MODELS,
    # A finished run as one folder, which predicts from exams as they come.
    "train_temporal/bundle": EXTRACTION | {"train_temporal/bundle", "train_temporal/data",
                                           "train_temporal/labels", "train_temporal/models",
                                           "train_temporal/report", "train_temporal/run"},
    "train_temporal/commands": COMMON | {"common/torch", "cache", "extract/command.h", "train_temporal/bundle",
                                         "train_temporal/commands", "train_temporal/explain",
                                         "train_temporal/plan", "train_temporal/report",
                                         "train_temporal/run"} | EVALUATION | MODELS,
    "examples": {"common", "examples", "extract/decode", "extract/input"},
}

# Headers of libraries, and the only places that may include them.
LIBRARIES = {
    r"(torch|ATen|c10|caffe2)/": ["common/torch/", "extract/", "train_temporal/"],
    r"torch/torch\.h": [],  # common/torch/tensor.h, which compiles faster
    r"(hdf5\.h|H5)": ["cache/hdf5/"],
    r"opencv2/": ["extract/", "examples/"],
    r"lib(av|sw)\w+/": ["extract/decode/clip/ffmpeg.h"],
}
# Rooms that lie inside a permitted folder and are yet without the library of that pattern.
WITHOUT = {
    r"(torch|ATen|c10|caffe2)/": ["extract/cuda/", "extract/decode/", "extract/input/",
                                  "extract/preprocess/"],
    r"opencv2/": ["extract/vit/", "extract/cuda/"],
}
assert WITHOUT.keys() <= LIBRARIES.keys()


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.split("\0")[:-1]
    else:
        names = [str(path.relative_to(ROOT)) for top in TOP_LEVEL
                 for path in [ROOT / top, *(ROOT / top).rglob("*")] if path.is_file()]
    return sorted(name for name in names if (ROOT / name).is_file())


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def room_of(path):
    inside = [room for room in ROOMS if path.startswith(room + "/")]
    return max(inside, key=len, default=None)


def include_faults(name, text):
    """Says what is wrong with the includes of a file."""
    room = room_of(name)
    if room is None:
        return [f"{name} lies in no room of the table"]
    faults = []
    for mark, header in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)', text, re.MULTILINE):
        target = room_of(header)
        if mark == '"' and target is None:
            faults.append(f'{name}: "{header}" does not start at the repository root')
        elif target is not None and mark == "<":
            faults.append(f'{name}: <{header}> is a header of the project: write "{header}"')
        elif target is not None:
            allowed = ROOMS[room]
            if target not in allowed and header not in allowed:
                faults.append(f"{name} ({room}) may not include {header} ({target})")
        for pattern, places in LIBRARIES.items():
            if not re.match(pattern, header):
                continue
            if not any(name.startswith(place) for place in places) or any(
                    name.startswith(place) for place in WITHOUT.get(pattern, [])):
                faults.append(f"{name} may not include {header}")
    return faults


@pytest.mark.parametrize("name, line, faulty", [
    ("cache/a.cpp", '#include "common/text/text.h"', False),
    ("cache/a.cpp", '#include "common/torch/device.h"', True),
    ("cache/a.cpp", "#include <torch/torch.h>", True),
    ("cache/a.cpp", "#include <common/torch/device.h>", True),
    ("train_temporal/run/a.cpp", "#include <cache/store/reader.h>", True),
    ("cache/store/reader.cpp", "#include <hdf5.h>", True),
    ("cache/hdf5/file_writer.cpp", "#include <H5Cpp.h>", False),
    ("common/a.cpp", '#include "cache/store/reader.h"', True),
    ("common/a.cpp", '#include "text.h"', True),
    ("common/torch/a.cpp", "#include <ATen/ATen.h>", False),
    ("common/torch/a.cpp", "#include <torch/torch.h>", True),
    ("extract/preprocess/a.cpp", '#include "extract/decode/frame.h"', False),
    ("extract/preprocess/a.cpp", '#include "extract/decode/source.h"', True),
    ("extract/preprocess/a.cpp", "#include <torch/torch.h>", True),
    ("extract/preprocess/resample_torch.cpp", "#include <ATen/ATen.h>", True),
    ("extract/vit/a.cpp", '#  include "extract/preprocess/preprocessing.h"', True),
    ("extract/decode/a.cpp", "#include <opencv2/core.hpp>", False),
    ("extract/pipeline/pipeline.cpp", '#include "extract/vit/backbone.h"', False),
    ("train_temporal/run/a.cpp", '#include "extract/vit/backbone.h"', True),
    ("train_temporal/run/a.cpp", '#include "cache/store/reader.h"', False),
    ("train_temporal/a.cpp", '#include "cache/store/reader.h"', True),
])
def test_the_check_of_includes_tells_right_from_wrong(name, line, faulty):
    assert bool(include_faults(name, f"// a file\n{line}\n")) == faulty


def test_rooms_include_only_what_they_may():
    faults = []
    for name in files():
        if name.endswith(CODE) and not name.startswith("tests/"):
            faults += include_faults(name, text_of(name))
    assert not faults, "\n".join(faults)


def test_the_top_level_holds_only_the_fixed_names():
    found = {name.split("/")[0] for name in files()}
    strangers = sorted(name for name in found - TOP_LEVEL if not name.startswith("."))
    assert not strangers
    assert TOP_LEVEL <= found


def test_no_file_of_code_is_long():
    long = {name: count for name in files() if name.endswith((*CODE, ".py", ".cmake"))
            if (count := text_of(name).count("\n")) > MAX_LINES}
    assert not long


def test_nothing_is_left_for_later():
    # Spelt in pieces, so that this file does not find itself.
    words = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b")
    found = [f"{name}:{number}: {line.strip()}" for name in files()
             if name.endswith((*CODE, ".py", ".cmake", ".txt", ".md", ".sh"))
             for number, line in enumerate(text_of(name).splitlines(), 1) if words.search(line)]
    assert not found, "\n".join(found)


def test_every_source_is_in_a_target():
    listed = set()
    for name in files():
        if name.endswith("CMakeLists.txt"):
            text = re.sub(r"foreach\(reader ([^)]+)\)(.*?)endforeach", lambda found: " ".join(
                found[2].replace("${reader}", reader) for reader in found[1].split()), text_of(name), flags=re.DOTALL)
            folder = pathlib.PurePosixPath(name).parent
            listed |= {os.path.normpath(folder / source) for source in re.findall(r"[\w./]+\.cpp\b", text)}
    assert [name for name in files() if name.endswith(".cpp") and name not in listed and not name.endswith("_cuda.cpp")] == []


# Everything else is written by AtomicFile, or in a folder that publish() syncs: a power cut leaves no result empty.
WRITERS = {
    "common/files/publish/": "the one place that publishes",
    "common/files/exam_files.cpp": "pictures in a folder that is published as a whole",
    "common/files/file_lock.cpp": "locks hold no result",
    "common/system/monitor.cpp": "rows of --monitor, which are read while they grow",
    "common/cli/cli.cpp": "/dev/null for standard streams that are closed",
    "train_temporal/run/warm_start.cpp": "a link within a run that is published as a whole",
}
WRITES = re.compile(
    r"\bofstream\b|std::fstream|\bf(?:d)?open\(|::creat\(|O_(?:WRONLY|RDWR|CREAT)|::mkstemp|\bimwrite\(|::ftruncate\(|resize_file"
    r"|(?:::|fs::)(?:rename|renameat2?|link|linkat|symlink|create_hard_link|create_symlink|copy_file|flock)\(|\b(?:fs|filesystem)::copy\(")
PYTHON_WRITERS = {"common/python/coldframe/publish.py": "the one place that publishes",
                  "common/python/coldframe/commands.py": "features on their way to `cache import`",
                  "common/python/coldframe/tables.py": "their table",
                  "common/cli/dispatch/help_pages.py": "makes a source of the build"}
# What is named `made` is a file or lies in a folder that publish.py publishes.
PYTHON_WRITES = re.compile(
    r"^(?!.*[(,] ?made\b).*(?:(?:open|File)\([^)]*[\"'][wax]b?\+?[\"']|\.write_(?:text|bytes)\(|os\.(?:rename|replace|link)\(|shutil\.(?:copy|move)\w*\("
    r"|\.to_(?:csv|parquet)\(|(?:np|torch)\.save\()")


def writers(name, text, pattern, allowed):
    if any(name.startswith(place) for place in allowed):
        return []
    return [f"{name}:{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def test_results_are_published_in_one_place():
    found, names = [], files()
    for name in names:
        if name.startswith(("common/", "cache/", "extract/", "train_temporal/", "examples/make")) and name.endswith(CODE):
            found += writers(name, text_of(name), WRITES, WRITERS)
        if name.startswith("common/") and name.endswith(".py"):
            found += writers(name, text_of(name), PYTHON_WRITES, PYTHON_WRITERS)
    assert not found, "write it by AtomicFile, or say here why not:\n" + "\n".join(found)
    unused = [place for place in (*WRITERS, *PYTHON_WRITERS) if not any(name.startswith(place) for name in names)]
    assert not unused


@pytest.mark.parametrize("line, pattern", [
    ("std::ofstream file(path);", WRITES), ("fs::rename(a, b);", WRITES), ("::open(p, O_WRONLY | O_CREAT)", WRITES),
    ("std::filesystem::create_hard_link(a, b);", WRITES), ("std::filesystem::copy_file(a, b);", WRITES),
    ('with open(path, "w") as file:', PYTHON_WRITES), ('h5py.File(path, "w")', PYTHON_WRITES),
    ("table.to_csv(path)", PYTHON_WRITES), ("        torch.save(features, path)", PYTHON_WRITES)])
def test_the_check_of_writers_sees_them(line, pattern):
    assert writers("cache/a.cpp", line, pattern, {})


def test_code_is_formatted():
    code = [name for name in files() if name.endswith(CODE)]
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *code], cwd=ROOT,
                          capture_output=True, text=True)
    faults = {line.split(":")[0] for line in done.stderr.splitlines() if ": error:" in line}
    assert not faults, "run clang-format-14 -i " + " ".join(sorted(faults))
    assert done.returncode == 0, done.stderr


def dependencies(program):
    return subprocess.run(["ldd", BUILD / "bin" / program], capture_output=True, text=True,
                          check=True).stdout


@pytest.mark.parametrize("program", ["coldframe", "coldframe-cache"])
def test_quick_programs_load_no_libtorch(program):
    if not (BUILD / "bin" / program).exists():
        pytest.fail(f"{BUILD / 'bin' / program} is not built")
    heavy = re.findall(r"^\s*(lib(?:torch|c10|cudart|opencv)\S*)", dependencies(program), re.M)
    assert not heavy


def test_the_program_that_computes_does_not_load_cuda_at_the_start():
    program = "coldframe-train_temporal"
    if not (BUILD / "bin" / program).exists():
        pytest.fail(f"{BUILD / 'bin' / program} is not built")
    assert "libtorch_cpu" in dependencies(program)
    assert "libtorch_cuda" not in dependencies(program)
