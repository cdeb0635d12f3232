#!/usr/bin/env python3
"""Trains with labels permuted by patient and prints the mean AUROC, which must be near 0.5.

    permuted_labels.py CACHE TARGET [--times 20] [-- more words for train]

Whole patients exchange their labels: each gets those of another one, its exams the most common of
them, so that what makes exams of one patient alike stays in place.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import pandas as pd
from training_support import PROGRAM


def read_labels(path, target):
    files = sorted(path.glob("*.h5")) if path.is_dir() else [path]
    tables = []
    for file in files:
        with h5py.File(file) as h5:
            tables.append(pd.DataFrame({
                "exam": h5["exams/id"].asstr()[:], "patient": h5["exams/patient"].asstr()[:],
                "revision": h5["exams/revision"][:],
                "label": h5[f"exams/columns/{target}"].asstr()[:]}))
    table = pd.concat(tables).sort_values("revision").drop_duplicates("exam", keep="last")
    return table[table.label != ""]


def permuted(table, random):
    by_patient = table.groupby("patient").label.agg(lambda labels: labels.mode()[0])
    exchanged = pd.Series(random.permutation(by_patient.to_numpy()), by_patient.index)
    return table.assign(label=table.patient.map(exchanged))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("target")
    parser.add_argument("--times", type=int, default=20)
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, more = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1:]
    table, scores = read_labels(options.cache, options.target), []
    for number in range(options.times):
        with tempfile.TemporaryDirectory() as folder:
            labels = pathlib.Path(folder) / "labels.csv"
            shuffled = permuted(table, np.random.default_rng(number))
            shuffled[["exam", "label"]].rename(columns={"label": options.target}).to_csv(
                labels, index=False)
            words = ["train", "--cache", options.cache, "--labels", labels, "--target",
                     options.target, "--out", pathlib.Path(folder) / "run", "--json", "--quiet",
                     "--seed", number, "--folds", 5, "--bootstrap", 10, *more]
            done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            summary = json.loads(done.stdout)
        scores.append(auroc_of(summary))
        print(f"permutation {number}: AUROC {scores[-1]:.3f}", flush=True)
    print(f"mean of {len(scores)}: {np.mean(scores):.3f} "
          f"(standard error {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f})")


def auroc_of(summary):
    return summary["models"][0]["metrics"]["auroc"]["mean_over_folds"]["value"]


if __name__ == "__main__":
    main()
