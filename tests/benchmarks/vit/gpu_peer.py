"""timm's model on a GPU as a user runs it, one line in, one line out, as vit_gpu_speed does.

  gpu_peer.py KIND MODEL WEIGHTS FRAMES SIZE BATCH PRECISION DEVICE
KIND is eager, compile (torch.compile, mode="reduce-overhead", which records CUDA graphs), autotune ("max-autotune",
which tries kernels for minutes first), gemm (large matrix products) or copy (a large tensor onto another): the limits. Frames are normalised beforehand and lie on the device, so that its figure has the model alone.
"""

import sys
import time

import numpy
import safetensors.torch
import timm
import torch

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MODES = {"compile": "reduce-overhead", "autotune": "max-autotune"}
GEMM = {"cuda": 8192, "cpu": 512}
COPY = {"cuda": 2**30, "cpu": 2**24}  # bytes, read and written


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def product(size, dtype, device):
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty(size, size, device=device, dtype=dtype)
    return lambda: torch.mm(left, right, out=out)


def copy(count, device):
    source = torch.zeros(count, dtype=torch.uint8, device=device)
    out = torch.empty_like(source)
    return lambda: out.copy_(source)


def forward(kind, name, weights, frames, size, batch, dtype, device):
    model = timm.create_model(name, num_classes=0, img_size=size).eval()
    model.load_state_dict(safetensors.torch.load_file(weights))
    model = model.to(device, dtype)
    pixels = torch.from_numpy(numpy.fromfile(frames, dtype=numpy.uint8)).view(batch, size, size, 3)
    images = ((pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5).to(device, dtype).contiguous()
    if kind in MODES:
        model = torch.compile(model, mode=MODES[kind] if device.type == "cuda" else "default")
    return lambda: model(images)


def main():
    kind, name, weights, frames, size, batch, precision, device = sys.argv[1:]
    device, dtype = torch.device(device), TYPES[precision]
    if kind == "gemm":
        work = product(GEMM[device.type], dtype, device)
    elif kind == "copy":
        work = copy(COPY[device.type], device)
    else:
        work = forward(kind, name, weights, frames, int(size), int(batch), dtype, device)
    for _ in range(4):
        work()
    wait(device)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, word = (line.split() + [""])[:2]
        if verb == "run":
            started = time.perf_counter()
            for _ in range(int(word)):
                work()
            wait(device)
            print((time.perf_counter() - started) / int(word), flush=True)
        elif verb == "memory":
            cuda = device.type == "cuda"
            print(torch.cuda.max_memory_allocated(device) if cuda else 0,
                  torch.cuda.max_memory_reserved(device) if cuda else 0, flush=True)
        elif verb == "features":
            features = work().float().cpu().numpy()
            features.tofile(word)
            print(*features.shape, flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
