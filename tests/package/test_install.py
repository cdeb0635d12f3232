"""`cmake --install` of the build, and a wheel of the package with these programs in it (built without compiling again)."""

import os
import re
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
PROGRAMS = ["coldframe", "coldframe-cache", "coldframe-extract", "coldframe-make-exams", "coldframe-train_temporal"]
TORCH = next((ROOT / "build/venv/lib").glob("python3*/site-packages/torch"))


def run(*command, **environment):
    clean = {key: value for key, value in os.environ.items() if key not in ("COLDFRAME_TORCH", "LD_LIBRARY_PATH", "PYTHONPATH")}
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
    for path in [*(prefix / "bin").iterdir(), *(prefix / "lib/coldframe").iterdir()]:
        told = succeed("readelf", "-d", path)
        paths = [word for found in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", told) for word in found.split(":")]
        assert all(word.startswith("$ORIGIN") for word in paths), f"{path.name}: {paths}"


def test_an_installation_holds_licence_and_page(prefix):
    assert {path.name for path in (prefix / "share/doc/coldframe").iterdir()} >= {"LICENSE", "README.md"}


def test_programs_without_libtorch_run_as_they_lie(prefix):
    assert succeed(prefix / "bin/coldframe", "--version").startswith("coldframe ")
    assert "verify" in succeed(prefix / "bin/coldframe", "cache", "--help")


def test_a_missing_libtorch_is_said_in_one_sentence(prefix):
    done = run(prefix / "bin/coldframe", "extract", "--help")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr == ("error: there is no LibTorch: pip install 'torch==2.11.*' where Coldframe is, or name the folder of a "
                           "torch package in COLDFRAME_TORCH\n")


def test_the_variable_names_the_torch(prefix, tmp_path):
    assert "Usage: coldframe extract" in succeed(prefix / "bin/coldframe", "extract", "--help", COLDFRAME_TORCH=str(TORCH))
    done = run(prefix / "bin/coldframe", "train", COLDFRAME_TORCH=str(tmp_path))
    assert done.returncode == 2 and f"COLDFRAME_TORCH names '{tmp_path}', which holds no lib/libtorch_cpu.so" in done.stderr


def test_a_torch_beside_an_installation_is_found(prefix):
    link = prefix.parent / "torch"
    link.symlink_to(TORCH)
    try:
        assert "Usage: coldframe train" in succeed(prefix / "bin/coldframe", "train", "--help")
        done = run(prefix / "bin/coldframe", "train", "--help", COLDFRAME_TORCH=str(fake_torch(prefix.parent / "other", "2.11.0")))
        assert done.returncode == 2 and "but this Coldframe takes the LibTorch in" in done.stderr
    finally:
        link.unlink()


@pytest.mark.parametrize("version", ["2.10.0+cu128", "2.15.1", "2.110.0"])
def test_another_version_of_torch_is_refused_in_one_sentence(prefix, tmp_path, version):
    torch = fake_torch(tmp_path / "torch", version)
    done = run(prefix / "bin/coldframe", "predict", "--help", COLDFRAME_TORCH=str(torch))
    assert done.returncode == 3
    assert done.stderr == f"error: torch {version} lies in '{torch}', but this Coldframe needs torch 2.11: pip install 'torch==2.11.*'\n"
    assert "Usage" in succeed(prefix / "bin/coldframe", "cache", "ls", "--help", COLDFRAME_TORCH=str(torch))


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
    assert {"coldframe/__init__.py", "coldframe/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    assert "Requires-Dist: torch==2.11.*" in told
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
    assert done.returncode == 3 and done.stderr.startswith("error: there is no LibTorch: pip install 'torch==2.11.*'")
    assert done.stderr.count("\n") == 1
    assert succeed(python.parent / "coldframe", "cache", "--help")
