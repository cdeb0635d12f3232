"""The jobs: each starts a program and returns what it has written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from coldframe.cache import Cache
from coldframe.programs import Option, Place, run
from coldframe.run import Run
from coldframe.tables import write_csv

Caches = Cache | Place | Mapping[str, Cache | Place]  #: one, or several streams by name


def extract(input: Place, out: Place, *, progress: bool = True, **options: Option) -> Cache:
    """Runs a frozen ViT over all frames of `input` and returns the cache `out`; a second call extracts what is missing.

    `input` is a folder, a file or a CSV manifest with the columns exam and path. Options are those of `coldframe extract`
    (`weights="vit.safetensors"`, `preset="dino-vits16"`, `image_size=224`, `mean=[0.5]`, `allow_unordered=True`): texts as
    on the command line, True for a switch. Exams that cannot be read are in `Cache.failures`. UsageError, JobError or
    Stopped with the program's message.
    """
    run("extract", options={"input": input, "out": out, **options}, progress=progress)
    return Cache(out)


def train(cache: Caches, out: Place, *, target: str, progress: bool = True, **options: Option) -> Run:
    """Trains a temporal model on a cache (or several, as {stream: cache}) and returns the run `out`.

    Options are those of `coldframe train` (`folds=5`, `compare=["single", "mean"]`, `labels="labels.csv"`, `resume=True`).
    UsageError, JobError or Stopped with the program's message.
    """
    run("train", options={"cache": _caches(cache), "out": out, "target": target, **options}, progress=progress)
    return Run(out)


def evaluate(model: Any, out: Place, *, cache: Caches | None = None, progress: bool = True, **options: Option) -> Run:
    """Measures a Run or a Bundle on other labelled exams and returns the evaluation in the folder `out`.

    The exams are those of `cache` or, for a Bundle, of `input`, as `extract` takes it. Options are those of
    `coldframe evaluate`. UsageError, JobError or Stopped with the program's message.
    """
    from coldframe.bundle import Bundle

    kind = "bundle" if isinstance(model, Bundle) else "run"
    exams = {} if cache is None else {"cache": _caches(cache)}
    run("evaluate", options={kind: getattr(model, "path", model), **exams, "out": out, **options}, progress=progress)
    return Run(out)


def import_features(
    features: Mapping[str, NDArray[Any]],
    out: Place,
    *,
    describe: str,
    columns: pd.DataFrame | None = None,
    store: str | None = None,
) -> Cache:
    """Makes a cache of features of another program: arrays [T, D] by exam, in the order of their frames.

    `describe` says how they were made: caches of one text count as comparable. `columns` has a row for each exam, by its
    id: patient, labels and whatever else is known. `store` is float16 or float32; None is float16 where that changes no
    value, else float32. ValueError for no features, or arrays of another shape; KeyError for an
    exam without a row; UsageError or JobError with the program's message.
    """
    widths = {array.shape[1] if array.ndim == 2 else -1 for array in features.values()}
    if len(widths) != 1 or -1 in widths:
        raise ValueError(
            f"expected an array [T, D] for each exam, all of one D, but the widths are {sorted(widths)} (-1: not [T, D])"
        )
    ids = [exam for exam, array in features.items() for _ in range(len(array))]
    table = pd.DataFrame({"exam": ids, "frame": [frame for array in features.values() for frame in range(len(array))]})
    if columns is not None:
        missing = sorted(set(ids) - set(columns.index.astype(str)))
        if missing:
            raise KeyError(f"no row in `columns` for the exam '{missing[0]}' and {len(missing) - 1} more")
        known = columns.set_axis(columns.index.astype(str)).loc[ids].reset_index(drop=True)
        table = pd.concat([table, known.drop(columns=table.columns, errors="ignore")], axis=1)
    with tempfile.TemporaryDirectory(prefix="coldframe-") as folder:
        rows = np.concatenate(list(features.values())).astype(np.float32)
        array, told = Path(folder, "features.npy"), Path(folder, "exams.csv")
        np.save(array, rows)
        write_csv(table, told)
        made_of: dict[str, Option] = {"describe": describe, "store": store or _type_without_loss(rows)}
        run("cache", "import", out, array, told, options=made_of, progress=False)
    return Cache(out)


def _type_without_loss(rows: NDArray[np.float32]) -> str:
    with np.errstate(over="ignore"):
        return "float16" if np.array_equal(rows.astype(np.float16), rows, equal_nan=True) else "float32"


def make_exams(out: Place, *, exams: int = 160, **options: Option) -> Path:
    """Makes exams to try Coldframe with, contrast that passes a vascular bed, and returns their manifest `out`/exams.csv.

    Options are those of `coldframe-make-exams`: frames, size (pixels of a frame's side), seed.
    """
    run(options={"out": out, "exams": exams, **options}, progress=False, program="coldframe-make-exams")
    return Path(out, "exams.csv")


def _caches(cache: Caches) -> str:
    if isinstance(cache, Mapping):
        return ",".join(f"{name}={_caches(each)}" for name, each in cache.items())
    return os.fspath(cache.path if isinstance(cache, Cache) else cache)
