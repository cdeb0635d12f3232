"""Caches in the layouts of other programs, and theirs as caches.

    to_anndata(cache)                to_trident(cache, folder)    to_stamp(cache, folder)    to_eva(cache, folder, target="label")
    from_anndata(adata, "x.h5", …)   from_trident(folder, …)      from_stamp(folder, …)      from_eva(folder, …)
    to_parquet(cache, "x.parquet")   from_parquet("x.parquet", "y.h5", …)

Those of whole-slide images take an exam for a slide and a frame for a tile, at the place (its number in the exam, 0).
Missing frames are left out. A folder that is there is refused (FileExistsError), and so are exams whose ids cannot be
names of files (ValueError). A from function takes `describe`, `columns` and `store` as import_features() does, and has its
errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from coldframe.cache import Cache
from coldframe.commands import import_features
from coldframe.programs import Place
from coldframe.publish import whole_file, whole_folder

if TYPE_CHECKING:
    import anndata

_OWN = ["ordinal", "revision", "start_time", "elapsed_start"]  # columns of Cache.exams that the cache itself makes


def to_anndata(cache: Cache, view: str = "clean") -> anndata.AnnData:
    """An AnnData whose observations are the present frames: X float32 [F, D], obs with exam, time_s and all columns.

    `uns["coldframe"]` has the recipe. Needs the package anndata.
    """
    import anndata

    table = cache.table(view)
    table = table[table["present"]].reset_index(drop=True)
    names = [f"f{d}" for d in range(cache.dimension)]
    obs = table.drop(columns=names)
    texts = [name for name in obs if not pd.api.types.is_numeric_dtype(obs[name])]
    obs = obs.astype(dict.fromkeys(texts, object))  # releases of anndata differ in which other texts they can write
    numbers = obs.groupby("exam").cumcount()
    obs.index = pd.Index([f"{exam}-{number}" for exam, number in zip(obs["exam"], numbers, strict=True)], dtype=object)
    var = pd.DataFrame(index=pd.Index(names, dtype=object))
    return anndata.AnnData(table[names].to_numpy(np.float32), obs, var, {"coldframe": json.dumps(cache.recipe)})


def from_anndata(
    adata: anndata.AnnData,
    out: Place,
    *,
    describe: str,
    exam: str = "exam",
    columns: pd.DataFrame | None = None,
    store: str | None = None,
) -> Cache:
    """A cache of an AnnData: `exam` names the column of obs with the exams' ids; rows of one exam are in order.

    Without `columns`, the columns of obs that are constant within every exam are taken.
    """
    ids = adata.obs[exam].astype(str)
    matrix = np.asarray(adata.X.todense() if hasattr(adata.X, "todense") else adata.X)
    if columns is None:
        columns = _constant(adata.obs.drop(columns=exam), ids)
    return import_features(_grouped(matrix, ids), out, describe=describe, columns=columns, store=store)


def to_parquet(cache: Cache, path: Place, view: str = "clean") -> Path:
    """A Parquet file of Cache.table(): one row per frame. Needs the package pyarrow."""
    with whole_file(path) as made:
        cache.table(view).to_parquet(made)
    return Path(path)


def from_parquet(
    path: Place,
    out: Place,
    *,
    describe: str,
    exam: str = "exam",
    columns: pd.DataFrame | None = None,
    store: str | None = None,
) -> Cache:
    """A cache of a Parquet file with the exams' ids in `exam` and features in f0, f1, …, as to_parquet() writes it."""
    table = pd.read_parquet(path)
    names = [f"f{d}" for d in range(len(table.columns)) if f"f{d}" in table]
    ids = table[exam].astype(str)
    if columns is None:
        own = ["time_s", "present", "index", "source", *_OWN]
        columns = _constant(table.drop(columns=[exam, *names, *own], errors="ignore"), ids)
    return import_features(
        _grouped(table[names].to_numpy(np.float32), ids), out, describe=describe, columns=columns, store=store
    )


def to_trident(cache: Cache, folder: Place, view: str = "clean") -> Path:
    """A file EXAM.h5 for each exam: `features` float32 [T, D] and `coords` int64 [T, 2], as TRIDENT writes patch features."""

    def write(made: Path, features: NDArray[np.float32], places: NDArray[np.int64]) -> None:
        with h5py.File(made, "w") as file:
            file["features"], file["coords"] = features, places
            file["coords"].attrs["patch_size_level0"] = 1

    _require_names(cache)
    with whole_folder(folder) as made:
        _write_exams(cache, made, view, ".h5", write)
    return Path(folder)


def from_trident(
    folder: Place, out: Place, *, describe: str, columns: pd.DataFrame | None = None, store: str | None = None
) -> Cache:
    """A cache of a folder of TRIDENT's (or CLAM's) patch features: an exam for each file, in the order of its rows."""
    return import_features(_read_folder(folder, "features"), out, describe=describe, columns=columns, store=store)


def to_stamp(cache: Cache, folder: Place, view: str = "clean") -> Path:
    """A file EXAM.h5 for each exam, with `feats` float32 [T, D] and `coords` [T, 2] in µm, as STAMP reads tile features.

    Beside them slides.csv (PATIENT, FILENAME) and clinical.csv (PATIENT and the exams' columns; of several exams of one
    patient the first) for `stamp train`. An exam without a patient is one of its own.
    """

    def write(made: Path, features: NDArray[np.float32], places: NDArray[np.int64]) -> None:
        with h5py.File(made, "w") as file:
            file["feats"], file["coords"] = features, places.astype(np.float32)
            file.attrs.update(extractor="coldframe", unit="um", tile_size_um=1.0, tile_size_px=1, feat_type="tile")

    patients = cache.exams["patient"].where(cache.exams["patient"] != "", cache.exams["exam"])
    slides = pd.DataFrame({"PATIENT": patients, "FILENAME": cache.exams["exam"] + ".h5"})
    known = cache.exams.drop(columns=["exam", "patient", *_OWN, "frames"])
    clinical = pd.concat([patients.rename("PATIENT"), known], axis=1).drop_duplicates("PATIENT")
    _require_names(cache)
    with whole_folder(folder) as made:
        _write_exams(cache, made, view, ".h5", write)
        slides.to_csv(made / "slides.csv", index=False)
        clinical.to_csv(made / "clinical.csv", index=False)
    return Path(folder)


def from_stamp(
    folder: Place, out: Place, *, describe: str, columns: pd.DataFrame | None = None, store: str | None = None
) -> Cache:
    """A cache of a folder of STAMP's tile features: an exam for each file, in the order of its rows."""
    return import_features(_read_folder(folder, "feats"), out, describe=describe, columns=columns, store=store)


def to_eva(cache: Cache, folder: Place, target: str, view: str = "clean") -> Path:
    """A file EXAM.pt for each exam with a target, a tensor float32 [T, D], and manifest.csv for eva's multi-embeddings.

    The manifest has origin, embeddings, target (classes of text as numbers in their order), split (the cache's column of
    that name, with `validation` as val; else train) and wsi_id, the exam. KeyError for an unknown target. Needs torch.
    """
    import torch

    if target not in cache.exams:
        raise KeyError(f"{cache.path} has no column '{target}'; its columns are {', '.join(map(str, cache.exams))}")
    labelled = cache.exams[cache.exams[target].notna() & (cache.exams[target] != "")]
    numeric = pd.api.types.is_numeric_dtype(labelled[target])
    targets = (
        labelled[target]
        if numeric
        else pd.Series(np.unique(labelled[target].astype(str), return_inverse=True)[1], labelled.index)
    )
    split = labelled["split"].replace("validation", "val") if "split" in labelled else "train"

    def write(made: Path, features: NDArray[np.float32], _: NDArray[np.int64]) -> None:
        torch.save(torch.from_numpy(features), made)

    names = labelled["exam"] + ".pt"
    table = {
        "origin": labelled["exam"],
        "embeddings": names,
        "target": targets,
        "split": split,
        "wsi_id": labelled["exam"],
    }
    _require_names(cache)
    with whole_folder(folder) as made:
        _write_exams(cache, made, view, ".pt", write, list(labelled["exam"]))
        pd.DataFrame(table).to_csv(made / "manifest.csv", index=False)
    return Path(folder)


def from_eva(
    folder: Place,
    out: Place,
    *,
    describe: str,
    manifest: str = "manifest.csv",
    columns: pd.DataFrame | None = None,
    store: str | None = None,
) -> Cache:
    """A cache of eva's embeddings: exams are the manifest's wsi_id (else origin), with its target and split. Needs torch."""
    import torch

    table = pd.read_csv(Path(folder, manifest))
    ids = table["wsi_id" if "wsi_id" in table else "origin"].astype(str)
    parts: dict[str, list[NDArray[Any]]] = {}
    for exam, name in zip(ids, table["embeddings"], strict=True):
        loaded = torch.load(Path(folder, name), map_location="cpu", weights_only=True)
        tensor = torch.stack(list(loaded)) if isinstance(loaded, (list, tuple)) else loaded
        parts.setdefault(exam, []).append(np.atleast_2d(tensor.float().numpy()))
    if columns is None:
        columns = _constant(
            table[[name for name in ("target", "split") if name in table]].replace("val", "validation"), ids
        )
    return import_features(
        {exam: np.concatenate(rows) for exam, rows in parts.items()},
        out,
        describe=describe,
        columns=columns,
        store=store,
    )


def _exams(
    cache: Cache, view: str, ids: list[str] | None
) -> Iterator[tuple[str, NDArray[np.float32], NDArray[np.int64]]]:
    for exam in cache.exams["exam"] if ids is None else ids:
        present = cache.present(exam)
        places = np.stack([np.arange(len(present)), np.zeros(len(present), np.int64)], axis=1)
        yield exam, cache.features(exam, view)[present], places[present]


def _require_names(cache: Cache) -> None:
    for exam in cache.exams["exam"]:
        if "/" in exam or exam.startswith(".") or "\0" in exam:
            raise ValueError(f"the exam '{exam}' cannot be the name of a file")


def _write_exams(
    cache: Cache, made: Path, view: str, suffix: str, ids_write: Callable[..., None], ids: list[str] | None = None
) -> None:
    for exam, features, places in _exams(cache, view, ids):
        ids_write(made / f"{exam}{suffix}", features, places)


def _read_folder(folder: Place, name: str) -> dict[str, NDArray[Any]]:
    files = sorted(Path(folder).glob("*.h5"))
    if not files:
        raise FileNotFoundError(f"no .h5 files in {folder}")
    features = {}
    for path in files:
        with h5py.File(path, "r") as file:
            if name not in file:
                raise ValueError(f"{path} has no dataset '{name}'; it has {', '.join(file)}")
            array = np.asarray(file[name])
        features[path.stem] = array[0] if array.ndim == 3 and len(array) == 1 else array
    return features


def _grouped(matrix: NDArray[Any], ids: pd.Series) -> dict[str, NDArray[Any]]:
    return {
        str(exam): matrix[rows]
        for exam, rows in ids.reset_index(drop=True).groupby(ids.to_numpy(), sort=False).indices.items()
    }


def _constant(table: pd.DataFrame, ids: pd.Series) -> pd.DataFrame:
    """The columns of which every exam has one value, a row for each exam."""
    grouped = table.groupby(ids.to_numpy(), sort=False)
    kept = [name for name, constant in (grouped.nunique(dropna=False) <= 1).all().items() if constant]
    return grouped.first()[kept]
