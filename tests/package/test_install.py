"""`cmake --install` of the build, and a wheel of the package with these programs in it (built without compiling again)."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy
import pandas
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
PROGRAMS = ["coldframe", "coldframe-cache", "coldframe-make-exams", "coldframe-setup"]
TORCH = next((ROOT / "build/venv/lib").glob("python3*/site-packages/torch"))
VERSION = re.search(r"__version__ = '([\d.]+)", (TORCH / "version.py").read_text())[1].rpartition(".")[0]  # "2.11"
REMEDY = ("run `coldframe setup`, which puts one that fits into a folder of its own, or name the folder of a torch package "
          "that fits in COLDFRAME_LIBTORCH\n")


def run(*command, **environment):
    clean = {key: value for key, value in os.environ.items() if key not in ("COLDFRAME_LIBTORCH", "LD_LIBRARY_PATH", "PYTHONPATH")}
    clean["XDG_CACHE_HOME"] = "/nowhere"
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=clean | environment)


def succeed(*command, **environment):
    done = run(*command, **environment)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation that was moved; no torch lies beside it."""
    first = tmp_path_factory.mktemp("install") / "first"
    succeed("cmake", "--install", BUILD, "--prefix", first)
    return Path(shutil.move(first, first.parent / "moved")) if (first / "bin").exists() else pytest.fail("nothing installed")


def fake_torch(folder, version):
    """A torch package of another version; no program loads it, since the version is looked at first."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/libtorch_cpu.so").touch()
    (folder / "version.py").write_text(f"__all__ = ['__version__']\n__version__ = '{version}'\n")
    return folder


def test_programs_name_no_folder_of_this_machine(prefix):
    assert sorted(path.name for path in (prefix / "bin").iterdir()) == PROGRAMS
    libtorch = prefix / f"lib/coldframe/torch-{VERSION}"
    assert {path.name for path in libtorch.iterdir()} >= {"coldframe-train_temporal"}
    for path in [*(prefix / "bin").glob("*[!p]"), *(prefix / "lib/coldframe").glob("*.so"), *libtorch.iterdir()]:
        told = succeed("readelf", "-d", path)
        paths = [word for found in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", told) for word in found.split(":")]
        assert all(word.startswith("$ORIGIN") for word in paths), f"{path.name}: {paths}"


def test_an_installation_holds_licence_and_page(prefix):
    assert {path.name for path in (prefix / "share/doc/coldframe").iterdir()} >= {"LICENSE", "README.md"}


def test_what_uses_libtorch_can_be_installed_alone(tmp_path):
    """As common/wheel/make takes the programs for every other LibTorch."""
    succeed("cmake", "--install", BUILD, "--component", "libtorch", "--prefix", tmp_path)
    (folder,) = (tmp_path / "lib/coldframe").iterdir()
    assert "coldframe-train_temporal" in {path.name for path in folder.iterdir()} and not (tmp_path / "bin").exists()


def test_programs_without_libtorch_run_as_they_lie(prefix):
    assert succeed(prefix / "bin/coldframe", "--version").startswith("coldframe ")
    assert "verify" in succeed(prefix / "bin/coldframe", "cache", "--help")


def test_a_missing_libtorch_is_said_in_one_sentence(prefix):
    done = run(prefix / "bin/coldframe", "extract", "--help")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr == f"error: there is no LibTorch; this Coldframe runs with {VERSION}; {REMEDY}"


def test_the_variable_names_the_torch(prefix, tmp_path):
    assert "Usage: coldframe extract" in succeed(prefix / "bin/coldframe", "extract", "--help", COLDFRAME_LIBTORCH=str(TORCH))
    done = run(prefix / "bin/coldframe", "train", COLDFRAME_LIBTORCH=str(tmp_path))
    assert done.returncode == 2 and f"COLDFRAME_LIBTORCH names '{tmp_path}', which holds no lib/libtorch_cpu.so" in done.stderr


def test_doctor_says_that_an_installation_lacks_libtorch_and_where_it_is_named(prefix):
    done = run(prefix / "bin/coldframe", "doctor")
    assert done.returncode == 1 and done.stderr == "" and "-> there is no LibTorch" in done.stdout
    assert done.stdout.count("unknown until LibTorch is there") == 4
    assert done.stdout.endswith("before this is done: LibTorch.\n")
    assert f" in {TORCH}, COLDFRAME_LIBTORCH names it\n" in succeed(prefix / "bin/coldframe", "doctor", COLDFRAME_LIBTORCH=str(TORCH))


def test_a_torch_beside_an_installation_is_found(prefix):
    link = prefix.parent / "torch"
    link.symlink_to(TORCH)
    try:
        assert ", beside Coldframe\n" in succeed(prefix / "bin/coldframe", "doctor")
        assert "Usage: coldframe train" in succeed(prefix / "bin/coldframe", "train", "--help")
    finally:
        link.unlink()


@pytest.mark.parametrize("version", ["2.10.0+cu128", "9.15.1", "2.110.0"])
def test_another_version_of_torch_is_refused_in_one_sentence(prefix, tmp_path, version):
    torch = fake_torch(tmp_path / "torch", version)
    done = run(prefix / "bin/coldframe", "predict", "--help", COLDFRAME_LIBTORCH=str(torch))
    assert done.returncode == 3
    assert done.stderr == f"error: there is torch {version} in '{torch}', but this Coldframe runs with torch {VERSION}; {REMEDY}"
    assert "Usage" in succeed(prefix / "bin/coldframe", "cache", "ls", "--help", COLDFRAME_LIBTORCH=str(torch))


def test_a_newer_torch_that_python_would_import_from_beside_coldframe_is_named_once(prefix):
    torch = fake_torch(prefix.parent / "torch", "2.99.0+cu150")
    try:
        done = run(prefix / "bin/coldframe", "train", "--help", COLDFRAME_PYTHON_TORCH=str(prefix / "../torch"))
        assert done.returncode == 3
        assert done.stderr == f"error: there is torch 2.99.0+cu150 in '{torch}', but this Coldframe runs with torch {VERSION}; {REMEDY}"
    finally:
        shutil.rmtree(torch)


def test_a_build_folder_takes_the_torch_that_it_was_built_with(tmp_path):
    torch = fake_torch(tmp_path / "torch", f"{VERSION}.0")
    done = run(BUILD / "bin/coldframe", "train", "--help", COLDFRAME_LIBTORCH=str(torch))
    assert done.returncode == 2 and "but this Coldframe takes the LibTorch in" in done.stderr
    done = run(BUILD / "bin/coldframe", "setup")
    assert done.returncode == 3 and "setup is for an installed Coldframe" in done.stderr


@pytest.fixture
def two_versions(prefix):
    """The installation, with stand-ins of programs for LibTorch 9.10, which say what they were given."""
    folder = prefix / "lib/coldframe/torch-9.10"
    folder.mkdir()
    (folder / "coldframe-train_temporal").write_text('#!/bin/sh\necho "9.10 with $LD_LIBRARY_PATH"\n')
    (folder / "coldframe-train_temporal").chmod(0o755)
    yield prefix
    shutil.rmtree(folder)


def test_the_programs_are_those_for_the_torch_that_is_there(two_versions, tmp_path):
    other = fake_torch(tmp_path / "torch", "9.10.2+cu150")
    command = [two_versions / "bin/coldframe", "extract", "--help"]
    assert succeed(*command, COLDFRAME_LIBTORCH=str(other)) == f"9.10 with {other}/lib\n"
    assert "Usage: coldframe extract" in succeed(*command, COLDFRAME_LIBTORCH=str(TORCH))
    assert succeed(*command, COLDFRAME_PYTHON_TORCH=str(other)) == f"9.10 with {other}/lib\n"
    old = fake_torch(tmp_path / "old", "1.2.3")
    assert f"torch 1.2.3 in '{old}', but this Coldframe runs with torch {VERSION}, 9.10;" in run(*command, COLDFRAME_PYTHON_TORCH=str(old)).stderr


PIP = """#!/bin/sh
# python -m pip: --version, or install … --target FOLDER torch==VERSION.* and what else is asked for
echo "$*" >>"$CALLS"
[ "$3" = install ] || exit 0
[ -z "$FAILS" ] || exit 1
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/torch/lib" "$2/torch-9.10.2.dist-info"
touch "$2/torch/lib/libtorch_cpu.so" "$2/torch/lib/libtorch_cuda.so"
echo "__version__ = '9.10.2'" >"$2/torch/version.py"
echo 'Requires-Dist: cuda-toolkit[cudart,cupti,nvtx]==15.0.1; platform_system == "Linux"' >"$2/torch-9.10.2.dist-info/METADATA"
"""


@pytest.fixture
def pip(tmp_path):
    """A stand-in of Python with pip, and the environment that names it."""
    (tmp_path / "python").write_text(PIP)
    (tmp_path / "python").chmod(0o755)
    return {"COLDFRAME_PYTHON": str(tmp_path / "python"), "CALLS": str(tmp_path / "calls"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_setup_gets_a_libtorch_that_is_found_then(two_versions, pip, tmp_path):
    coldframe = two_versions / "bin/coldframe"
    told = succeed(coldframe, "setup", "--cpu", **pip)
    folder = tmp_path / "cache/coldframe/torch-9.10"
    assert f"LibTorch 9.10 is in {folder}" in told and "COLDFRAME_LIBTORCH" not in told
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if " install " in line]
    assert len(calls) == 2 and calls[0].endswith("torch==9.10.*") and calls[1].endswith("cuda-toolkit[cudart,cupti]==15.0.1")
    assert not (folder / "torch/lib/libtorch_cuda.so").exists()
    assert succeed(coldframe, "extract", **pip) == f"9.10 with {folder}/torch/lib\n"
    assert "already" in succeed(coldframe, "setup", "--cpu", **pip | {"FAILS": "1"})


def path_without_uv(folder):
    """A PATH of what the script and the stand-in of pip need."""
    (folder / "bin").mkdir()
    for name in ("env", "sh", "bash", "dirname", "sed", "sort", "tail", "grep", "paste", "mkdir", "mktemp", "mv", "cp", "rm", "chmod", "touch", "du", "cut"):
        (folder / "bin" / name).symlink_to(shutil.which(name))
    return {"PATH": str(folder / "bin")}


def test_setup_brings_pip_along_where_an_environment_has_none(two_versions, pip, tmp_path):
    """As those of pipx and uv; uv is not on the PATH."""
    (tmp_path / "pip").write_text(PIP)
    (tmp_path / "python").write_text(f"""#!/bin/sh
[ "$2" = venv ] && mkdir -p "$3/bin" && cp {tmp_path}/pip "$3/bin/python" && chmod 755 "$3/bin/python"
""")
    told = succeed(two_versions / "bin/coldframe", "setup", "--cpu", **pip | path_without_uv(tmp_path))
    assert "LibTorch 9.10 is in" in told and [path.name for path in tmp_path.glob("cache/coldframe/*")] == ["torch-9.10"]


def test_setup_adds_cudas_libraries_where_a_libtorch_without_them_is(two_versions, pip, tmp_path):
    """A login node has no GPU, and the home folder is the GPU node's, too."""
    coldframe = two_versions / "bin/coldframe"
    succeed(coldframe, "setup", "--cpu", **pip)
    done = run(coldframe, "setup", "--gpu", **pip | {"FAILS": "1"})
    assert done.returncode == 3 and (tmp_path / "cache/coldframe/torch-9.10/torch/lib/libtorch_cpu.so").exists()
    assert "with CUDA's libraries" in succeed(coldframe, "setup", "--gpu", **pip)
    assert (tmp_path / "cache/coldframe/torch-9.10/torch/lib/libtorch_cuda.so").exists()


def test_setup_says_what_to_do_with_another_folder(two_versions, pip, tmp_path):
    told = succeed(two_versions / "bin/coldframe", "setup", "--gpu", "--torch", VERSION, "--prefix", tmp_path / "there", **pip)
    folder = tmp_path / f"there/torch-{VERSION}"
    assert f"export COLDFRAME_LIBTORCH={folder}/torch\n" in told and (folder / "torch/lib/libtorch_cuda.so").exists()


def test_setup_for_all_users(two_versions, pip):
    coldframe = two_versions / "bin/coldframe"
    assert "COLDFRAME_LIBTORCH" not in succeed(coldframe, "setup", "--cpu", "--system", **pip)
    folder = two_versions / "lib/coldframe/libtorch"
    assert succeed(coldframe, "extract") == f"9.10 with {folder}/torch-9.10/torch/lib\n"
    shutil.rmtree(folder)


@pytest.mark.parametrize("words, environment, code, told", [
    (["--cpu"], {"FAILS": "1"}, 3, "no torch 9.10 could be had from pip's index"),
    (["--torch", "2.9"], {}, 2, f"this Coldframe has no programs for torch 2.9; it has them for {VERSION} 9.10"),
    (["--prefix"], {}, 2, "--prefix needs a value"),
    (["--all"], {}, 2, "unknown option '--all'"),
    (["--prefix", "/proc/none"], {}, 3, "cannot write to '/proc/none'; name another folder"),
    ([], {"COLDFRAME_PYTHON": "/bin/false", "WITHOUT": "uv"}, 3, "there is neither pip (of '/bin/false') nor uv")])
def test_a_setup_that_fails_leaves_nothing(two_versions, pip, tmp_path, words, environment, code, told):
    if "WITHOUT" in environment:
        environment = environment | path_without_uv(tmp_path)
    done = run(two_versions / "bin/coldframe", "setup", *words, **pip | environment)
    assert done.returncode == code and told in done.stderr
    assert not list(tmp_path.glob("cache/coldframe/*"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with the wheel, and the build's programs at the place where the wheel has its own."""
    folder = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", folder,
            "-C", "wheel.cmake=false", "-C", f"build-dir={folder}/work")
    (wheel,) = folder.glob("coldframe-*.whl")
    succeed(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv/bin/python"
    succeed(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    site = Path(succeed(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    succeed("cmake", "--install", BUILD, "--prefix", site / "coldframe")
    libraries = {str(Path(module.__file__).parents[1]) for module in (h5py, numpy, pandas)}
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return wheel, python, site


def test_the_wheel_says_what_it_needs(environment):
    wheel, _, _ = environment
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        told = archive.read(metadata).decode()
    assert {"coldframe/__init__.py", "coldframe/py.typed", "coldframe/SKILL.md"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    assert "Requires-Dist: torch>=2.11" in told
    version = re.search(r"project\(coldframe VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert f"\nVersion: {version}\n" in told and wheel.name.startswith(f"coldframe-{version}-")
    assert succeed(BUILD / "bin/coldframe", "--version") == f"coldframe {version}\n"


def test_the_entry_point_becomes_the_programs(environment):
    _, python, site = environment
    command = python.parent / "coldframe"
    assert succeed(command, "--version").startswith("coldframe ")
    assert run(command, "lss").returncode == 2
    # torch lies elsewhere, as in an environment that sees the system's packages; it is found and not imported
    (site / "torch.pth").write_text(f"{TORCH.parent}\n")
    assert "Usage: coldframe train" in succeed(command, "train", "--help")
    code = ("import sys; from coldframe import programs, __version__; programs.environment(); "
            "print({'torch', 'pandas', 'numpy', 'h5py'} & set(sys.modules), __version__)")
    assert succeed(python, "-c", code) == f"set() {re.search('[0-9.]+', succeed(command, '--version'))[0]}\n"
    (site / "torch.pth").unlink()


def test_the_entry_point_without_torch_says_so_once(environment):
    _, python, _ = environment
    done = run(python.parent / "coldframe", "train", "--help")
    assert done.returncode == 3 and done.stderr == f"error: there is no LibTorch; this Coldframe runs with {VERSION}; {REMEDY}"
    assert done.stderr.count("\n") == 1
    assert succeed(python.parent / "coldframe", "cache", "--help")


def test_environments_takes_readmes_first_commands():
    commands = runpy.run_path(str(ROOT / "tests/package/environments"))["first_commands"]()
    assert [line.split()[:2] for line in commands] == [["coldframe", "doctor"], ["coldframe-make-exams", "--out"], ["coldframe", "train"]]
