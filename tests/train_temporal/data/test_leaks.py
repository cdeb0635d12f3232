"""The program tells of what would make the figures too good, or exams missing."""
import json

from training_support import make_cache, quick, ramp_cache, ramp_exams, succeed


def test_copies_on_both_sides_of_a_split_are_told(tmp_path):
    exams, features = ramp_exams(12)
    for number, entry in enumerate(exams):
        entry["columns"]["split"] = "test" if number > 7 else "val" if number > 5 else "train"
    features[4], features[9] = features[2].copy(), features[2].copy()  # 4 is in the same part as 2
    exams[9]["columns"]["label"] = exams[2]["columns"]["label"]
    cache = make_cache(tmp_path, exams, features)
    result = succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run",
                     *quick("--epochs", 1))
    told = "1 exam with the same features as one in another part of a split, such as 'exam-9' and 'exam-2'"
    assert told in result.stderr
    warnings = json.loads((tmp_path / "run" / "summary.json").read_text())["warnings"]
    assert any(told in warning for warning in warnings)
    assert "On patients that it has not seen" not in result.stdout, result.stdout
    assert "some have the features of exams that it was trained on" in result.stdout


def test_a_cache_whose_parts_are_not_finished_is_warned_of(tmp_path):
    cache = ramp_cache(tmp_path)
    (cache / ".part-0-of-2.json").write_text("{}")
    result = succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run",
                     *quick("--folds", 1, "--epochs", 1))
    assert "parts of an extraction share the cache" in result.stdout + result.stderr
