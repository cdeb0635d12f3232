"""Made clips whose label lies in motion alone: speckle that drifts to the left or to the right.

Each exam has a texture of its own, on a torus, which drifts at a speed of its own. Any one frame, and any set of frames
without their order, is as likely with one label as with the other: played backwards, an exam of one label is one of the
other."""

import csv

import numpy as np

SIDE, FRAMES = 64, 32
PARTS = {"train": 0.6, "val": 0.2, "test": 0.2}  # of the exams


def clip_of(random, to_the_right, noise):
    """[FRAMES, SIDE, SIDE] uint8."""
    size = 2 * SIDE
    frequency = np.fft.fftfreq(size)
    distance = np.hypot(*np.meshgrid(frequency, frequency))
    speckle = np.exp(-(((distance - random.uniform(0.08, 0.14)) / 0.04) ** 2))
    texture = np.fft.fft2(random.normal(size=(size, size))) * speckle
    contrast = 45 * random.uniform(0.7, 1.1) / np.fft.ifft2(texture).real.std()
    speed = random.uniform(0.3, 2.5) * (1 if to_the_right else -1)  # pixels a frame
    turns = np.exp(-2j * np.pi * frequency * speed * np.arange(FRAMES)[:, None])
    frames = np.fft.ifft2(texture * turns[:, None]).real[:, :SIDE, :SIDE]
    return np.clip(110 + contrast * frames + random.normal(0, noise, frames.shape), 0, 255).astype(np.uint8)


def write_clips(folder, exams, noise, seed=0):
    """A file for each exam, and the manifest, whose path is returned."""
    random, rows = np.random.default_rng(seed), []
    for part, share in PARTS.items():
        for number in range(round(share * exams)):
            exam = f"{part}{number}"
            np.save(folder / f"{exam}.npy", clip_of(random, number % 2, noise))
            rows.append((exam, f"{exam}.npy", exam, number % 2, part))
    with open(folder / "exams.csv", "w", newline="") as file:
        csv.writer(file).writerows([("exam", "path", "patient", "label", "split"), *rows])
    return folder / "exams.csv"
