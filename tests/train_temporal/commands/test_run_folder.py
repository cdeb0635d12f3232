"""Resuming, replacing and publishing run folders."""
import json
import shutil
import signal
import subprocess
import time

import pytest
from run_support import LONG, SHORT, command, content, entries, interrupt, made, train  # noqa: F401
from training_support import PROGRAM, coldframe, make_cache, quick, ramp_cache, ramp_exams, succeed


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """The run that no signal stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert train(made[0], out, *LONG).returncode == 0
    return out


def test_the_splits_of_a_repeated_run_give_all_its_models(made, tmp_path):
    cache, _ = made
    first, second = tmp_path / "a", tmp_path / "b"
    assert train(cache, first, *SHORT, "--repeats", 2).returncode == 0
    result = train(cache, second, "--splits", first / "splits.csv", "--epochs", 1)
    assert result.returncode == 0, result.stderr
    assert len(entries(first / "models")) == 4
    assert content(first) == content(second)


def test_an_interrupted_replacement_can_be_resumed(made, whole, tmp_path):
    cache, finished = made
    out = tmp_path / "run"
    for more in ([], ["--overwrite"]):
        shutil.copytree(finished, out)
        interrupt(command(cache, out, *LONG, "--overwrite"), out)
        assert content(out) == content(finished), "the finished run stays until the end"
        result = train(cache, out, *LONG, "--resume", *more)
        assert result.returncode == 0, result.stderr
        assert content(out) == content(whole) and entries(out) == entries(whole)
        assert entries(tmp_path) == ["run"]
        shutil.rmtree(out)


def test_a_finished_run_is_not_taken_for_that_of_other_options(made):
    cache, run = made
    same = train(cache, run, *SHORT, "--resume")
    assert same.returncode == 0 and "nothing to resume" in same.stderr
    other = train(cache, run, "--folds", 2, "--epochs", 2, "--resume")
    assert other.returncode == 2 and "epochs" in other.stderr
    assert "nothing to resume" not in other.stderr


def test_a_damaged_configuration_does_not_cost_the_fits_that_are_done(made, tmp_path):
    cache, _ = made
    interrupt(command(cache, tmp_path / "run", *LONG), tmp_path / "run")
    unfinished = tmp_path / "run.unfinished"
    done, config = entries(unfinished / "state"), unfinished / "config.json"
    config.write_bytes(config.read_bytes()[:100])
    result = train(cache, tmp_path / "run", *LONG, "--resume")
    assert result.returncode == 3 and "config.json' is damaged" in result.stderr
    assert entries(unfinished / "state") == done
    again = train(cache, tmp_path / "run", *SHORT, "--overwrite")
    assert again.returncode == 0, again.stderr


def test_a_fresh_start_publishes_nothing_of_an_earlier_attempt(made, tmp_path):
    cache, run = made
    stale = tmp_path / "run.unfinished"
    (stale / "models").mkdir(parents=True)
    shutil.copy(run / "config.json", stale)
    (stale / "lock").write_text("process 7 on host")  # it was killed
    (stale / "models" / "fold-7-seed-0.safetensors").write_text("stale")
    (stale / "predictions-clock.csv").write_text("stale")
    result = train(cache, tmp_path / "run", *SHORT, "--overwrite")
    assert result.returncode == 0, result.stderr
    assert entries(tmp_path / "run") == entries(run)
    assert entries(tmp_path / "run" / "models") == entries(run / "models")


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# An exam's data whose name and files happen to look like those of a run that was killed.
MINE = [["lock"], ["lock", "frame-0.png"], ["lock", "state/frame-0.png"], ["state/frame-0.png"],
        ["lock", "state/gru.record", "thesis.txt"], ["models/frame-0.png", "lock"]]


@pytest.mark.parametrize("files", MINE)
@pytest.mark.parametrize("more", [[], ["--overwrite"], ["--resume"], ["--overwrite", "--resume"], ["--part", "0/2"]])
def test_what_somebody_calls_as_an_unfinished_run_is_kept(made, tmp_path, files, more):
    mine = tmp_path / "run.unfinished"
    for name in files:
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("mine")
    before = tree(mine)
    result = train(made[0], tmp_path / "run", *SHORT, *more)
    assert result.returncode == 2 and "choose another name" in result.stderr, result.stderr
    assert tree(mine) == before and entries(tmp_path) == ["run.unfinished"]


@pytest.mark.parametrize("where", ["thesis.txt", "models/thesis.txt", "figures/notes/thesis.txt", ".git/config"])
@pytest.mark.parametrize("name", ["run", "run.unfinished"])
def test_what_somebody_keeps_in_a_run_is_named_before_anything_is_trained(made, tmp_path, name, where):
    run = tmp_path / name
    shutil.copytree(made[1], run)
    (run / where).parent.mkdir(parents=True, exist_ok=True)
    (run / where).write_text("mine")
    before = tree(run)
    result = train(made[0], tmp_path / "run", *SHORT, "--overwrite")
    assert result.returncode == 2 and str(run / where).removesuffix("/config") in result.stderr, result.stderr
    assert tree(run) == before and entries(tmp_path) == [name]


def test_a_link_is_followed_and_stays(made, tmp_path):
    cache, finished = made
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk/first")
    for more in ([], ["--overwrite"]):
        result = train(cache, tmp_path / "run", *SHORT, *more)
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "run").is_symlink() and content(tmp_path / "disk/first") == content(finished)
        assert entries(tmp_path) == ["disk", "run"] and entries(tmp_path / "disk") == ["first"]


IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]


def test_a_run_in_a_lower_layer_of_an_overlay_is_replaced(made, tmp_path):
    """There no folder can be renamed (EXDEV), as in a container whose image holds a run."""
    cache, finished = made
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    shutil.copytree(finished, tmp_path / "lower/run")
    mount = f"mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged && cd {tmp_path}"
    if subprocess.run([*IN_NAMESPACE, mount], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("this system lets users mount no overlay")
    words = " ".join(f"'{word}'" for word in (PROGRAM, *command(cache, "merged/run", *SHORT, "--seed", 3, "--overwrite")))
    script = f"{mount} && {words} && rm -rf result && cp -r merged result"
    done = subprocess.run([*IN_NAMESPACE, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert entries(tmp_path / "result") == ["run"] and entries(tmp_path / "result/run") == entries(finished)
    assert content(tmp_path / "result/run") != content(finished)


def test_models_of_two_targets_are_not_averaged(made, tmp_path):
    _, run = made
    exams, features = ramp_exams(40)
    for entry in exams:
        entry["columns"]["other"] = entry["columns"]["label"]
    cache = make_cache(tmp_path, exams, features)
    mixed = tmp_path / "mixed"
    succeed("train", "--cache", cache, "--target", "other", "--out", mixed,
            *quick(*SHORT))
    shutil.copy(run / "models" / "fold-0-seed-0.safetensors", mixed / "models" / "x.safetensors")
    result = coldframe("predict", "--run", mixed, "--cache", cache, "--out", tmp_path / "p.csv")
    assert result.returncode == 3 and "x.safetensors" in result.stderr


@pytest.mark.parametrize("name", ["run", "run.unfinished"])
@pytest.mark.parametrize("config", ["", "{}", '{"coldframe": "a note"}', "[1]"])
def test_folders_that_are_no_runs_are_kept(made, tmp_path, name, config):
    mine = tmp_path / name
    mine.mkdir()
    (mine / "config.json").write_text(config)
    result = train(made[0], tmp_path / "run", *SHORT, "--overwrite")
    assert result.returncode == 2 and "choose another name" in result.stderr
    assert (mine / "config.json").read_text() == config


def test_a_sibling_of_the_user_is_left_alone(made, tmp_path):
    cache, finished = made
    out, mine = tmp_path / "run", tmp_path / "run.replaced"
    shutil.copytree(finished, out)
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    assert train(cache, out, *SHORT, "--overwrite").returncode == 0
    assert entries(mine) == ["notes.txt"] and entries(tmp_path) == ["run", "run.replaced"]


def relabelled(exams, change):
    for entry in exams:
        change(entry)
    return exams


def shift(entry):
    entry["time_s"] = [2 * t for t in entry["time_s"]]


@pytest.mark.parametrize("change", [lambda e: e.update(digest="new"), shift,
                                    lambda e: e["present"].__setitem__(0, 0)])
def test_a_run_is_not_resumed_on_other_features(tmp_path, change):
    exams, features = ramp_exams(40)
    cache, out = make_cache(tmp_path, exams, features), tmp_path / "run"
    interrupt(command(cache, out, *LONG), out)
    shutil.rmtree(cache)
    shutil.rmtree(tmp_path / "made.cache.source")
    make_cache(tmp_path, relabelled(exams, change), features)
    result = train(cache, out, *LONG, "--resume")
    assert result.returncode == 2 and "data_digest" in result.stderr


def test_a_run_is_not_resumed_with_other_layers_of_a_compared_model(tmp_path):
    cache, out, compared = ramp_cache(tmp_path, 40), tmp_path / "run", ["--compare", "transformer"]
    interrupt(command(cache, out, *LONG, *compared), out)
    result = train(cache, out, *LONG, *compared, "--layers", 1, "--resume")
    assert result.returncode == 2 and "layers" in result.stderr, result.stderr


def test_a_finished_run_is_not_measured_again(made, tmp_path):
    same = train(*made, *SHORT, "--resume", "--require", "memory=1KiB")
    assert same.returncode == 0 and "nothing to resume" in same.stderr, same.stderr
    assert not list(tmp_path.iterdir())


# A death within the publishing comes before the exchange, after it, or when the state has gone as well.
@pytest.mark.parametrize("died", ["before", "after", "later"])
@pytest.mark.parametrize("again", [["--resume"], ["--resume", "--overwrite"], ["--overwrite"]])
def test_a_death_while_publishing_can_be_resumed(made, tmp_path, died, again):
    cache, finished = made
    out, working = tmp_path / "run", tmp_path / "run.unfinished"
    words = [*SHORT, "--seed", 3]
    whole = tmp_path / "whole"
    assert train(cache, whole, *words).returncode == 0
    new, old = (working, out) if died == "before" else (out, working)
    shutil.copytree(whole, new)
    shutil.copytree(finished, old)
    if died != "later":
        (new / "lock").touch()
        (new / "state").mkdir()
    result = train(cache, out, *words, *again)
    assert result.returncode == 0, result.stderr
    assert content(out) == content(whole) and entries(out) == entries(whole)
    assert not working.exists()


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    exams, features = ramp_exams(60, dimension=384, frames=20)
    cache = make_cache(tmp_path, exams, features)
    for threads in (1, 7):  # one hold-out is one fit: it would get all seven
        result = train(cache, tmp_path / str(threads), "--folds", 1, "--threads", threads,
                       "--hidden", 64, "--epochs", 3)
        assert result.returncode == 0, result.stderr
    assert content(tmp_path / "1") == content(tmp_path / "7")
    config = json.loads((tmp_path / "7" / "config.json").read_text())
    assert config["threads_per_fit"] == 1


def test_the_first_failure_stops_the_other_fits(tmp_path):
    cache, out = ramp_cache(tmp_path, 60), tmp_path / "run"
    words = command(cache, out, "--folds", 2, "--epochs", 100000, "--patience", 0, "--threads", 2)
    process = subprocess.Popen([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, text=True)
    state = tmp_path / "run.unfinished" / "state"
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 75
    (state / "gru-repeat-0-fold-1-seed-0.checkpoint").write_text("damaged")
    result = coldframe(*words, "--resume", timeout=60)
    assert result.returncode == 3 and "fold-1" in result.stderr




def test_a_damaged_fit_is_named_and_can_be_done_anew(made, whole, tmp_path):
    cache, out = made[0], tmp_path / "run"
    interrupt(command(cache, out, *LONG), out)
    record = next((tmp_path / "run.unfinished" / "state").glob("*.record"))
    content_of = bytearray(record.read_bytes())
    content_of[-5] ^= 4  # in the middle of a number
    record.write_bytes(content_of)
    result = train(cache, out, *LONG, "--resume")
    assert result.returncode == 3 and f"{record.name}' does not fit its checksum" in result.stderr
    assert "delete it, and --resume" in result.stderr
    record.unlink()
    result = train(cache, out, *LONG, "--resume")
    assert result.returncode == 0, result.stderr
    assert content(out) == content(whole)


@pytest.mark.parametrize("of", ["weights", "card"])
def test_a_damaged_model_is_not_used(made, tmp_path, of):
    cache, run = made
    shutil.copytree(run, tmp_path / "run")
    model = next((tmp_path / "run" / "models").iterdir())
    damaged = bytearray(model.read_bytes())
    at = -3
    if of == "card":
        at = damaged.index(b"threshold") + 15
        assert chr(damaged[at]).isdigit()
    damaged[at] ^= 1
    model.write_bytes(damaged)
    result = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out",
                       tmp_path / "p.csv")
    assert result.returncode == 3 and "checksum" in result.stderr, result.stderr
    assert not (tmp_path / "p.csv").exists()


def test_an_unfinished_run_without_a_fit_is_in_nobodys_way(made, tmp_path):
    cache, run = made
    state = tmp_path / "run.unfinished" / "state"
    state.mkdir(parents=True)
    shutil.copy(run / "config.json", state.parent)
    result = train(cache, tmp_path / "run", *SHORT)
    assert result.returncode == 0, result.stderr
    assert entries(tmp_path) == ["run"] and content(tmp_path / "run") == content(run)


@pytest.mark.parametrize("kept", ["record", "checkpoint"])
def test_an_unfinished_run_with_a_fit_is_not_thrown_away(made, tmp_path, kept):
    cache, run = made
    state = tmp_path / "run.unfinished" / "state"
    state.mkdir(parents=True)
    shutil.copy(run / "config.json", state.parent)
    fit = state / f"gru-repeat-0-fold-0-seed-0.{kept}"
    fit.write_text("kept")
    result = train(cache, tmp_path / "run", *SHORT)
    assert result.returncode == 2 and "an unfinished run lies in" in result.stderr
    assert fit.read_text() == "kept"


def test_other_options_are_told_of_the_run_and_not_of_the_cache(made):
    cache, run = made
    other = train(cache, run, "--folds", 2, "--epochs", 2, "--resume")
    assert "fit.epochs: the run has 1, now 2" in other.stderr and "cache has" not in other.stderr


def test_a_run_keeps_how_devices_did_as_it_began(made, tmp_path):
    cache, _ = made
    run, tried = tmp_path / "run", {"cuda:0 (made up)": 0.0046, "cpu (made up)": 0.0005}
    interrupt(command(cache, run, *LONG), run)
    config = tmp_path / "run.unfinished" / "config.json"
    begun = json.loads(config.read_text())
    assert begun["device"] == "cpu" and "device_seconds_per_step" not in begun
    config.write_text(json.dumps(begun | {"device_seconds_per_step": tried}))
    for _ in ("unfinished", "finished"):
        result = train(cache, run, *LONG, "--device", "auto", "--resume")
        assert result.returncode == 0 and "device auto" not in result.stderr, result.stderr
        assert json.loads((run / "config.json").read_text()) == begun | {"device_seconds_per_step": tried}
    assert "0.0046" in (run / "report.html").read_text()


def test_an_unfinished_run_takes_other_questions(made, tmp_path):
    cache, _ = made
    run, asked = tmp_path / "run", {"at_specificity": 0.9, "prevalence": 0.3}
    interrupt(command(cache, run, *LONG, "--prevalence", 0.2), run)
    done = entries(tmp_path / "run.unfinished" / "state")
    refused = train(cache, run, *LONG, "--threshold", 0.3, "--resume")
    assert refused.returncode == 2 and "threshold" in refused.stderr
    assert entries(tmp_path / "run.unfinished" / "state") == done
    result = train(cache, run, *LONG, "--prevalence", 0.3, "--at-specificity", 0.9, "--figures", "--resume")
    assert result.returncode == 0, result.stderr
    assert json.loads((run / "summary.json").read_text())["asked"] == asked
    assert json.loads((run / "config.json").read_text())["questions"] == asked
    assert (run / "figures" / "roc.svg").exists()
