"""The Python pipeline that extraction is compared with: what a competent user of timm writes.

DataLoader workers decode and preprocess (OpenCV for clips, Pillow for images, torchvision's transforms), one
process batches frames across exams and runs timm's ViT in bf16 or fp32, h5py stores float16 features per exam.
  peer.py MANIFEST WEIGHTS OUT.h5 [--frames N] [--workers N] [--batch N] [--precision bf16|fp32|compile] [--device cuda]
With compile, whole batches go through torch.compile(mode="max-autotune") in bf16, compiled before the clock starts.
"""
import argparse
import csv
import time
from pathlib import Path

import cv2
import h5py
import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision import transforms

VIDEO = {".mp4", ".mov", ".avi", ".mpg", ".mpeg", ".gif"}


def evenly(available, wanted):
    if not wanted or available <= wanted:
        return list(range(available))
    return [round(i * (available - 1) / (wanted - 1)) for i in range(wanted)]


def read_clip(path, wanted):
    """One pass: the container's frame count decides which frames are retrieved."""
    capture = cv2.VideoCapture(str(path))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    frames, at = [], -1
    for index in evenly(max(count, 1), wanted):
        while at < index and capture.grab():
            at += 1
        if at == index:
            frames.append(Image.fromarray(cv2.cvtColor(capture.retrieve()[1], cv2.COLOR_BGR2RGB)))
    return frames


class Exams(torch.utils.data.Dataset):
    def __init__(self, manifest, wanted):
        self.wanted, self.exams = wanted, {}
        for row in csv.DictReader(open(manifest)):
            self.exams.setdefault(row["exam"], []).append(Path(manifest).parent / row["path"])
        self.ids = list(self.exams)
        self.transform = transforms.Compose([
            transforms.Resize(224, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.5,) * 3),
        ])

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        frames = []
        for path in self.exams[self.ids[i]]:
            if path.suffix.lower() in VIDEO:
                frames += read_clip(path, self.wanted)
            else:
                frames.append(Image.open(path).convert("RGB"))
        return i, torch.stack([self.transform(frame) for frame in frames])


def start_worker(_):
    torch.set_num_threads(1)
    cv2.setNumThreads(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest")
    parser.add_argument("weights")
    parser.add_argument("out")
    parser.add_argument("--frames", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    started = time.perf_counter()
    device = args.device
    model = timm.create_model("vit_small_patch16_224", num_classes=0)
    model.load_state_dict(load_file(args.weights))
    dtype = torch.float32 if args.precision == "fp32" else torch.bfloat16
    model = model.eval().to(device, dtype)
    whole = model
    if args.precision == "compile":
        whole = torch.compile(model, mode="max-autotune" if device.startswith("cuda") else "default")
        with torch.inference_mode():
            for _ in range(4):
                whole(torch.zeros(args.batch, 3, 224, 224, device=device, dtype=dtype))
        started = time.perf_counter()
    exams = Exams(args.manifest, args.frames)
    loader = torch.utils.data.DataLoader(exams, batch_size=None, num_workers=args.workers, prefetch_factor=4,
                                         worker_init_fn=start_worker)
    waiting, owners, done, frames = [], [], {}, 0

    def compute(count, out):
        """The first `count` waiting frames; an exam whose last frame is done is written."""
        nonlocal waiting, owners
        pixels = torch.cat(waiting)
        compute_one = whole if count == args.batch else model
        features = compute_one(pixels[:count].to(device, dtype)).float().cpu().numpy()
        waiting = [pixels[count:]] if len(pixels) > count else []
        for (exam, last), feature in zip(owners[:count], features):
            done.setdefault(exam, []).append(feature)
            if last:
                out.create_dataset(exams.ids[exam], data=np.stack(done.pop(exam)).astype(np.float16))
        owners = owners[count:]

    with torch.inference_mode(), h5py.File(args.out, "w") as out:
        for exam, pixels in loader:
            frames += len(pixels)
            waiting.append(pixels)
            owners += [(exam, i + 1 == len(pixels)) for i in range(len(pixels))]
            while len(owners) >= args.batch:
                compute(args.batch, out)
        if owners:
            compute(len(owners), out)
    print(f"{frames} frames {time.perf_counter() - started:.3f} s")


if __name__ == "__main__":
    main()
