"""The CPU engine against its peers on the same weights and images, all in turn within each round.

Prints, for every contender, the median of images per second of wall time, the best, and images per second of CPU
time (which other programs on the machine disturb less), then the engine's ratio to the best peer and its share of the
machine's own limit: the quickest large matrix product of that precision, measured in the same rounds.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import safetensors.torch
import torch

import peers

REPO = pathlib.Path(__file__).resolve().parents[3]


class EngineProcess:
    """build/tests/vit_engine_speed: a line in, a line out."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", "vit_engine_speed did not start"

    def run(self, order="run"):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return tuple(map(float, self.process.stdout.readline().split()))

    def features(self, path):
        self.run(f"features {path}")
        return torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32))


def timed(function):
    def run():
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        return time.perf_counter() - wall, time.process_time() - cpu
    return run


def flops_per_image(model, size):
    """Multiplications and additions of the matrix products alone."""
    patch, width = model.patch_embed.patch_size[0], model.embed_dim
    patches = (size // patch) ** 2
    tokens = patches + model.num_prefix_tokens
    hidden = model.blocks[0].mlp.fc1.out_features
    block = 2 * tokens * width * (4 * width + 2 * hidden) + 4 * tokens * tokens * width
    return len(model.blocks) * block + 2 * patches * 3 * patch * patch * width


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


def report(name, times, work, unit):
    wall, cpu = zip(*times)
    median = work / statistics.median(wall)
    print(f"{name:<22}{median:>10.1f}{work / min(wall):>10.1f}{work / statistics.median(cpu):>12.1f}  {unit}")
    return median


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=REPO / "build")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
        compare(options, pathlib.Path(temporary))


def compare(options, folder):
    model = peers.build(options.model, options.size)
    images = torch.randn(options.batch, 3, options.size, options.size)
    safetensors.torch.save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "weights.safetensors")
    images.numpy().tofile(folder / "images.bin")
    program = options.build / "tests" / "vit_engine_speed"
    engines = {precision: EngineProcess(program, folder / "weights.safetensors", folder / "images.bin", options.size,
                                        options.batch, "cls", precision, options.threads)
               for precision in ("fp32", "bf16")}
    others = peers.all_peers(model, images, options.threads, folder)
    gemms, gemm_flops = peers.gemms()
    contenders = {f"engine {precision}": engine.run for precision, engine in engines.items()}
    contenders |= {name: timed(function) for name, (_, function) in (others | gemms).items()}

    print(f"{options.model} at {options.size}, batch {options.batch}, {options.threads} threads, "
          f"{options.rounds} rounds; load before {os.getloadavg()[0]:.1f}", flush=True)
    times = measure(contenders, options.rounds)
    print(f"load after {os.getloadavg()[0]:.1f}\n{'':22}{'median':>10}{'best':>10}{'per CPU s':>12}")
    rates = {name: report(name, times[name], options.batch, "images") for name in contenders if name not in gemms}
    limits = {name: report(name, times[name], gemm_flops / 1e9, "GFLOP") for name in gemms}
    expected = model(images)
    for precision, engine in engines.items():
        best = max((name for name, (kind, _) in others.items() if kind == precision), key=rates.get)
        limit = max(limits[name] for name, (kind, _) in gemms.items() if kind == precision)
        rate = rates[f"engine {precision}"]
        share = rate * flops_per_image(model, options.size) / 1e9 / limit
        cosine = torch.nn.functional.cosine_similarity(
            engine.features(folder / "features.bin").view_as(expected), expected, dim=1).min().item()
        print(f"{precision}: {rate / rates[best]:.2f} x the best peer ({best}), {share:.0%} of the GEMM limit, "
              f"smallest cosine to timm fp32 {cosine:.7f}")


if __name__ == "__main__":
    sys.exit(main())
