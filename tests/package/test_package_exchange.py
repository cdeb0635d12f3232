"""Layouts of other programs: what their readers find, and the same features back."""

import json
import os
import stat

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

import coldframe
from coldframe import exchange
from coldframe.publish import whole_file, whole_folder



pytestmark = pytest.mark.usefixtures("programs_of_the_build")


@pytest.fixture(scope="module")
def cache(tmp_path_factory, programs_of_the_build):
    """Four exams of three patients, 2 to 5 frames of 6 features; exam b lost its second frame, d has no label."""
    random = np.random.default_rng(1)
    features = {name: random.normal(size=(count, 6)).astype(np.float32) for name, count in zip("bacd", [3, 2, 5, 4])}
    features["b"][1] = np.nan
    columns = pd.DataFrame({"patient": ["P1", "P2", "P1", ""], "label": ["ill", "well", "ill", ""], "split": ["train", "validation", "train", "test"],
                            "age": [61.5, 47, 61.5, 33]}, index=list("bacd"))
    return coldframe.import_features(features, tmp_path_factory.mktemp("exchange") / "x.h5", describe="made up", columns=columns, store="float32")


def present(cache, exam):
    return cache.features(exam)[cache.present(exam)]


def assert_same_features(found, cache):
    for exam in found.exams["exam"]:
        np.testing.assert_array_equal(found.features(exam), present(cache, exam))


def test_anndata(cache, tmp_path):
    adata = exchange.to_anndata(cache)
    adata.write_h5ad(tmp_path / "x.h5ad")  # columns and recipe are of kinds that AnnData can store
    assert adata.shape == (13, 6) and list(adata.obs["exam"].unique()) == list("bacd")
    np.testing.assert_array_equal(adata[adata.obs["exam"] == "c"].X, cache.features("c"))
    assert adata.obs_names.is_unique and json.loads(adata.uns["coldframe"]) == cache.recipe
    back = exchange.from_anndata(adata, tmp_path / "y.h5", describe="through AnnData")
    assert_same_features(back, cache)
    assert list(back.exams["label"]) == list(cache.exams["label"]) and list(back.exams["age"]) == list(cache.exams["age"])


def test_parquet(cache, tmp_path):
    path = exchange.to_parquet(cache, tmp_path / "x.parquet")
    table = pd.read_parquet(path)
    assert len(table) == 14 and table["f0"].isna().sum() == 1 and list(table["exam"][:3]) == ["b"] * 3
    back = exchange.from_parquet(path, tmp_path / "y.h5", describe="through Parquet")
    for exam in "bacd":
        np.testing.assert_array_equal(back.features(exam), cache.features(exam))
    assert list(back.present("b")) == [True, False, True] and list(back.exams["patient"]) == list(cache.exams["patient"])


@pytest.mark.parametrize("to, back, dataset", [(exchange.to_trident, exchange.from_trident, "features"), (exchange.to_stamp, exchange.from_stamp, "feats")])
def test_folders_of_tile_features(cache, tmp_path, to, back, dataset):
    folder = to(cache, tmp_path / "made")
    for exam in "bacd":
        with h5py.File(folder / f"{exam}.h5") as file:
            np.testing.assert_array_equal(file[dataset], present(cache, exam))
            assert file["coords"].shape == (len(file[dataset]), 2)
            assert list(file["coords"][:, 0]) == list(np.flatnonzero(cache.present(exam)))
    labels = cache.exams.set_index("exam")[["label"]]
    found = back(folder, tmp_path / "y.h5", describe="through a folder", columns=labels)
    assert_same_features(found, cache)
    assert dict(zip(found.exams["exam"], found.exams["label"])) == {"a": "well", "b": "ill", "c": "ill", "d": ""}
    with pytest.raises(FileExistsError):
        to(cache, folder)


def test_stamp_has_tables_of_slides_and_patients(cache, tmp_path):
    folder = exchange.to_stamp(cache, tmp_path / "made")
    slides, clinical = pd.read_csv(folder / "slides.csv"), pd.read_csv(folder / "clinical.csv")
    assert list(slides["PATIENT"]) == ["P1", "P2", "P1", "d"] and list(slides["FILENAME"]) == ["b.h5", "a.h5", "c.h5", "d.h5"]
    assert list(clinical["PATIENT"]) == ["P1", "P2", "d"] and list(clinical["label"][:2]) == ["ill", "well"]
    with h5py.File(folder / "a.h5") as file:
        assert file.attrs["unit"] == "um" and file.attrs["tile_size_um"] == 1 and file.attrs["feat_type"] == "tile"


def test_tile_features_with_a_leading_axis_are_read(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["features"] = values
    cache = exchange.from_trident(tmp_path, tmp_path / "made.h5", describe="TITAN")
    np.testing.assert_array_equal(cache.features("s"), values[0])


def test_eva(cache, tmp_path):
    folder = exchange.to_eva(cache, tmp_path / "made", target="label")
    manifest = pd.read_csv(folder / "manifest.csv")
    assert list(manifest["wsi_id"]) == ["b", "a", "c"] and list(manifest["target"]) == [0, 1, 0] and list(manifest["split"]) == ["train", "val", "train"]
    for row in manifest.itertuples():
        loaded = torch.load(folder / row.embeddings, weights_only=True)
        np.testing.assert_array_equal(loaded.numpy(), present(cache, row.wsi_id))
    torch.save(list(torch.load(folder / "a.pt", weights_only=True)), folder / "a.pt")  # as eva itself writes several
    back = exchange.from_eva(folder, tmp_path / "y.h5", describe="through eva")
    assert_same_features(back, cache)
    assert list(back.exams["target"]) == [0, 1, 0] and list(back.exams["split"]) == ["train", "validation", "train"]
    with pytest.raises(KeyError, match="no column 'grade'"):
        exchange.to_eva(cache, tmp_path / "other", target="grade")


def test_what_is_no_such_folder_is_refused(cache, tmp_path):
    with pytest.raises(FileNotFoundError, match="no .h5 files in"):
        exchange.from_trident(tmp_path, tmp_path / "y.h5", describe="x")
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["feats"] = np.zeros((2, 3))
    with pytest.raises(ValueError, match="has no dataset 'features'; it has feats"):
        exchange.from_trident(tmp_path, tmp_path / "y.h5", describe="x")
    odd = coldframe.import_features({"a/b": np.zeros((1, 2))}, tmp_path / "odd.h5", describe="x")
    with pytest.raises(ValueError, match="the exam 'a/b' cannot be the name of a file"):
        exchange.to_trident(odd, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_folders_and_files_appear_whole_and_synced(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(os.readlink(f"/proc/self/fd/{descriptor}")), sync(descriptor)))
    out, table = tmp_path / "out", tmp_path / "x.csv"
    with pytest.raises(ZeroDivisionError), whole_folder(out) as made:
        (made / "a").write_text("half")
        1 / 0
    assert not list(tmp_path.iterdir())
    with whole_folder(out) as made:
        (made / "a").write_text("whole")
    assert [path for path in synced if path.endswith("/made/a")] and synced[-1] == str(tmp_path)
    with pytest.raises(FileExistsError), whole_folder(out):
        pass
    (tmp_path / "link.csv").symlink_to("x.csv")
    with whole_file(tmp_path / "link.csv") as made:
        made.write_text("whole")
    assert table.read_text() == "whole" and (tmp_path / "link.csv").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "out", "x.csv"]


def test_a_folder_never_stands_under_its_name_before_it_is_whole(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "rename", lambda made, out: seen.append(os.path.lexists(out)))  # Path.rename()'s
    with whole_folder(tmp_path / "out") as made:
        (made / "a").write_text("whole")
    assert seen == [False]
    monkeypatch.undo()
    with pytest.raises(FileExistsError, match="appeared meanwhile"), whole_folder(tmp_path / "other") as made:
        (tmp_path / "other").mkdir()
        (tmp_path / "other/thesis").write_text("mine")
    assert (tmp_path / "other/thesis").read_text() == "mine"


def test_a_file_keeps_its_owner_and_mode_and_pipes_and_devices_stay(tmp_path):
    table, pipe, null = tmp_path / "x.csv", tmp_path / "pipe", tmp_path / "null"
    table.write_text("old")
    table.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(table, 1234, 4321)
    before = table.stat()
    with whole_file(table) as made:
        made.write_text("new")
    after = table.stat()
    assert table.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    os.link(table, tmp_path / "other.csv")
    with pytest.raises(FileExistsError, match="2 names"), whole_file(table) as made:
        pass
    assert (tmp_path / "other.csv").read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as made:
        made.write_text("through")
    assert os.read(reader, 100) == b"through" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
    if os.geteuid() == 0:  # /dev/null itself is not for tests
        os.mknod(null, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        with whole_file(null) as made:
            made.write_text("away")
        assert stat.S_ISCHR(null.stat().st_mode)
    with pytest.raises(IsADirectoryError), whole_file(tmp_path) as made:
        pass
