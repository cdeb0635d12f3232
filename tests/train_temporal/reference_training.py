#!/usr/bin/env python3
"""Trains a run's model again in plain PyTorch, on the same folds, and compares.

    reference_training.py RUN CACHE [--seeds N]

Independent of Coldframe's code: reads the cache through h5py, the parts from RUN/splits.csv, the
labels from RUN/predictions.csv and the settings from RUN/config.json. Prints the AUROC of every
fold, ours and theirs, and the means over folds.
"""
import argparse
import json
import math
import pathlib

import h5py
import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
import training_support  # noqa: F401  (finds examples/)
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from temporal_model import TemporalModel, time_inputs


def read_cache(path):
    """{exam: (features [T, D], time inputs [T, 4])}, present frames only, latest revision."""
    files = sorted(path.glob("*.h5")) if path.is_dir() else [path]
    exams, revisions = {}, {}
    for file in files:
        with h5py.File(file) as h5:
            offset = h5["exams/offset"][:].astype(int)
            present = h5["frames/present"][:].astype(bool)
            times, features = h5["frames/time_s"][:], h5["features/clean"][:]
            for i, name in enumerate(h5["exams/id"][:]):
                if revisions.get(name, -1) >= h5["exams/revision"][i]:
                    continue
                revisions[name] = h5["exams/revision"][i]
                rows = np.arange(offset[i], offset[i + 1])[present[offset[i]:offset[i + 1]]]
                exams[name.decode()] = (torch.from_numpy(features[rows].astype(np.float32)),
                                        time_inputs(times[rows]))
    return exams


def make_batch(exams, names, frames, random=None):
    """Padded features and time inputs, and lengths; `frames` of them drawn in order if asked."""
    features, time = [], []
    for name in names:
        x, t = exams[name]
        if frames and len(x) > frames:
            keep = np.sort(random.choice(len(x), frames, replace=False))
            x, t = x[keep], t[keep]
        features.append(x)
        time.append(t)
    lengths = torch.tensor([len(x) for x in features])
    return pad_sequence(features, True), lengths, pad_sequence(time, True)


def set_statistics(model, exams, names, use_time):
    frames = torch.cat([exams[name][0] for name in names]).double()
    deviation = frames.std(0, unbiased=False)
    model.feature_mean.copy_(frames.mean(0))
    model.feature_std.copy_(deviation.clamp_min(max(0.01 * deviation.mean().item(), 1e-6)))
    if use_time:
        time = torch.cat([exams[name][1] for name in names]).double()
        for column in range(2):
            known = time[time[:, 2 + column] > 0, column]
            deviation = known.std(unbiased=False)
            model.time_mean[column] = known.mean()
            model.time_std[column] = deviation if deviation > 1e-6 else 1.0


def optimizer_of(model, fit, steps):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": fit["weight_decay"]},
              {"params": others, "weight_decay": 0.0}]
    warmup = math.ceil(fit["warmup"] * steps)

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        if fit["schedule"] == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(steps - warmup, 1)))

    optimizer = torch.optim.AdamW(groups, lr=fit["learning_rate"])
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def fit_one(config, exams, label, parts, seed):
    """Probabilities of the positive class for the test part, by the epoch with the best loss."""
    fit, use_time = config["fit"], config["model"]["time"]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = TemporalModel(config["model"])
    with torch.no_grad():
        set_statistics(model, exams, parts["train"], use_time)
    target = {name: torch.tensor([label[n] for n in names]) for name, names in parts.items()}
    steps = math.ceil(len(parts["train"]) / fit["batch"]) * fit["epochs"]
    optimizer, scheduler = optimizer_of(model, fit, steps)

    def logits(names, frames=0):
        features, lengths, time = make_batch(exams, names, frames, random)
        return model(features, lengths, time if use_time else None)

    best, best_epoch, state = math.inf, 0, None
    for epoch in range(fit["epochs"]):
        model.train()
        order = random.permutation(len(parts["train"]))
        for start in range(0, len(order), fit["batch"]):
            chosen = order[start:start + fit["batch"]]
            names = [parts["train"][i] for i in chosen]
            loss = cross_entropy(logits(names, fit["train_frames"]), target["train"][chosen])
            optimizer.zero_grad()
            loss.backward()
            if fit["clip"] > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), fit["clip"])
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            loss = cross_entropy(logits(parts["validation"]), target["validation"]).item()
        if loss < best:
            best, best_epoch = loss, epoch
            state = {name: value.clone() for name, value in model.state_dict().items()}
        if fit["patience"] and epoch - best_epoch >= fit["patience"]:
            break
    model.load_state_dict(state)
    with torch.no_grad():
        return logits(parts["test"]).softmax(1)[:, 1].double().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, help="as many as the run's by default")
    parser.add_argument("--seed", type=int, default=1000, help="of the first fit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = json.loads((options.run / "config.json").read_text())
    if config["name"] != "gru" or len(config["classes"]) != 2 or config["fit"]["class_weights"]:
        parser.error("only binary GRU runs without class weights are trained again")
    ours = pd.read_csv(options.run / "predictions.csv", dtype=str)
    positive = config["classes"][1]
    label = {row.exam: int(row.label == positive) for row in ours.itertuples()}
    exams = read_cache(options.cache)
    splits = pd.read_csv(options.run / "splits.csv", dtype=str)
    scores = []
    for (repeat, fold), rows in splits.groupby(["repeat", "fold"]):
        parts = {part: sorted(group.exam) for part, group in rows.groupby("part")}
        truth = [label[name] for name in parts["test"]]
        seeds = options.seeds or config["seeds"]
        mean = np.mean([fit_one(config, exams, label, parts, options.seed + s)
                        for s in range(seeds)], axis=0)
        held_out = ours[(ours.repeat == repeat) & (ours.fold == fold)].set_index("exam")
        score = held_out.loc[parts["test"], f"p_{positive}"].astype(float)
        scores.append((roc_auc_score(truth, score), roc_auc_score(truth, mean)))
        print(f"repeat {repeat} fold {fold}: coldframe {scores[-1][0]:.4f}, "
              f"pytorch {scores[-1][1]:.4f}", flush=True)
    coldframe, pytorch = np.mean(scores, axis=0)
    print(f"mean over folds: coldframe {coldframe:.4f}, pytorch {pytorch:.4f}, "
          f"difference {coldframe - pytorch:+.4f}")


if __name__ == "__main__":
    main()
