"""Short runs, and what lies in their folders."""
import pytest
from training_support import coldframe, quick, ramp_cache

SHORT = ["--folds", 2, "--epochs", 1]


def command(cache, out, *more):
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*more)]


def train(cache, out, *more):
    return coldframe(*command(cache, out, *more))


def content(run):
    return {p.relative_to(run): p.read_bytes() for p in run.rglob("*.*")
            if p.suffix in (".csv", ".safetensors")}


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    cache = ramp_cache(folder, 40)
    result = train(cache, folder / "run", *SHORT)
    assert result.returncode == 0, result.stderr
    return cache, folder / "run"
