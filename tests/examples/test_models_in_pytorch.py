"""examples/models_in_pytorch.py: what PyTorch makes of a run's models is what they say."""
import models_in_pytorch as example
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from training_support import make_cache, quick, ramp_exams, succeed, uneven

import coldframe
from coldframe.models import TemporalModel

KINDS = {
    "gru": {"bidirectional": True, "temporal_pool": "last"},
    "decay": {"architecture": "gru", "time_encoding": "decay"},
    "lstm": {"inputs": "both", "dimension": 18},
    "transformer": {"hidden": 32, "temporal_pool": "none"},
    "tcn": {"time_encoding": "time2vec", "layers": 2},
    "summary": {},
}


def built(kind):
    """A model with random weights and statistics, 6 features of a frame."""
    torch.manual_seed(0)
    model = TemporalModel.build({"model": {"architecture": kind, "temporal_pool": "attention", "time": True, "time_encoding": "log",
                                           "hidden": 16, "layers": 1, "bidirectional": False, "dimension": 6, "classes": 3,
                                           "dropout": 0.3, "linear": False, **KINDS[kind]}}).eval()
    for name, values in model.named_buffers():
        values.copy_(torch.tensor([7, 4, 3]) if name == "family" else torch.rand_like(values) + 0.5)
    return model


def batch(exams, frames, seed):
    """Of uneven lengths and times, one of which has none."""
    generator = torch.Generator().manual_seed(seed)
    times = torch.rand(exams, frames, generator=generator, dtype=torch.float64).cumsum(1)
    times[1] = torch.nan
    return (torch.randn(exams, frames, 6, generator=generator), times,
            torch.cat([torch.tensor([frames, 1]), torch.randint(1, frames + 1, (exams - 2,), generator=generator)]))


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_compute_what_the_modules_do(tmp_path, kind):
    """Of ONNX, for another number of exams than it was exported with, and of torch.compile, in one piece."""
    model = built(kind)
    example.export_onnx(model, batch(3, 4, seed=1), tmp_path / "x.onnx")
    onnx.checker.check_model(str(tmp_path / "x.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "x.onnx"), providers=["CPUExecutionProvider"])
    inputs = batch(5, 4, seed=2)
    feed = dict(zip(["features", "times", "lengths"], (part.numpy() for part in inputs)))
    with torch.no_grad():
        expected = model(*inputs)
        found, = session.run(None, {entry.name: feed[entry.name] for entry in session.get_inputs()})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        if kind != "lstm" or torch.__version__ < (2, 13):  # PyTorch 2.15 does not compile torch.lstm: "cond_fn might be aliasing the input"
            torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs), expected, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A run on exams of three frames, a cache, and what the example makes of them."""
    folder = tmp_path_factory.mktemp("study")
    exams, features = ramp_exams(24, frames=3)
    cache = make_cache(folder, uneven(exams, 0), features)
    succeed("train", "--cache", cache, "--target", "label", "--out", folder / "run", *quick("--model", "mean", "--folds", 2, "--epochs", 3))
    example.main(folder / "run", cache, folder / "out")
    return folder, coldframe.open(cache), coldframe.Run(folder / "run")


def test_compiled_it_gives_the_same(study):
    _, cache, run = study
    model, inputs = run.model(0), example.batch_of(cache, "label")
    with torch.no_grad():
        torch.testing.assert_close(example.compiled(model)(*inputs), model(*inputs), rtol=1e-6, atol=1e-6)


def test_contributions_add_up_to_the_probability(study):
    """From that of the training's mean frame."""
    folder, cache, run = study
    model, inputs = run.model(0), example.batch_of(cache, "label")
    table = pd.read_csv(folder / "out" / "contributions.csv").to_numpy()
    with torch.no_grad():
        at, base = (model.predictions(model(x, *inputs[1:]))["label"][:, 1] for x in (inputs[0], model.feature_mean.expand_as(inputs[0])))
    np.testing.assert_allclose(table.sum(1), at - base, atol=1e-4)
    assert (table[inputs[2] == 2, 2] == 0).all() and np.abs(table).max() > 1e-3


def test_tensorboard_has_the_epochs(study):
    folder, _, run = study
    events = EventAccumulator(str(next((folder / "out" / "tensorboard").glob("mean-0-1-0/loss_validation")))).Reload()
    epochs = run.epochs.query("fold == 1")
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [
        (step, pytest.approx(loss, rel=1e-6)) for step, loss in zip(epochs.epoch, epochs.validation_loss)]
    events = EventAccumulator(str(folder / "out" / "tensorboard" / "mean-0-1-0")).Reload()
    assert [event.value for event in events.Scalars("validation_figure")] == pytest.approx(list(epochs.validation_figure), rel=1e-6)
