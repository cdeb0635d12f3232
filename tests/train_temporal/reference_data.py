"""A cache through h5py, for PyTorch, and what each model and control sees of an exam."""
from dataclasses import dataclass

import h5py
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


@dataclass
class Exam:
    features: torch.Tensor  # [T, D] present frames
    seconds: np.ndarray     # [T] NaN where unknown
    clock: np.ndarray       # [8] without the kind of source
    kind: str


def clock_values(times, missing, width, height):
    """Computes what clock_descriptor() in train_temporal/data/dataset.h says; one cell a line."""
    steps = np.diff(times)
    steps = steps[np.isfinite(steps)]
    mean = steps.mean() if len(steps) else 0
    return np.array([
        np.log1p(len(times)),
        np.log1p(missing),
        np.log(mean) if mean > 0 else 0,
        steps.std() / mean if mean > 0 else 0,
        np.log1p(max(steps.sum(), 0)),
        np.log1p(width),
        np.log1p(height),
        0 if len(steps) else 1,
    ])


def read_cache(path):
    """{exam: Exam}, the latest revision of each."""
    exams, revisions = {}, {}
    for file in sorted(path.glob("*.h5")) if path.is_dir() else [path]:
        with h5py.File(file) as h5:
            offset = h5["exams/offset"][:].astype(int)
            all_present = h5["frames/present"][:].astype(bool)
            times, features = h5["frames/time_s"][:], h5["features/clean"][:]
            for i, name in enumerate(h5["exams/id"][:]):
                if revisions.get(name, -1) >= h5["exams/revision"][i]:
                    continue
                revisions[name] = h5["exams/revision"][i]
                present = all_present[offset[i]:offset[i + 1]]
                rows = np.arange(offset[i], offset[i + 1])[present]
                clock = clock_values(times[rows], (~present).sum(), h5["exams/width"][i],
                                     h5["exams/height"][i])
                exams[name.decode()] = Exam(torch.from_numpy(features[rows].astype(np.float32)),
                                            times[rows], clock, h5["exams/source_kind"][i].decode())
    return exams


class ClockModel(nn.Module):
    """The control that sees no images: an MLP on length, times, frame size and kind of source."""

    def __init__(self, width, classes, dropout):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))
        self.project, self.head = nn.Linear(width, 32), nn.Linear(32, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, clock):
        return self.head(self.dropout(self.project((clock - self.mean) / self.std).relu()))


class View:
    """Holds what a model is given: padded features, seconds and lengths, or the clock."""

    def __init__(self, exams, order, clock):
        self.exams, self.order, self.clock = exams, order, clock
        self.kinds = sorted({exam.kind for exam in exams.values()})
        self.fixed = {}  # of `shuffled`: one order for each exam, kept for all evaluations of a fit

    def clock_of(self, name):
        exam = self.exams[name]
        return np.append(exam.clock, [float(kind == exam.kind) for kind in self.kinds])

    def frames(self, name, count, random, training):
        """Positions of the features and of the times."""
        total = len(self.exams[name].features)
        keep = np.arange(total)
        if training and 0 < count < total:
            keep = np.sort(random.choice(total, count, replace=False))
        one = {"first": 0, "middle": len(keep) // 2, "last": -1}.get(self.order)
        if one is not None:
            keep = keep[[one]]
        if self.order != "shuffled":
            return keep, keep
        if training:
            return random.permutation(keep), keep
        if name not in self.fixed:
            self.fixed[name] = random.permutation(keep)
        return self.fixed[name], keep

    def batch(self, names, count, random, training):
        """The arguments of the model."""
        if self.clock:
            return (torch.tensor(np.array([self.clock_of(n) for n in names]), dtype=torch.float32),)
        features, seconds = [], []
        for name in names:
            at, when = self.frames(name, count, random, training)
            features.append(self.exams[name].features[at])
            seconds.append(torch.from_numpy(self.exams[name].seconds[when]))
        lengths = torch.tensor([len(x) for x in features])
        return pad_sequence(features, True), pad_sequence(seconds, True), lengths
