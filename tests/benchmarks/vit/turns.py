"""Contenders that take turns on one machine, and the table of their speeds."""

import os
import pathlib
import re
import statistics
import subprocess
import time

import numpy
import torch


class SpeedProcess:
    """A line in, a line out: build/tests/vit_engine_speed, and peers that speak like it."""

    def __init__(self, program, *arguments, **environment):
        self.process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=os.environ | environment)
        assert self.process.stdout.readline() == "ready\n", f"{program} did not start"

    def run(self, order="run"):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return tuple(map(float, self.process.stdout.readline().split()))

    def peak_memory(self):
        """Bytes of its own: what the kernel counts for a process does not begin with its parent's peak here."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def features(self, path):
        self.run(f"features {path}")
        return torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32))


def timed(function):
    def run():
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        return time.perf_counter() - wall, time.process_time() - cpu
    return run


def measure(contenders, rounds):
    for run in contenders.values():
        run()
        run()
    times = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            times[name].append(contenders[name]())
    return times


def report(name, times, work, unit, digits=1):
    wall, cpu = zip(*times)
    median = work / statistics.median(wall)
    rates = f"{median:>10.{digits}f}{work / min(wall):>10.{digits}f}{work / statistics.median(cpu):>12.{digits}f}"
    print(f"{name:<22}{rates}  {unit}")
    return median
