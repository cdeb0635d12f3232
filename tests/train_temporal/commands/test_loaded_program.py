"""A run in a process that has loaded its libraries is that of a process that was started for it."""
import subprocess

import pytest
from training_support import PROGRAM, loaded, quick, ramp_cache


@pytest.mark.parametrize("words", [["--version"], [], ["train", "--help"], ["train", "--nothing"], ["predict", "--run", "here", "--out", "é"]])
def test_it_says_the_same(tmp_path, words):
    ours = loaded(PROGRAM).run(words, cwd=tmp_path)
    theirs = subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, cwd=tmp_path)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert ours.stdout or ours.stderr


def test_it_makes_the_same_bytes_and_each_run_is_a_process_of_its_own(tmp_path):
    cache = ramp_cache(tmp_path, 20)
    words = ["train", "--cache", cache, "--target", "label", *quick("--folds", 2, "--epochs", 2)]
    for name in ("one", "two"):
        done = loaded(PROGRAM).run([*words, "--out", tmp_path / name])
        assert done.returncode == 0, done.stderr
    subprocess.run([str(word) for word in [PROGRAM, *words, "--out", tmp_path / "started"]], check=True, capture_output=True)
    for path in (tmp_path / "started").rglob("*.*"):
        if path.suffix in (".csv", ".safetensors"):
            for name in ("one", "two"):
                assert (tmp_path / name / path.relative_to(tmp_path / "started")).read_bytes() == path.read_bytes(), path
