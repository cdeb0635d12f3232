#!/usr/bin/env python3
"""Makes frames for a split of MedNet's, so that all of examples/mednet runs without the data set's images.

    examples/mednet/make_frames.py SPLIT.json OUT [--exams N --frames N --classes N --side PX --seed N]

SPLIT.json holds {"train": [{"exam", "label", "frames": [{"file", "elapsed_seconds"}, …]}, …], …}. OUT becomes a folder
with every frame under its own name, and OUT/split.json beside them: the exams and frames that were made. A frame is
gray and shows FA on the left and ICGA on the right, above a banner of 50 pixels. Vessels fill and fade by the elapsed
time, and a spot behind them does what the exam's label says: 0 nothing, 1 it grows and brightens (leakage), 2 it
brightens late (staining), 3 it brightens within a sharp border (pooling), 4 it comes and goes with the vessels (window
defect). It needs numpy and Pillow.

With --exams only so many of each part are made (of `train`; of each other part half as many), in turns of the classes
and with at most --frames frames each, evenly spread; --classes 2 leaves out what is not labelled 0 or 1.
"""
import argparse
import collections
import json
import pathlib
import zlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

BANNER = 50
SPOT = {0: lambda t: (0, 0), 1: lambda t: (1 + min(t / 300, 2), min(t / 400, 1)), 2: lambda t: (1.5, 1 - np.exp(-t / 500)),
        3: lambda t: (1.8, 1 - np.exp(-t / 120)), 4: lambda t: (1.5, filled(t))}  # label: (radius, brightness) by seconds


def filled(seconds):
    """How bright vessels are: dye arrives at 10 s and leaves within minutes."""
    since = max(seconds - 10, 0)
    return (1 - np.exp(-since / 8)) * np.exp(-since / 400)


def vessels_of(random, side):
    """Lines (points, width) that leave the optic disc, each turning a little at every step."""
    lines = []
    for angle in random.uniform(0, 2 * np.pi, 9):
        point, points = np.array([0.3, 0.5]) * side, []
        for _ in range(24):
            points.append(tuple(point))
            point = point + side / 28 * np.array([np.cos(angle), np.sin(angle)])
            angle += random.normal(0, 0.25)
        lines.append((points, max(1, round(side / 80 * random.uniform(0.5, 1.5)))))
    return lines


def half(side, lines, place, label, seconds, random, contrast):
    """One modality, [side, side]."""
    image = Image.new("L", (side, side), 20)
    pen = ImageDraw.Draw(image)
    radius, brightness = SPOT[label](seconds)
    if radius:
        r, (x, y) = radius * side / 16, place
        pen.ellipse([x - r, y - r, x + r, y + r], fill=round(20 + contrast * 180 * brightness))
        if label != 3:
            image = image.filter(ImageFilter.GaussianBlur(side / 40))
            pen = ImageDraw.Draw(image)
    for points, width in lines:
        pen.line(points, fill=round(30 + 200 * contrast * filled(seconds)), width=width)
    pixels = np.asarray(image, np.float32) + random.normal(0, 12, (side, side))
    return pixels.clip(0, 255).astype(np.uint8)


def draw(path, lines, place, label, seconds, side, random):
    frame = np.full((side + BANNER, 2 * side), 255, np.uint8)
    for number, contrast in enumerate((1.0, 0.7)):  # FA, ICGA
        frame[:side, number * side:(number + 1) * side] = half(side, lines, place, label, seconds, random, contrast)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(frame).save(path, quality=90)


def chosen(exams, count, frames):
    """`count` exams, in turns of their labels, with at most so many frames, evenly spread."""
    seen, ranks = collections.Counter(), []
    for exam in exams:
        ranks.append(seen[exam["label"]])
        seen[exam["label"]] += 1
    taken = [exams[i] for i in sorted(range(len(exams)), key=ranks.__getitem__)[:count]]
    for exam in taken:
        n = len(exam["frames"])
        if n > frames:
            exam["frames"] = [exam["frames"][round(i * (n - 1) / max(frames - 1, 1))] for i in range(frames)]
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("split", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--exams", type=int, help="of the training part (default: all)")
    parser.add_argument("--frames", type=int, default=1000, help="of an exam at most")
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--side", type=int, default=224, help="pixels of one modality")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made = {}
    for part, exams in json.loads(options.split.read_text()).items():
        exams = [exam for exam in exams if exam["label"] < options.classes]
        count = len(exams) if options.exams is None else options.exams if part == "train" else max(options.exams // 2, 1)
        made[part] = chosen(exams, count, options.frames)
        for exam in made[part]:
            random = np.random.default_rng([options.seed, zlib.crc32(exam["exam"].encode())])
            lines, place = vessels_of(random, options.side), random.uniform(0.4, 0.8, 2) * options.side
            for frame in exam["frames"]:
                draw(options.out / exam["exam"] / frame["file"], lines, place, exam["label"], frame["elapsed_seconds"],
                     options.side, random)
    (options.out / "split.json").write_text(json.dumps(made))
    print(f"{options.out}: {sum(map(len, made.values()))} exams, "
          f"{sum(len(exam['frames']) for part in made.values() for exam in part)} frames")


if __name__ == "__main__":
    main()
