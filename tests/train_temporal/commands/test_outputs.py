"""What train, evaluate and predict write takes no other's place."""
import subprocess
import time

from run_support import SHORT, command, content, entries, made, train  # noqa: F401
from training_support import PROGRAM, coldframe, held_at


def test_what_appears_while_a_run_trains_is_kept(made, tmp_path):
    cache, finished = made
    out, thesis, hold, trace = (tmp_path / name for name in ("run", "run/thesis.txt", "hold", "trace"))
    environment = held_at(".summary.json", hold, trace)
    process = subprocess.Popen([PROGRAM, *map(str, command(cache, out, *SHORT))], stderr=subprocess.PIPE, text=True, env=environment)
    while not trace.exists() and process.poll() is None:  # it has trained, and is about to publish
        time.sleep(0.005)
    out.mkdir()
    thesis.write_text("mine")
    hold.unlink()
    said = process.communicate()[1]
    assert process.returncode == 3 and "run' appeared while this run trained" in said, said
    assert thesis.read_text() == "mine" and entries(out) == ["thesis.txt"]
    out.rename(tmp_path / "mine")
    result = train(cache, out, *SHORT, "--resume")
    assert result.returncode == 0 and content(out) == content(finished), result.stderr


def test_no_output_is_an_input(made):
    cache, run = made
    before = entries(run)
    refused = train(cache, run, *SHORT, "--overwrite", "--against", run)
    assert refused.returncode == 2 and "--out" in refused.stderr and "which this command reads" in refused.stderr, refused.stderr
    assert entries(run) == before


def test_predictions_replace_nothing_unasked_and_no_input(made, tmp_path):
    cache, run = made
    words = ["predict", "--run", run, "--cache", cache]
    out = tmp_path / "p.csv"
    out.write_text("mine")
    refused = coldframe(*words, "--out", out)
    assert refused.returncode == 2 and "p.csv' is there already" in refused.stderr and out.read_text() == "mine"
    assert coldframe(*words, "--out", out, "--overwrite").returncode == 0
    before = (run / "predictions.csv").read_bytes()
    refused = coldframe(*words, "--out", run / "predictions.csv", "--overwrite")
    assert refused.returncode == 2 and "lies in --run" in refused.stderr, refused.stderr
    assert (run / "predictions.csv").read_bytes() == before
