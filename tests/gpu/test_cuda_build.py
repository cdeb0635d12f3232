"""Which CUDA compiler the build takes."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_an_older_compiler_on_path_gives_way_to_that_of_the_toolkits_folder(tmp_path):
    """What common/bootstrap installs lies behind them, in build/venv."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.86\n")
    (tmp_path / "bin/nvcc").chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\n"
                                             f"include({ROOT}/common/cmake/Cuda.cmake)\n")
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "out"], capture_output=True, text=True,
                          env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    taken = [line for line in (tmp_path / "out/CMakeCache.txt").read_text().splitlines() if line.startswith("COLDFRAME_NVCC")]
    assert taken and str(tmp_path) not in taken[0]
    there = any(pathlib.Path(folder, "nvcc").exists() for folder in ["/usr/bin", "/usr/local/cuda/bin"])
    assert f"CUDA kernels {'ON' if there else 'OFF'}" in done.stdout
