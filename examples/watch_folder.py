#!/usr/bin/env python3
"""Predicts what arrives in a folder by a bundle: each entry, a file or the folder of one study, once.

    watch_folder.py model.bundle /var/dicom/incoming predicted    # predicted/ARRIVAL.csv for each, until Ctrl-C

An arrival is complete when its files were the same at two looks, as receivers that sort by study leave them (DCMTK's
`storescp --sort-on-study-uid`), and no name in it begins with a dot or ends in .part, .partial or .tmp. One that has a
result is done, also after a restart: to predict it again, remove its result. It needs the package coldframe.
"""
import pathlib
import sys
import time

import pandas as pd

import coldframe
from coldframe.publish import whole_file

PAUSE = 30  # seconds between two looks
UNFINISHED = (".part", ".partial", ".tmp")


def look(arrival):
    """{file: (size, time)}; empty while a file is still being written or moved."""
    paths = [arrival, *arrival.rglob("*")]
    if any(path.name.startswith(".") or path.name.endswith(UNFINISHED) for path in paths):
        return {}
    try:
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths if not path.is_dir()}
    except FileNotFoundError:
        return {}


def predict(bundle, arrival):
    """A line for each exam; `failures` has the reasons of what could not be read."""
    try:
        table = bundle.predict(arrival, progress=False)
    except coldframe.JobError as error:
        table = pd.DataFrame({"exam": [arrival.name], "failures": [str(error)]})
    for reason in table["failures"].dropna().unique():
        print(f"{arrival.name}: {reason}", file=sys.stderr)
    return table


def watch(bundle, incoming, out, pause=lambda: time.sleep(PAUSE)):
    seen = {}
    while True:
        before, seen = seen, {}
        for arrival in sorted(incoming.iterdir()):
            result = out / f"{arrival.name}.csv"
            if result.exists():
                continue
            seen[arrival] = look(arrival)
            if not seen[arrival] or seen[arrival] != before.get(arrival):
                continue
            table = predict(bundle, arrival)
            if look(arrival) == seen[arrival]:  # else more has come meanwhile, and the next look decides
                with whole_file(result) as made:
                    table.to_csv(made, index=False)
        pause()


def main(bundle, incoming, out, **options):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    try:
        watch(coldframe.Bundle(bundle), pathlib.Path(incoming), out, **options)
    except (KeyboardInterrupt, coldframe.Stopped):
        print("stopped; the same command goes on", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
