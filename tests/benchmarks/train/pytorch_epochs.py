#!/usr/bin/env python3
"""The peer of train_epochs: the same model and epoch in PyTorch.

    pytorch_epochs.py h5|ram CACHE.h5 BATCH FRAMES HIDDEN

h5: the frames come from the cache through h5py and a DataLoader, a batch at a time. ram: all
features lie in one float32 tensor, standardised beforehand. Whatever can be chosen (threads,
workers) is tried on one epoch each and the fastest is kept. Then, as train_epochs, an epoch for
every line of standard input.
"""
import sys
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Model(nn.Module):
    def __init__(self, mean, std, hidden):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.project = nn.Linear(len(mean), hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x, standardise):
        if standardise:
            x = (x - self.mean) / self.std
        states, _ = self.gru(self.dropout(self.project(x)))
        return self.head(self.dropout(states.mean(1)))


class Exams(Dataset):
    """FRAMES of each exam's frames in order, a whole batch at a time; a file handle per worker."""

    def __init__(self, path, frames, labels, offsets):
        self.path, self.frames, self.labels, self.offsets = path, frames, labels, offsets
        self.table, self.random = None, None

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        if self.table is None:
            self.table = h5py.File(self.path, rdcc_nbytes=256 << 20)["features/clean"]
            self.random = np.random.default_rng(torch.initial_seed() % 2**63)
        batch = np.empty((len(indices), self.frames, self.table.shape[1]), self.table.dtype)
        for row, index in enumerate(indices):
            first, end = self.offsets[index], self.offsets[index + 1]
            chosen = np.sort(self.random.choice(end - first, self.frames, replace=False))
            batch[row] = self.table[first:end][chosen]
        return torch.from_numpy(batch), self.labels[indices]


def batches_in_ram(features, labels, batch, frames):
    order = torch.randperm(len(features))
    for part in order.split(batch):
        keep = torch.rand(len(part), features.shape[1]).topk(frames, 1).indices.sort(1).values
        yield features[part[:, None], keep], labels[part]


def train_epoch(model, optimizer, batches, standardise):
    loss_function, total, count = nn.CrossEntropyLoss(), 0.0, 0
    start = time.perf_counter()
    for x, y in batches:
        loss = loss_function(model(x.float(), standardise), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        total, count = total + loss.item() * len(y), count + len(y)
    return time.perf_counter() - start, total / count


def main():
    mode, path, batch, frames, hidden = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    torch.manual_seed(1)
    with h5py.File(path) as file:
        labels = torch.tensor([int(v) for v in file["exams/columns/label"][:]])
        offsets = file["exams/offset"][:].astype(np.int64)
        table = torch.from_numpy(file["features/clean"][:].astype(np.float32))
    mean, std = table.mean(0), table.std(0, unbiased=False)
    model = Model(mean, std, hidden).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    if mode == "ram":
        features = ((table - mean) / std).view(len(labels), -1, table.shape[1])
        choices = [(threads, 0) for threads in (1, 2)]
    else:
        del table
        data = Exams(path, frames, labels, offsets)
        choices = [(threads, workers) for threads in (1, 2) for workers in (0, 1, 2)]
    loaders = {}

    def epoch(threads, workers):
        torch.set_num_threads(threads)
        if mode == "ram":
            return train_epoch(model, optimizer, batches_in_ram(features, labels, batch, frames),
                               False)
        if workers not in loaders:
            loaders[workers] = DataLoader(data, batch, shuffle=True, collate_fn=lambda b: b,
                                          num_workers=workers, persistent_workers=workers > 0)
            next(iter(loaders[workers]))
        return train_epoch(model, optimizer, loaders[workers], True)

    best = min(choices, key=lambda choice: epoch(*choice)[0])
    for workers in [w for w in loaders if w != best[1]]:
        del loaders[workers]
    print(*best, flush=True)
    for _ in sys.stdin:
        print(*epoch(*best), flush=True)


if __name__ == "__main__":
    main()
