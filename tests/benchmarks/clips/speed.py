"""Encoders of clips on the CPU: Coldframe's engine beside transformers, eager and by torch.compile with freezing, on the
same random weights and clips, each in a process of its own, all in turn within each round.

Prints, for every contender, the median of clips per second of wall time, the best, clips per second of CPU time (which
other programs on the machine disturb less), and the peak memory of its process, weights and libraries included; then the
engine's ratio to the best peer of its precision and of any, and its memory over that of eager.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import torch
import transformers

REPO = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPO / "tests/benchmarks/vit"))
from turns import SpeedProcess, measure, report  # noqa: E402

# VideoMAE-S has the heads of its authors.
SHAPES = {"S": (384, 6, 12), "B": (768, 12, 12), "L": (1024, 16, 24)}
MODELS = ["videomae-S", "videomae-B", "vjepa2-L"]


def save_encoder(name, folder):
    """Returns the frames and the side of its clips."""
    torch.manual_seed(0)
    family, size = name.split("-")
    width, heads, depth = SHAPES[size]
    shape = {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": depth}
    if family == "vjepa2":  # nobody runs its predictor
        config = transformers.VJEPA2Config(**shape, mlp_ratio=4, crop_size=256, frames_per_clip=16, pred_num_hidden_layers=1)
        transformers.VJEPA2Model(config).save_pretrained(folder)
        return 16, 256
    config = transformers.VideoMAEConfig(**shape, intermediate_size=4 * width, use_mean_pooling=False)
    transformers.VideoMAEModel(config).save_pretrained(folder)
    return 16, 224


def compare(name, options, folder):
    frames, side = save_encoder(name, folder / "encoder")
    clips, batch, threads = folder / "clips.bin", options.batch, options.threads
    torch.randn(batch, frames, 3, side, side).numpy().tofile(clips)
    processes = {}
    for precision in options.precisions:
        processes[f"engine {precision}"] = SpeedProcess(
            options.build / "tests/vit_engine_speed", folder / "encoder", clips, side, batch, "mean", precision, threads,
            OMP_WAIT_POLICY="passive")  # as `coldframe` waits
        for kind in options.peers:
            processes[f"{kind} {precision}"] = SpeedProcess(
                sys.executable, pathlib.Path(__file__).with_name("peer.py"), folder / "encoder", clips, batch, kind, precision, threads)
    print(f"{name}, clips of {frames} × {side}², batch {batch}, {threads} threads, torch {torch.__version__}, transformers "
          f"{transformers.__version__}, {options.rounds} rounds; load before {os.getloadavg()[0]:.1f}", flush=True)
    times = measure({contender: process.run for contender, process in processes.items()}, options.rounds)
    print(f"load after {os.getloadavg()[0]:.1f}\n{'':22}{'median':>10}{'best':>10}{'per CPU s':>12}")
    rates, memory = {}, {}
    for contender, process in processes.items():
        memory[contender] = process.peak_memory() / 2**20
        rates[contender] = report(contender, times[contender], batch, f"clips, {memory[contender]:.0f} MiB", digits=3)
    conclude(options.precisions, rates, memory, {name: process.features(folder / "features.bin") for name, process in processes.items()})
    for process in processes.values():
        process.close()


def conclude(precisions, rates, memory, features):
    peers = [name for name in rates if not name.startswith("engine")]
    if not peers:
        return
    best_of_all = max(peers, key=rates.get)
    for precision in precisions:
        engine = f"engine {precision}"
        best = max((name for name in peers if name.endswith(precision)), key=rates.get)
        said = f"{precision}: {rates[engine] / rates[best]:.2f} x the best peer ({best}), {rates[engine] / rates[best_of_all]:.2f} x the best of any precision"
        if (eager := f"eager {precision}") in memory:
            said += f", {memory[engine] / memory[eager]:.2f} x the memory of eager"
        cosine = torch.nn.functional.cosine_similarity(features[engine], features[peers[0]], dim=0).item()
        print(f"{said}, cosine to {peers[0]} {cosine:.7f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, help=f"videomae or vjepa2, and S, B or L (default: {' '.join(MODELS)})")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--peers", nargs="*", default=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=REPO / "build")
    options = parser.parse_args()
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
