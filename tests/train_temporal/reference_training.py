#!/usr/bin/env python3
"""Trains a run's models again in plain PyTorch, on the same folds, and compares, pair by pair.

    reference_training.py RUN CACHE [--target COLUMN [-- more words for train]] [--seeds N]

RUN is a binary run of `coldframe train`; where it does not exist it is trained first (--target). Every
model of it, the controls among them, is fitted again: on the parts of RUN/splits.csv, with the labels
of RUN/predictions.csv and the settings of RUN/config.json. As in Coldframe the probabilities of a
fold's fits are averaged, each at the temperature that its validation part wants. Prints for each model
the AUROC of both, mean over folds, and the paired difference; exit code 1 when one is beyond --within.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import pandas as pd
import torch
from reference_data import ClockModel, View, read_cache
from safetensors import safe_open
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy
from training_support import coldframe  # (finds the package)

from coldframe.models import TemporalModel, time_inputs


def view_and_model(name, settings, exams):
    """Returns what the model `name` sees, and the model without its statistics."""
    view = View(exams, settings["frame_order"], name == "clock")
    if name == "clock":
        width = len(view.clock_of(next(iter(exams))))
        return view, ClockModel(width, settings["classes"], settings["dropout"])
    return view, TemporalModel.build({"model": settings})


@torch.no_grad()
def set_statistics(model, view, names):
    def spread(column):
        deviation = column.std(unbiased=False)
        return deviation if deviation > 1e-6 else torch.tensor(1.0)

    if view.clock:
        clock = torch.tensor(np.array([view.clock_of(name) for name in names]))
        model.mean.copy_(clock.mean(0))
        model.std.copy_(torch.stack([spread(column) for column in clock.T]))
        return
    frames = torch.cat([view.exams[name].features for name in names]).double()
    deviation = frames.std(0, unbiased=False)
    model.feature_mean.copy_(frames.mean(0))
    model.feature_std.copy_(deviation.clamp_min(max(0.01 * deviation.mean().item(), 1e-6)))
    if hasattr(model, "time_mean"):
        inputs = [time_inputs(torch.from_numpy(view.exams[name].seconds)[None]) for name in names]
        time, is_known = (torch.cat([part[0] for part in parts]) for parts in zip(*inputs))
        for column in range(2):
            known = time[is_known[:, column] > 0, column]
            model.time_mean[column], model.time_std[column] = known.mean(), spread(known)


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


def temperature(logits, target):
    """Finds the one of lowest log loss within [0.05, 20] (Guo et al. 2017), by a grid made finer twice."""
    if len(set(target.tolist())) < 2:
        return 1.0
    low, high = math.log(0.05), math.log(20)
    for _ in range(3):
        grid = np.linspace(low, high, 61)
        losses = [cross_entropy(logits.double() / math.exp(t), target).item() for t in grid]
        best = int(np.argmin(losses))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 60)]
    return math.exp(grid[best])


def with_noise(batch, model, deviation):
    """Adds noise of this deviation to the standardised inputs, which the model makes of raw ones."""
    spread = model.feature_std if hasattr(model, "feature_std") else model.std
    return (batch[0] + deviation * spread * torch.randn_like(batch[0]), *batch[1:])


def fit_one(name, settings, config, exams, label, parts, seed):
    """The best epoch's validation loss, and its probabilities [n, classes] for the test part."""
    fit = config["fit"]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    view, model = view_and_model(name, settings, exams)
    set_statistics(model, view, parts["train"])
    target = {part: torch.tensor([label[n] for n in names]) for part, names in parts.items()}
    steps = math.ceil(len(parts["train"]) / fit["batch"]) * fit["epochs"]
    optimizer, scheduler = optimizer_of(model, fit, steps)
    held_out = {part: view.batch(parts[part], 0, random, False) for part in ["validation", "test"]}

    best, best_epoch, state = math.inf, 0, None
    for epoch in range(fit["epochs"]):
        model.train()
        order = random.permutation(len(parts["train"]))
        for start in range(0, len(order), fit["batch"]):
            chosen = order[start:start + fit["batch"]]
            names = [parts["train"][i] for i in chosen]
            batch = view.batch(names, fit["train_frames"], random, True)
            if fit["noise"] > 0:
                batch = with_noise(batch, model, fit["noise"])
            loss = cross_entropy(model(*batch), target["train"][chosen], label_smoothing=fit["label_smoothing"])
            optimizer.zero_grad()
            loss.backward()
            if fit["clip"] > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), fit["clip"])
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            loss = cross_entropy(model(*held_out["validation"]), target["validation"]).item()
        if loss < best:
            best, best_epoch = loss, epoch
            state = {key: value.clone() for key, value in model.state_dict().items()}
        if fit["patience"] and epoch - best_epoch >= fit["patience"]:
            break
    model.load_state_dict(state)
    with torch.no_grad():
        learnt = temperature(model(*held_out["validation"]), target["validation"])
        return best, (model(*held_out["test"]) / learnt).softmax(1).double().numpy()


def compare(name, run, config, exams, seeds, first_seed):
    """[folds, 2]: AUROC of Coldframe and of PyTorch in each fold."""
    file = "predictions.csv" if name == config["name"] else f"predictions-{name}.csv"
    ours, splits = (pd.read_csv(run / f, dtype=str) for f in (file, "splits.csv"))
    models = run / ("models" if name == config["name"] else f"controls/{name}")
    with safe_open(min(models.glob("*.safetensors")), "pt") as model:
        settings = json.loads(model.metadata()["card"])["model"]
    positive = config["targets"][0]["classes"][1]
    label = {row.exam: int(row.label == positive) for row in ours.itertuples()}
    scores = []
    for (repeat, fold), rows in splits.groupby(["repeat", "fold"]):
        parts = {part: sorted(group.exam) for part, group in rows.groupby("part")}
        truth = [label[exam] for exam in parts["test"]]
        if len(set(truth)) < 2:
            continue  # no AUROC; Coldframe leaves such a fold out of its mean, too
        mean = np.mean([fit_one(name, settings, config, exams, label, parts, first_seed + s)[1][:, 1]
                        for s in range(seeds)], axis=0)
        held_out = ours[(ours.repeat == repeat) & (ours.fold == fold)].set_index("exam")
        score = held_out.loc[parts["test"], f"p_{positive}"].astype(float)
        scores.append((roc_auc_score(truth, score), roc_auc_score(truth, mean)))
    return np.array(scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--target", help="train RUN first, where it does not exist")
    parser.add_argument("--models", nargs="+", help="all of the run by default")
    parser.add_argument("--seeds", type=int, help="as many as the run's by default")
    parser.add_argument("--seed", type=int, default=1000, help="of the first fit")
    parser.add_argument("--within", type=float, default=0.02)
    words = sys.argv[1:]
    more = words[words.index("--") + 1:] if "--" in words else []
    options = parser.parse_args(words[:len(words) - len(more) - bool("--" in words)])
    torch.set_num_threads(1)
    if options.target and not options.run.exists():
        done = coldframe("train", "--cache", options.cache, "--target", options.target, "--out",
                         options.run, *more)
        if done.returncode != 0:
            sys.exit(done.stderr)
    config = json.loads((options.run / "config.json").read_text())
    target = config["targets"][0]
    if (len(config["targets"]) > 1 or target["task"] != "binary" or target["per_frame"]
            or config["fit"]["class_weights"] or config["fit"]["loss"] != "auto"
            or config["fit"]["sampler"] != "order" or config["fit"]["mixup"] or config["search"] or config["model"].get("elapsed")
            or config["fit"]["early_stopping_metric"] != "loss" or config.get("single_frame") == "best"):
        parser.error("only plain binary runs are trained again")
    exams, fine = read_cache(options.cache), True
    print(f"{'model':10} {'coldframe':>9} {'pytorch':>9}  difference, its standard error over folds")
    for name in options.models or [config["name"], *config["compare"]]:
        scores = compare(name, options.run, config, exams, options.seeds or config["seeds"],
                         options.seed)
        difference = scores[:, 0] - scores[:, 1]
        mean, error = difference.mean(), difference.std(ddof=1) / math.sqrt(len(difference))
        fine &= abs(mean) <= options.within
        print(f"{name:10} {scores[:, 0].mean():9.4f} {scores[:, 1].mean():9.4f}  {mean:+.4f} ± {error:.4f}"
              f"{'' if abs(mean) <= options.within else '  beyond ' + str(options.within)}", flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
