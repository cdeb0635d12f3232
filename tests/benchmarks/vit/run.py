"""The CPU engine against its peers on the same weights and images, all in turn within each round.

Prints, for every contender, the median of images per second of wall time, the best, and images per second of CPU
time (which other programs on the machine disturb less), then the engine's ratio to the best peer of that precision (of
fp16: of 16 bits) and of any, and its share of the machine's own limit: the quickest large matrix product of that
precision, measured in the same rounds. fp16 takes part on processors with AVX512-FP16.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import safetensors.torch
import torch

import models
import peers
from turns import SpeedProcess, measure, report, timed

MODELS = [("vit_small_patch16_224", 224), ("vit_small_patch14_reg4_dinov2", 392),  # the second as RETFound-Green is
          ("vit_small_patch16_dinov3", 224), ("vit_small_plus_patch16_dinov3", 224), ("vit_base_patch16_224", 224)]
REPO = pathlib.Path(__file__).resolve().parents[3]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="timm's name, with --size (default: one after the other, "
                        + " and ".join(f"{name} at {size}" for name, size in MODELS) + ")")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, nargs="+", default=[16], help="one after the other (default: 16)")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--without", metavar="WORD", nargs="+", default=[], help="leave out peers with such a word in "
                        "their name: the quick check --without compile")
    parser.add_argument("--build", type=pathlib.Path, default=REPO / "build")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, size in [(options.model, options.size)] if options.model else MODELS:
        for batch in options.batch:
            torch.manual_seed(1)
            with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
                compare(options, name, size, batch, pathlib.Path(temporary))


def compare(options, name, size, batch, folder):
    model = models.build(name, size)
    images = torch.randn(batch, 3, size, size)
    safetensors.torch.save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "weights.safetensors")
    images.numpy().tofile(folder / "images.bin")
    has_fp16 = "avx512_fp16" in pathlib.Path("/proc/cpuinfo").read_text()
    precisions = ["fp32", "bf16"] + ["fp16"] * has_fp16
    program = options.build / "tests" / "vit_engine_speed"
    engines = {precision: SpeedProcess(program, folder / "weights.safetensors", folder / "images.bin", size,
                                        batch, models.pooling(model), precision, options.threads)
               for precision in precisions}
    others = peers.all_peers(model, images, options.threads, folder, precisions)
    others = {name: peer for name, peer in others.items() if not any(word in name for word in options.without)}
    gemms, gemm_flops = peers.gemms(precisions)
    contenders = {f"engine {precision}": engine.run for precision, engine in engines.items()}
    contenders |= {name: timed(function) for name, (_, function) in (others | gemms).items()}

    print(f"{name} at {size}, batch {batch}, {options.threads} threads, "
          f"{options.rounds} rounds; load before {os.getloadavg()[0]:.1f}", flush=True)
    times = measure(contenders, options.rounds)
    print(f"load after {os.getloadavg()[0]:.1f}\n{'':22}{'median':>10}{'best':>10}{'per CPU s':>12}")
    rates = {name: report(name, times[name], batch, "images") for name in contenders if name not in gemms}
    limits = {name: report(name, times[name], gemm_flops / 1e9, "GFLOP") for name in gemms}
    kinds = {name: kind for name, (kind, _) in (others | gemms).items()}
    expected = model(images)
    for precision, engine in engines.items():
        found = engine.features(folder / "features.bin").view_as(expected)
        engine.close()
        conclude(precision, rates, limits, kinds, models.flops_per_image(model, size) / 1e9,
                 torch.nn.functional.cosine_similarity(found, expected, dim=1).min().item())


def conclude(precision, rates, limits, kinds, work, cosine):
    rate = rates[f"engine {precision}"]
    rivals = {precision, "bf16"} if precision == "fp16" else {precision}
    peers_of = {name: rates[name] for name in rates if not name.startswith("engine")}
    best_of_all = max(peers_of, key=rates.get)
    best = max((name for name in peers_of if kinds[name] in rivals), key=rates.get, default=best_of_all)
    limit = max(limits[name] for name in limits if kinds[name] == precision)
    print(f"{precision}: {rate / rates[best]:.2f} x the best peer ({best}), {rate / rates[best_of_all]:.2f} x the best "
          f"of any precision ({best_of_all}), {rate * work / limit:.0%} of the GEMM limit, smallest cosine to timm "
          f"fp32 {cosine:.7f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
