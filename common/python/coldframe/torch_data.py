"""A cache as a PyTorch dataset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from coldframe.cache import Cache

Item = tuple[torch.Tensor, torch.Tensor, torch.Tensor, float | int]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class ExamDataset(Dataset[Item]):
    """Exams with a target: (features float32 [T, D], time_s float64 [T], present bool [T], target).

    A missing frame has features of 0 and present = False. Exams without a target are left out. A target of text is its
    number in `classes`, which are sorted; for one of numbers `classes` is None. KeyError for an unknown column or view.

        loader = torch.utils.data.DataLoader(ExamDataset(cache, "label"), batch_size=16, num_workers=4, collate_fn=collate)
    """

    def __init__(self, cache: Cache, target: str, view: str = "clean") -> None:
        if target not in cache.exams:
            raise KeyError(f"{cache.path} has no column '{target}'; its columns are {', '.join(map(str, cache.exams))}")
        if view not in cache.views:
            raise KeyError(f"{cache.path} has no view '{view}'; its views are {', '.join(cache.views)}")
        column = cache.exams[target]
        self.cache, self.view, self.target = cache, view, target
        self.rows: NDArray[np.int64] = np.flatnonzero(column.notna() & (column != ""))  #: of the exams, in cache.exams
        self.classes: list[str] | None = None
        self.targets: NDArray[np.generic] = column.to_numpy()[self.rows]
        if not pd.api.types.is_numeric_dtype(column):
            names, self.targets = np.unique(self.targets.astype(str), return_inverse=True)
            self.classes = [str(name) for name in names]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> Item:
        row = int(self.rows[item])
        features = np.nan_to_num(self.cache.features(row, self.view))
        times, present = self.cache.times(row), self.cache.present(row)
        target: float | int = self.targets[item].item()
        return torch.from_numpy(features), torch.from_numpy(times), torch.from_numpy(present), target


def collate(exams: Sequence[Item]) -> Batch:
    """Pads a batch to its longest exam: features [B, T, D], time_s [B, T], present [B, T], targets [B].

    Padding has present = False, as a missing frame has.
    """
    features, times, present, targets = zip(*exams, strict=True)

    def padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        return pad_sequence(list(parts), batch_first=True)

    return padded(features), padded(times), padded(present), torch.tensor(targets)
