"""Tests of jobs compare caches by these."""
import h5py


def all_data(cache):
    """{name: bytes} of all that a single-file cache holds, but for what tells of this run."""
    found = {}
    with h5py.File(cache) as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()}) if isinstance(item, h5py.Dataset) else None)
        found["recipe"] = file.attrs["recipe"]
    return found
