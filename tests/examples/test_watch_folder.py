"""examples/watch_folder.py: each arrival is predicted once, when it is complete, whatever is wrong with others."""

import numpy as np
import pandas as pd
import pytest
import watch_folder as example
from PIL import Image
from training_support import BUILD, quick, succeed

import coldframe


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Of a tiny ViT with random weights, trained on a dozen exams of two frames."""
    folder = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFRAME_PROGRAMS", str(BUILD / "bin"))
        for number in range(12):
            arrive(folder / "exams", f"e{number}", [0, 1], number)
        rows = [f"e{number},p{number},exams/e{number}/{frame}.png,{number % 2}" for number in range(12) for frame in "01"]
        (folder / "exams.csv").write_text("\n".join(["exam,patient,path,label", *rows, ""]))
        cache = coldframe.extract(folder / "exams.csv", folder / "exams.cache", random_weights=0, architecture="vit_tiny_patch16_224",
                                  pool="mean", image_size=32, mean=0.5, std=0.5, device="cpu", progress=False)
        succeed("train", "--cache", cache.path, "--target", "label", "--out", folder / "run", *quick("--folds", 2, "--epochs", 2))
        yield coldframe.Bundle.make(folder / "run", folder / "model.bundle", progress=False)


def arrive(incoming, name, frames, seed=0):
    (incoming / name).mkdir(parents=True, exist_ok=True)
    for frame in frames:
        pixels = np.random.default_rng([seed, frame]).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(incoming / name / f"{frame}.png")


def looks(*between):
    """A pause that does the next of these things, and is interrupted behind the last one."""
    left = list(between)

    def pause():
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    return pause


def test_arrivals_are_predicted_once_when_they_are_complete(bundle, tmp_path, capsys):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    arrive(incoming, "study", [0])
    arrive(incoming, "moving", [0])
    (incoming / "moving/1.png.part").write_bytes(b"half")
    (incoming / "broken.png").write_bytes((incoming / "study/0.png").read_bytes()[:80])
    (incoming / "notes").write_text("no images")

    def more_comes():
        assert not list(out.iterdir())  # a single look decides nothing
        arrive(incoming, "study", [1])

    def others_are_done():
        assert {path.name for path in out.iterdir()} == {"broken.png.csv", "notes.csv"}

    example.main(bundle.path, incoming, out, pause=looks(more_comes, others_are_done))
    assert {path.name for path in out.iterdir()} == {"broken.png.csv", "notes.csv", "study.csv"}
    found = pd.read_csv(out / "study.csv")
    expected = bundle.predict(incoming / "study", progress=False)
    pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False)
    assert list(found["exam"]) == ["study"] and found["failures"].isna().all()
    reasons = {path.stem: pd.read_csv(path)["failures"].item() for path in (out / "broken.png.csv", out / "notes.csv")}
    told = capsys.readouterr().err
    assert all(f"{name}: {reason}" in told for name, reason in reasons.items()), told

    results = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    (incoming / "moving/1.png.part").unlink()
    example.main(bundle.path, incoming, out, pause=looks(lambda: None))
    assert {path: path.stat().st_mtime_ns for path in results} == results
    assert {path.name for path in out.iterdir()} - {path.name for path in results} == {"moving.csv"}


class Watched:
    """A bundle of which `predict` does something first."""

    def __init__(self, do):
        self.do = do

    def predict(self, arrival, progress):
        self.do(arrival)
        return pd.DataFrame({"exam": [arrival.name, "cut"], "p_1": [0.5, None], "failures": [None, "1.png: it is cut off"]})


def test_what_changes_while_it_is_read_is_looked_at_again(tmp_path):
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    out.mkdir()
    arrive(incoming, "study", [0])
    reads = []

    def more_comes_at_first(arrival):
        reads.append(arrival)
        if len(reads) == 1:
            arrive(incoming, "study", [1])

    def not_yet():
        assert not list(out.iterdir())

    with pytest.raises(KeyboardInterrupt):
        example.watch(Watched(more_comes_at_first), incoming, out, looks(not_yet, not_yet, not_yet))
    assert len(reads) == 2
    rows = pd.read_csv(out / "study.csv")
    assert list(rows["exam"]) == ["study", "cut"] and rows["failures"].isna().tolist() == [True, False]


def test_a_program_that_was_stopped_ends_the_loop_without_a_result(tmp_path, monkeypatch, capsys):
    arrive(tmp_path / "incoming", "study", [0])

    def stop(_):
        raise coldframe.Stopped("stopped")

    monkeypatch.setattr(example.coldframe, "Bundle", lambda path: Watched(stop))
    example.main("model.bundle", tmp_path / "incoming", tmp_path / "out", pause=looks(lambda: None))
    assert not list((tmp_path / "out").iterdir()) and "the same command goes on" in capsys.readouterr().err
