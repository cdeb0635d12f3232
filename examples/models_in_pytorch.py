#!/usr/bin/env python3
"""A run's model is a torch.nn.Module, so that the rest is PyTorch's: ONNX, torch.compile, captum, TensorBoard.

    models_in_pytorch.py RUN CACHE OUT    # OUT/fold-0.onnx, OUT/contributions.csv, OUT/tensorboard

It needs the package coldframe, and each function what it imports. RUN has one target with classes, without covariates.
"""
import pathlib
import sys

import pandas as pd
import torch

import coldframe


def batch_of(cache, target, exams=16):
    """The first exams that have the target: features [B, T, D], times [B, T] in seconds, lengths [B]."""
    data = coldframe.ExamDataset(cache, target)
    features, times, present, _ = coldframe.collate([data[i] for i in range(min(exams, len(data)))])
    return coldframe.drop_missing(features, times, present)


def export_onnx(model, batch, file):
    """Any number of exams, padded to as many frames as the batch has; needs onnx and onnxscript."""
    exams = torch.export.Dim("exams")
    exported = torch.onnx.export(model, batch, dynamo=True, dynamic_shapes=[{0: exams}] * 3, verbose=False)
    exported.save(file)


def compiled(model):
    """Faster from the second batch of a shape on; a GRU is unrolled, so that exams of many frames take long to compile."""
    return torch.compile(model)


def contributions(model, batch, target, of_class):
    """What each frame adds to the probability of a class, [B, T], as `predict --explain` has it; needs captum."""
    from captum.attr import IntegratedGradients

    features, *known = batch
    probability = lambda x, *known: model.predictions(model(x, *known))[target][:, of_class]  # noqa: E731
    gradients = IntegratedGradients(probability)
    return gradients.attribute(features, model.feature_mean.expand_as(features), additional_forward_args=tuple(known)).sum(-1)


def to_tensorboard(run, folder):
    """Losses and validation figure of every epoch, a run of TensorBoard for each fit; needs tensorboard."""
    from torch.utils.tensorboard import SummaryWriter

    for fit, epochs in run.epochs.groupby(["model", "repeat", "fold", "seed"]):
        with SummaryWriter(str(pathlib.Path(folder, "-".join(map(str, fit))))) as writer:
            for epoch in epochs.to_dict("records"):
                writer.add_scalars("loss", {part: epoch[f"{part}_loss"] for part in ("train", "validation")}, epoch["epoch"])
                writer.add_scalar("validation_figure", epoch["validation_figure"], epoch["epoch"])


def main(run, cache, out):
    run, cache, out = coldframe.Run(run), coldframe.open(cache), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    model = run.model(fold=0)
    target = model.card["targets"][0]["name"]
    batch = batch_of(cache, target)
    export_onnx(model, batch, out / "fold-0.onnx")
    with torch.no_grad():
        print(model.predictions(compiled(model)(*batch))[target])
    pd.DataFrame(contributions(model, batch, target, of_class=1).numpy()).to_csv(out / "contributions.csv", index=False)
    to_tensorboard(run, out / "tensorboard")


if __name__ == "__main__":
    main(*sys.argv[1:])
