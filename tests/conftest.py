"""What holds for all tests in Python: threads that wait, the folder of support/shared.py, and how long tests took."""

import os
import shutil
import tempfile

import shared

SLOW = 20  # seconds
# OpenMP's threads wait asleep: beside other tests, those that spin took half of the processor's time. libgomp reads this
# when it is loaded, and programs inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Patients' hashes, and with them the splits of cohorts, are the same on every machine.
os.environ.setdefault("COLDFRAME_PATIENT_SALT", "tests")


def settle_vector_functions():
    """PyTorch computes the peers' values, and its first call of a vector function in several threads may be wrong by 1e-5
    (settle_vector_functions() in common/torch/device.cpp): here they are called first by one."""
    import torch

    for name in ["acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "log", "log2", "log10", "sqrt", "sin", "tan",
                 "tanh", "trunc"]:
        for dtype in [torch.float32, torch.float64]:
            getattr(torch, name)(torch.ones(1, dtype=dtype))


def starts_workers(config):
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", None))


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # workers inherit it
        os.environ[shared.FOLDER] = tempfile.mkdtemp(prefix="coldframe-tests-")
    if not starts_workers(config):
        settle_vector_functions()


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(shared.FOLDER), ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    """Names tests above 20 s, so that growth is noticed."""
    seconds = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid] = seconds.get(report.nodeid, 0) + report.duration
    terminalreporter.section("time")
    slow = sorted((item for item in seconds.items() if item[1] > SLOW), key=lambda item: -item[1])
    terminalreporter.line(f"{len(slow)} Python tests took more than {SLOW} s{':' if slow else ''}")
    for name, took in slow:
        terminalreporter.line(f"  {took:.0f} s  {name}")
