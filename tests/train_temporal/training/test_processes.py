"""train in several processes, as torchrun and srun start them: the results of one process, and a clear end when one
of them is lost."""
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from training_support import PROGRAM, coldframe, make_cache, quick, ramp_cache, ramp_exams

LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def words(cache, out, *more):
    return ["train", "--cache", cache, "--target", "label", "--out", out, *quick(*more)]


def torchrun(count, command):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", count,
                PROGRAM]
    return subprocess.run([str(word) for word in [*launcher, *command]], capture_output=True, text=True, timeout=200)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(environments, command):
    """One process for each of `environments`."""
    clean = {name: value for name, value in os.environ.items()
             if name not in LAUNCHER_VARIABLES and not name.startswith("SLURM_")}
    return [subprocess.Popen([PROGRAM, *map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=clean | {name: str(value) for name, value in environment.items()})
            for environment in environments]


def as_torchrun_does(count):
    port = free_port()
    return [{"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count,
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for rank in range(count)]


def content(run):
    return {path.name: path.read_bytes() for path in [*run.glob("models/*"), run / "predictions.csv",
                                                      run / "splits.csv"]}


def losses(run):
    return pd.read_csv(run / "metrics.csv")[["train_loss", "validation_loss"]].to_numpy()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return ramp_cache(tmp_path_factory.mktemp("processes"), 90, ragged=True)


FITS = ["--folds", 2, "--epochs", 8, "--batch", 24, "--train-frames", 6, "--micro-batch", 20]


def test_processes_equal_one_bit_for_bit(cache, tmp_path):
    alone = coldframe(*words(cache, tmp_path / "alone", *FITS))
    assert alone.returncode == 0, alone.stderr
    for count in (2, 3):
        result = torchrun(count, words(cache, tmp_path / str(count), *FITS, "--json"))
        assert result.returncode == 0, result.stderr
        assert f"{count} processes" in result.stderr
        assert result.stdout.count('"metrics"') <= 1, "only one process reports"
    assert content(tmp_path / "2") == content(tmp_path / "alone")
    np.testing.assert_allclose(losses(tmp_path / "2"), losses(tmp_path / "alone"), rtol=1e-12)
    np.testing.assert_allclose(losses(tmp_path / "3"), losses(tmp_path / "alone"), rtol=1e-5)


@pytest.mark.parametrize("model", ["lstm", "transformer", "tcn", "mean"])
def test_models_of_autograd_have_the_same_loss_curve(cache, tmp_path, model):
    fits = ["--model", model, "--folds", 1, "--epochs", 6, "--patience", 0]
    alone = coldframe(*words(cache, tmp_path / "alone", *fits))
    assert alone.returncode == 0, alone.stderr
    processes = start(as_torchrun_does(2), words(cache, tmp_path / "two", *fits))
    for process in processes:
        assert process.wait(timeout=100) == 0, process.stderr.read()
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "alone"), rtol=1e-5)


@pytest.mark.parametrize("model", ["gru", "lstm"])
def test_cox_s_loss_of_a_divided_batch_is_that_of_the_whole(tmp_path, model):
    exams, features = ramp_exams(90)
    for number, entry in enumerate(exams):
        entry["columns"].update(days=str(1 + number % 11 + 9 * (number % 2)), died=str(int(number % 3 > 0)))
    made = make_cache(tmp_path, exams, features)
    fits = ["--model", model, *FITS]
    command = [*words(made, tmp_path / "alone", *fits)]
    command[command.index("label")] = "days:died"
    alone = coldframe(*command)
    assert alone.returncode == 0, alone.stderr
    command[command.index(tmp_path / "alone")] = tmp_path / "two"
    for process in start(as_torchrun_does(2), command):
        assert process.wait(timeout=100) == 0, process.stderr.read()
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "alone"), rtol=1e-12 if model == "gru" else 1e-5)
    if model == "gru":
        assert content(tmp_path / "two") == content(tmp_path / "alone")


def test_regularisation_and_search_equal_those_of_one(cache, tmp_path):
    fits = [*FITS, "--noise", 0.5, "--mixup", 0.4, "--label-smoothing", 0.1, "--early-stopping-metric", "metric",
            "--search", 2]
    alone = coldframe(*words(cache, tmp_path / "alone", *fits))
    assert alone.returncode == 0, alone.stderr
    result = torchrun(2, words(cache, tmp_path / "two", *fits))
    assert result.returncode == 0, result.stderr
    assert content(tmp_path / "two") == content(tmp_path / "alone")
    assert (tmp_path / "two" / "search.csv").exists()


def test_srun_s_environment(cache, tmp_path):
    port = free_port()
    environments = [{"SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": rank,
                     "SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_NODELIST": "localhost", "MASTER_PORT": port}
                    for rank in range(2)]
    processes = start(environments, words(cache, tmp_path / "run", *FITS))
    said = [process.communicate(timeout=100)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert (tmp_path / "run" / "report.html").exists() and said[1] == ""


LONG = ["--folds", 1, "--seeds", 4, "--epochs", 400, "--patience", 0, "--hidden", 48]


@pytest.fixture(scope="module")
def long_run(cache, tmp_path_factory):
    """An uninterrupted run of LONG by one process."""
    out = tmp_path_factory.mktemp("long") / "run"
    result = coldframe(*words(cache, out, *LONG))
    assert result.returncode == 0, result.stderr
    return out


def one_error(text):
    errors = [line for line in text.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, text
    return errors[0]


@pytest.mark.parametrize("lost, send, said", [
    (1, signal.SIGKILL, "has ended or lost its connection"),
    (0, signal.SIGKILL, "has ended or lost its connection"),
    (1, signal.SIGSTOP, "hangs"),
    (0, signal.SIGSTOP, "hangs"),
])
def test_a_lost_process_ends_the_job_and_it_resumes(cache, long_run, tmp_path, lost, send, said):
    out = tmp_path / "run"
    command = words(cache, out, *LONG)
    processes = start(as_torchrun_does(2), command)
    state = tmp_path / "run.unfinished" / "state"
    while not any(state.glob("*.record")) and all(p.poll() is None for p in processes):
        time.sleep(0.01)
    processes[lost].send_signal(send)
    begun = time.monotonic()
    _, errors = processes[1 - lost].communicate(timeout=60)
    assert time.monotonic() - begun < 30
    processes[lost].kill()
    processes[lost].communicate()
    assert processes[1 - lost].returncode == 3
    message = one_error(errors)
    assert f"rank {lost} (" in message and said in message and "--resume" in message
    assert not out.exists()
    resumed = torchrun(2, [*command, "--resume"])
    assert resumed.returncode == 0, resumed.stderr
    assert content(out) == content(long_run)


def test_a_signal_to_one_stops_all_and_they_resume(cache, long_run, tmp_path):
    command = words(cache, tmp_path / "run", *LONG)
    processes = start(as_torchrun_does(2), command)
    state = tmp_path / "run.unfinished" / "state"
    while not any(state.glob("*.record")) and all(p.poll() is None for p in processes):
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGTERM)
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 75, errors
    alone = coldframe(*command, "--resume")  # by another number of processes
    assert alone.returncode == 0, alone.stderr
    assert content(tmp_path / "run") == content(long_run)


def test_an_error_of_one_is_told_to_all(cache, tmp_path):
    environments = as_torchrun_does(2)
    processes = start(environments[:1], words(cache, tmp_path / "run", *FITS))
    processes += start(environments[1:], words(cache, tmp_path / "run", *FITS, "--seed", 5))
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [3, 2], said
    assert "rank 1" in one_error(said[0]) and "seed" in said[0]
    assert "rank 1" in one_error(said[1]) and "seed" in said[1]


@pytest.mark.parametrize("environment, said", [
    ({"RANK": 0}, "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT are missing"),
    ({"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost"}, "MASTER_PORT is missing"),
    ({"SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 2}, "SLURM_PROCID is missing"),
    ({"RANK": 2, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost", "MASTER_PORT": 4000}, "RANK is 2"),
])
def test_an_environment_set_in_part_is_refused_by_name(cache, tmp_path, environment, said):
    process, = start([environment], words(cache, tmp_path / "run"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and said in one_error(errors)
    assert list(tmp_path.iterdir()) == []


def test_prediction_is_for_one_process(cache, tmp_path):
    process, _ = start(as_torchrun_does(2), ["predict", "--run", "x", "--cache", cache, "--out", tmp_path / "p.csv"])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "one process" in one_error(errors)
