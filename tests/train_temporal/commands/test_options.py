"""What `coldframe train` says of its options."""
import pytest
from training_support import coldframe, quick, ramp_cache, succeed


def test_help_shows_an_example():
    result = coldframe("train", "--help")
    assert result.returncode == 0 and "Example" in result.stdout and "--compare" in result.stdout


def test_help_comes_in_groups_with_the_most_used_options_first():
    brief, text = coldframe("train", "--help").stdout, coldframe("train", "--help-all").stdout
    assert len(brief.splitlines()) <= 66 and "--help-all" in brief and "Splits:" not in brief and "\n\n\n" not in brief + text
    captions = ["Most used options:", "Target:", "Run:", "Splits:", "Model:", "Training:", "Machine:", "General:"]
    lines = text.splitlines()
    places = [lines.index(caption) for caption in captions]
    assert places == sorted(places)
    used = [line.split()[0] for line in lines[places[0] + 1:places[1]] if line.startswith("  --")]
    assert used == ["--cache", "--target", "--labels", "--out", "--resume", "--folds", "--seeds", "--model", "--compare", "--device"]
    assert all(text.count(f"\n  {name} ") == 1 for name in used)
    assert "0.29999" not in text and "--dropout N (=0.3)" in text


def test_a_run_is_repeated_from_its_options(tmp_path):
    cache = ramp_cache(tmp_path, 20)
    words = quick("--folds", 2, "--epochs", 2, "--compare", "mean,clock", "--lr", 0.003, "--warmup", 0.2, "--class-weights",
                  "--loss", "focal=1.5", "--threshold", 0.4, "--subgroups", "label", "--threads", 1, "--memory-budget", "1GiB")
    succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", *words)
    text = (tmp_path / "run" / "options.ini").read_text()
    assert "memory-budget = 1GiB\n" in text  # which decides how steps are divided, and so last bits
    assert "loss = focal=1.5" in text and "threshold = 0.4" in text and "threads" not in text and "out =" not in text
    succeed("train", "--config", tmp_path / "run" / "options.ini", "--out", tmp_path / "again")
    for name in ("config.json", "options.ini", "predictions.csv", "metrics.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


@pytest.mark.parametrize("words, said", [
    (["--hidden", 0], "--hidden 0: expected 1 to 8192"), (["--lr", 0], "--lr 0: expected more than 0"),
    (["--dropout", 1], "--dropout 1: expected 0 or more and less than 1"), (["--batch", 0], "--batch 0: expected 1 or more"),
    (["--search", 1], "--search 1: expected 0, or 2 to 1000"), (["--mixup", 9], "--mixup 9: expected 0, or 0.01 to 4"),
    (["--threshold", 1], "--threshold 1: expected more than 0 and less than 1"), (["--temporal-pool", "none"], "not one of: last, mean, attention"),
    (["--lora", 3], "--lora is for --tune WEIGHTS; give both, or neither"), (["--from", "x"], "--from is for --tune WEIGHTS"),
    (["--model", "mean", "--temporal-pool", "attention"], "--temporal-pool is for models that read frames in order"),
    (["--model", "tcn", "--bidirectional"], "--bidirectional is for a GRU or LSTM"),
])
def test_what_an_option_may_be_is_said(words, said):
    result = coldframe("train", "--cache", "c", "--target", "t", "--out", "o", *words)
    assert result.returncode == 2 and said in result.stderr, result.stderr


@pytest.mark.parametrize("words, line, said", [
    (["predict", "--run", "r", "--cache", "c", "--out", "o"], "weights = w", "--weights is for --maps"),
    (["evaluate", "--run", "r", "--against", "r"], "subgroups = sex", "--subgroups needs --cache"),
    (["train", "--cache", "c", "--target", "t", "--out", "o"], "list = runs", "--list belongs on the command line"),
])
def test_options_of_a_config_file_are_refused_as_those_of_the_command_line(tmp_path, words, line, said):
    (tmp_path / "c.ini").write_text(line + "\n")
    result = coldframe(*words, "--config", tmp_path / "c.ini")
    assert result.returncode == 2 and said in result.stderr, result.stderr


def test_a_split_column_that_is_not_there_is_said(tmp_path):
    cache = ramp_cache(tmp_path, 20)
    result = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--split-column")
    assert result.returncode == 3 and "has no column 'split'" in result.stderr and "''" not in result.stderr


@pytest.mark.parametrize("kind, flag", [("bf16", "avx512_bf16"), ("fp16", "avx512_fp16")])
def test_mixed_precision_that_the_processor_lacks_is_warned_of(tmp_path, kind, flag):
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    cache = ramp_cache(tmp_path, 20)
    result = succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run",
                     *quick("--amp", kind, "--folds", 2, "--epochs", 1))
    assert ("leave --amp out" in result.stderr) == (flag not in flags)
