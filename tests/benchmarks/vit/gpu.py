"""The GPU engine against timm, eager and by torch.compile with CUDA graphs (mode="reduce-overhead"; with --peers autotune
"max-autotune", too), on the same weights and frames, each in a process of its own, all in turn within each round.

Prints for every contender the median and best images per second, frames and features staying on the device, and the
most memory; for the engine also its rate from and to host memory with overlapped copies, its ratio to the best peer,
its share of the device's own limit (a large matrix product of that precision in the same rounds) and the least cosine
to timm in fp32, and for each kind of layer how near it comes to the product's and to a copy's rate. The engine counts normalising uint8 frames in, its peers get normalised images.
  tests/benchmarks/vit/run --device cuda [--batch 256] [--rounds 8] [--engine residual=bf16,gelu=1 …]
Each turn is printed as it ends. A contender that does not start fails the run behind the others' figures.
It needs the PyTorch wheel, timm, safetensors and numpy in $PYTHON (python3), and build/tests/vit_gpu_speed built with
CUDA kernels, or the folder that tests/gpu/run unpacked (--build). --device cpu tries the script out.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy
import safetensors.torch
import torch

import models

HERE = pathlib.Path(__file__).resolve().parent
MODELS = [("vit_small_patch16_224", 224), ("vit_small_patch14_reg4_dinov2", 392)]  # the second as RETFound-Green is
GEMM = {"cuda": 8192, "cpu": 512}  # as gpu_peer.py
COPY = {"cuda": 2**30, "cpu": 2**24}
LIMITS = {"matrix product": "gemm", "copy": "copy"}


class Contender:
    def __init__(self, command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.times = []
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{command[0]} did not start")

    def words(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def ask(self, line):
        return [float(word) for word in self.words(line)]

    def features(self, path, width):
        self.ask(f"features {path}")
        return torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).view(-1, width)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(options, name, size, pool, folder):
    """(Name -> contender, names of those that did not start)"""
    files = [folder / "weights.safetensors", folder / "frames.bin"]
    engine = [options.build / "tests/vit_gpu_speed", *files, size, options.batch, pool, options.precision, options.device]
    peer = [sys.executable, HERE / "gpu_peer.py"]
    rest = [name, *files, size, options.batch, options.precision, options.device]
    commands = {"engine": engine} | {f"engine {setting}": [*engine, *setting.split(",")] for setting in options.engine}
    commands |= {f"timm {kind}": [*peer, kind, *rest] for kind in options.peers}
    commands |= {label: [*peer, kind, *rest] for label, kind in LIMITS.items()}
    running, missing = {}, []
    for label, command in commands.items():
        try:
            running[label] = Contender(command)
        except RuntimeError as error:
            missing.append(label)
            print(f"{label}: {error}", file=sys.stderr, flush=True)
    return running, missing


def take_turns(options, running, name, size):
    """Measures all contenders in turn, prints each turn, and keeps it for a run that goes on from here (--state)."""
    kept = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    key = f"{name} {size} {options.batch} {options.precision} {options.device} {options.passes}"
    times = kept.setdefault(key, {})
    for label, contender in running.items():
        contender.ask(f"run {options.passes}")  # warms up: clocks, graphs
        contender.times = times.setdefault(label, [])
    for turn in range(options.rounds):
        labels = list(running)
        for label in labels[turn % len(labels):] + labels[:turn % len(labels)]:
            if len(times[label]) > turn:
                continue
            times[label].append(running[label].ask(f"run {options.passes}")[0])
            print(f"  round {turn + 1}: {label} {options.batch / times[label][-1]:.1f}", flush=True)
            if options.state:
                options.state.write_text(json.dumps(kept))


def compare(options, name, size, folder):
    model = models.build(name, size)
    weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / "weights.safetensors")
    frames = torch.randint(256, (options.batch, size, size, 3), dtype=torch.uint8)
    frames.numpy().tofile(folder / "frames.bin")
    running, missing = start(options, name, size, models.pooling(model), folder)
    take_turns(options, running, name, size)
    print(f"{name} at {size}, batch {options.batch}, {options.precision}, {options.rounds} rounds of {options.passes} "
          f"passes\n{'':30}{'median':>10}{'best':>10}  images/s   tensors    taken MiB")
    rates = {}
    for label, contender in running.items():
        if label in LIMITS:
            continue
        rates[label] = options.batch / statistics.median(contender.times)
        tensors, taken = (count / 2**20 for count in contender.ask("memory"))
        print(f"{label:<30}{rates[label]:>10.1f}{options.batch / min(contender.times):>10.1f}{tensors:>18.0f}{taken:>12.0f}")
    conclude(options, running, rates, model, frames, folder, size)
    tell_layers(options, running)
    for contender in running.values():
        contender.close()
    return missing


def conclude(options, running, rates, model, frames, folder, size):
    few = min(8, options.batch)
    expected = model((frames[:few].permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5)
    peers = {label: rate for label, rate in rates.items() if label.startswith("timm")}
    product = running.get("matrix product")
    for label in (label for label in rates if label.startswith("engine")):
        found = running[label].features(folder / "features.bin", expected.shape[1])[:few]
        cosine = torch.nn.functional.cosine_similarity(found, expected, dim=1).min().item()
        staged = options.batch / running[label].ask(f"stage {options.passes}")[0]
        words = [f"{label}: {staged:.1f} images/s from and to host memory"]
        if peers:
            best = max(peers, key=peers.get)
            words.append(f"{rates[label] / peers[best]:.2f} x {best}")
        if product:
            kind = options.device.split(":")[0]
            limit = 2 * GEMM[kind] ** 3 / statistics.median(product.times)
            words.append(f"{rates[label] * models.flops_per_image(model, size) / limit:.0%} of the matrix product's rate "
                         f"({limit / 1e12:.1f} TFLOP/s)")
        print(", ".join([*words, f"least cosine to timm fp32 {cosine:.6f}"]), flush=True)


def tell_layers(options, running):
    """Each kind of layer of a launched pass, beside the time that the limits' rates would need for it."""
    if not {"engine", *LIMITS} <= set(running):
        return
    kind = options.device.split(":")[0]
    product = 2 * GEMM[kind] ** 3 / statistics.median(running["matrix product"].times)
    copy = 2 * COPY[kind] / statistics.median(running["copy"].times)
    words = running["engine"].words(f"layers {2 * options.passes + 1}")
    print(f"layers of a pass, against {product / 1e12:.1f} TFLOP/s of the matrix product and {copy / 1e9:.0f} GB/s of a copy\n"
          f"{'':20}{'ms':>9}{'TFLOP/s':>10}{'GB/s':>8}  of its limit")
    for i in range(0, len(words), 4):
        seconds, operations, moved = (float(word) for word in words[i + 1:i + 4])
        least = max(operations / product, moved / copy)
        print(f"  {words[i].replace('_', ' '):<18}{1e3 * seconds:>9.3f}{operations / seconds / 1e12:>10.1f}"
              f"{moved / seconds / 1e9:>8.0f}{least / seconds:>12.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", help="timm's name, with --size (default: both models of the CPU benchmark)")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--passes", type=int, default=20, help="per turn")
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--engine", nargs="*", default=["graphs=0", "residual=bf16", "residual=bf16,gelu=1"],
                        help="further settings of the engine to measure; several of one contender by commas")
    parser.add_argument("--peers", nargs="*", default=["eager", "compile"], choices=["eager", "compile", "autotune"])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[2] / "build")
    parser.add_argument("--state", type=pathlib.Path, help="file of the turns so far: the same command goes on from them")
    options = parser.parse_args()
    missing = []
    for name, size in [(options.model, options.size)] if options.model else MODELS:
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
            missing += compare(options, name, size, pathlib.Path(temporary))
    if missing:
        sys.exit(f"did not start, so that nothing is compared with them: {', '.join(missing)}")


if __name__ == "__main__":
    main()
