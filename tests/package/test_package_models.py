"""The modules of coldframe.models equal `coldframe predict` for every kind of model, and are PyTorch's in all else."""
import functools

import numpy as np
import pandas as pd
import pytest
import torch
from training_support import exam, make_cache, quick, succeed

import coldframe
from coldframe.models import TemporalModel, turned

WIDTH, STREAMS = 6, ["FA", "ICGA"]
TIMES, DECAY, TIME2VEC = (["--time", "on"], *(["--time", "on", "--time-encoding", word] for word in ("decay", "time2vec")))
COVARIATES, GATED = ["--covariates", "age,sex"], ["--fusion", "gated"]
# name: the cohort, and words of `train`
KINDS = {
    "gru": ("plain", ["--time", "off"]),
    "gru-last-2": ("plain", ["--temporal-pool", "last", "--layers", 2, *TIMES]),
    "gru-mean": ("plain", ["--temporal-pool", "mean", *TIMES]),
    "gru-time2vec": ("plain", ["--temporal-pool", "last", *TIME2VEC]),
    "gru-decay-2": ("plain", ["--layers", 2, *DECAY]),
    "gru-both-ways-last-2": ("plain", ["--bidirectional", "--temporal-pool", "last", "--layers", 2, *TIMES]),
    "gru-elapsed": ("elapsed", []),
    "gru-elapsed-decay": ("elapsed", ["--time-encoding", "decay"]),
    "gru-change": ("plain", ["--inputs", "change"]),
    "gru-both-covariates": ("plain", ["--inputs", "both", *COVARIATES, "--covariates-at", "frames"]),
    "gru-frames": ("frames", ["--layers", 2, *TIMES]),
    "gru-frames-covariates": ("frames", COVARIATES),
    "gru-frames-inputs": ("frames", [*COVARIATES, "--covariates-at", "frames"]),
    "gru-tasks": ("tasks", ["--target", "label,dose,grade:ordinal,sex,days:died:cox"]),
    "gru-streams": ("streams", TIMES),
    "gru-gated": ("streams", [*GATED, *TIMES]),
    "gru-visits": ("visits", []),
    "bigru": ("plain", ["--model", "bigru"]),
    "bigru-frames": ("frames", ["--model", "bigru"]),
    "lstm-2": ("plain", ["--model", "lstm", "--layers", 2, *TIMES]),
    "lstm-both-ways-last": ("plain", ["--model", "lstm", "--bidirectional", "--temporal-pool", "last"]),
    "lstm-covariates": ("plain", ["--model", "lstm", *COVARIATES]),
    "transformer": ("plain", ["--model", "transformer", "--time", "off"]),
    "transformer-last": ("plain", ["--model", "transformer", "--temporal-pool", "last", "--hidden", 32, *TIMES]),
    "transformer-time2vec": ("plain", ["--model", "transformer", "--layers", 1, *TIME2VEC]),
    "transformer-elapsed": ("elapsed", ["--model", "transformer"]),
    "transformer-frames": ("frames", ["--model", "transformer"]),
    "transformer-streams": ("streams", ["--model", "transformer", *COVARIATES, "--covariates-at", "frames"]),
    "tcn": ("plain", ["--model", "tcn", "--time", "off"]),
    "tcn-last": ("plain", ["--model", "tcn", "--temporal-pool", "last", "--layers", 2, *TIMES]),
    "tcn-elapsed": ("elapsed", ["--model", "tcn", "--temporal-pool", "mean"]),
    "attention": ("plain", ["--model", "attention"]),
    "attention-gated": ("streams", ["--model", "attention", *GATED, *COVARIATES]),
    "mean": ("plain", ["--model", "mean", *COVARIATES]),
    "mean-change": ("plain", ["--model", "mean", "--inputs", "change"]),
    "single": ("plain", ["--model", "single"]),
    "single-first": ("plain", ["--model", "single", "--single-frame", "first"]),
    "single-last": ("plain", ["--model", "single", "--single-frame", "last"]),
    "single-frames": ("frames", ["--model", "single"]),
    "summary": ("plain", ["--model", "summary"]),
    "summary-covariates": ("plain", ["--model", "summary", *COVARIATES]),
    "summary-streams": ("streams", ["--model", "summary", *COVARIATES]),
    "summary-visits": ("visits", ["--model", "summary"]),
    "shuffled": ("alike", ["--model", "shuffled", *TIMES]),
    "blank": ("plain", ["--model", "blank", *TIMES]),
    "clock": ("plain", ["--model", "clock"]),
    "clock-elapsed": ("elapsed", ["--model", "clock"]),
    "clock-frames": ("frames", ["--model", "clock"]),
    "covariates": ("plain", ["--model", "covariates", *COVARIATES]),
    "covariates-frames": ("frames", ["--model", "covariates", *COVARIATES]),
}


@functools.cache
def cohort(folder, kind):
    """A cache of exams of different lengths, with missing frames and uneven times, some unknown; and options of `train`."""
    random, exams, features = np.random.default_rng(len(kind)), [], []
    for number in range(36):
        frames = 8 - number % 3
        values = random.uniform(-1, 1, (1 if kind == "alike" else frames, WIDTH)) + np.zeros((frames, 1))
        values[:, 0] += number % 2
        columns = {"label": str(number % 2), "dose": f"{random.normal():.3f}", "grade": str(number % 3), "sex": "FM D"[number % 4].strip(),
                   "age": "" if number % 9 == 0 else f"{random.uniform(40, 80):.1f}", "days": str(1 + number % 7), "died": str(number % 4 // 2)}
        entry = exam(number, frames, "", columns=columns, width=60 + number, kind=["images", "video"][number % 2],
                     time_s=[None if number % 5 == 0 or (number % 7 == 1 and t == 2) else float(s) for t, s in
                             enumerate(np.append(0, random.uniform(0.05, 2, frames - 1)).cumsum())],
                     present=[int(number % 4 > 0 or t != 2) for t in range(frames)],
                     frame_columns={"late": [str(int(t > 3)) for t in range(frames)], "level": [f"{v:.3f}" for v in values[:, 1]]})
        if kind == "streams":  # of each instant FA, ICGA, or both
            entry["frame_columns"]["stream"] = [STREAMS[t % 2] for t in range(frames)]
            entry["time_s"] = [float(t // 2 if number % 3 else t) for t in range(frames)]
        if kind == "elapsed":
            entry["elapsed_start"] = 8.0 + 7 * number
        if kind == "visits":
            entry |= {"patient": f"patient-{number // 3}", "time_s": [0.5 * t for t in range(frames)]}
            columns["day"] = str(30 * (number % 3))
        exams.append(entry)
        features.append(values)
    target = {"frames": "late,level", "tasks": ""}.get(kind, "label,dose")
    more = {"streams": ["--streams", "stream"], "visits": ["--visits", "day"]}.get(kind, [])
    return make_cache(folder, exams, features, name=f"{kind}.cache"), [*(["--target", target] if target else []), *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@functools.cache
def trained(folder, name):
    """The cache and the run of one of KINDS."""
    kind, words = KINDS[name]
    cache, more = cohort(folder, kind)
    succeed("train", "--cache", cache, "--out", folder / name, *quick("--folds", 2, "--epochs", 2, "--bootstrap", 20, *more, *words))
    return coldframe.open(cache), coldframe.Run(folder / name)


def merged(cache, row):
    """[instants, 2 D + 2] and times of an exam of two streams, of which one may lack."""
    table, values = cache.frames(row), cache.features(row)
    instants = sorted(set(table.time_s[table.present]))
    rows = np.full((len(instants), 2 * WIDTH + 2), np.nan, np.float32)
    rows[:, 2 * WIDTH:] = 0
    for time, stream, frame in zip(table.time_s[table.present], table.stream[table.present], values[table.present]):
        at, number = instants.index(time), STREAMS.index(stream)
        rows[at, number * WIDTH:(number + 1) * WIDTH], rows[at, 2 * WIDTH + number] = frame, 1
    return rows, np.array(instants)


def joined(cache, row):
    """The frames and times of an exam behind those of its patient's earlier ones, and how many the first and it have."""
    of = cache.exams.patient[row]
    parts = [part for part in range(len(cache)) if cache.exams.patient[part] == of and cache.exams.day[part] <= cache.exams.day[row]]
    parts.sort(key=lambda part: cache.exams.day[part])
    there = [cache.present(part) for part in parts]
    times = [cache.times(part)[kept] + 86400 * (cache.exams.day[part] - cache.exams.day[parts[0]]) for part, kept in zip(parts, there)]
    own = [kept.sum() for kept in there] if len(parts) > 1 else [0]
    return np.concatenate([cache.features(part)[kept] for part, kept in zip(parts, there)]), np.concatenate(times), (own[0], own[-1])


def inputs_of(model, cache, kind):
    """The arguments of the module for all exams of a cache; what lies behind an exam's last frame is rubbish."""
    rows, seconds, visits, clocks = [], [], [], []
    for row in range(len(cache)):
        present, both = cache.present(row), (0, 0)
        x, times = cache.features(row)[present], cache.times(row)[present]
        if kind == "streams":
            x, times = merged(cache, row)
        if kind == "visits":
            x, times, both = joined(cache, row)
        rows.append(torch.from_numpy(x))
        seconds.append(torch.from_numpy(times))
        visits.append(both)
        if model.card["model"]["architecture"] == "clock":
            clocks.append(model.clock_inputs(seconds[-1], missing=int((~present).sum()), width=60 + row, height=64,
                                             kind=["images", "video"][row % 2], start=cache.exams.elapsed_start[row]))

    def padded(parts):
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=float("nan"))

    covariates = model.encode_covariates(cache.exams.to_dict("records")) if "covariates" in model.card else None
    return (padded(rows), padded(seconds), torch.tensor([len(x) for x in rows]), covariates), {
        "starts": torch.tensor(cache.exams.elapsed_start.to_numpy()), "visits": torch.tensor(np.array(visits)),
        "clock": torch.stack(clocks) if clocks else None}


def columns_of(target, several):
    """The columns that `predict` has of a target."""
    if target["task"] == "regression":
        names = ["predicted"]
    elif target["task"] == "cox":
        names = ["risk", *(f"survival_{horizon:g}" for horizon in target["horizons"])]
    else:
        names = [f"p_{name}" for name in target["classes"]]
    return [f"{target['name']}:{name}" for name in names] if several else names


@pytest.mark.parametrize("name", KINDS)
def test_predict_equals_the_module(folder, name):
    cache, run = trained(folder, name)
    succeed("predict", "--run", run.path, "--cache", cache.path, "--out", folder / f"{name}.csv")
    table, models = pd.read_csv(folder / f"{name}.csv"), run.models()
    assert [model.card["fold"] for model in models] == [0, 1] and not models[0].training
    found, targets = {}, models[0].card["targets"]
    for model in models:
        positional, named = inputs_of(model, cache, KINDS[name][0])
        with torch.no_grad():
            outputs = model(*positional, **named)
        for target, read in model.predictions(outputs.double()).items():
            found[target] = found.get(target, 0) + read / len(models)
    for target in targets:
        read = found[target["name"]]
        read = read[..., None] if target["task"] == "regression" else read
        if target["per_frame"]:
            lengths = positional[2]
            assert all((part[length:] == 0).all() for part, length in zip(outputs, lengths))
            read = torch.cat([part[:length] for part, length in zip(read, lengths)])
        told = table[columns_of(target, len(targets) > 1)].to_numpy(float)
        np.testing.assert_allclose(read.numpy(), told, rtol=1e-6, atol=1e-6)
        assert told[:, 0].std() > 1e-4, "the models must tell exams apart for this to mean anything"


def test_controls_and_held_out_predictions(folder):
    """Each fold's exams are predicted by its own fit."""
    cache, more = cohort(folder, "streams")
    succeed("train", "--cache", cache, "--out", folder / "controls", "--compare", "mean,only-ICGA,only-FA",
            *quick("--folds", 2, "--epochs", 2, "--bootstrap", 20, *more, *GATED))
    cache, run = coldframe.open(cache), coldframe.Run(folder / "controls")
    for control in (None, "mean", "only-ICGA", "only-FA"):
        table = (run.predictions if control is None else run.control(control)).set_index("exam")
        for fold in (0, 1):
            model = run.model(fold, control=control)
            positional, named = inputs_of(model, cache, "streams")
            with torch.no_grad():
                doses = model.predictions(model(*positional, **named))["dose"]
            for exam_id, row in table[table.fold == fold].iterrows():
                assert doses[cache.row(exam_id)].item() == pytest.approx(row["dose:predicted"], abs=1e-6)


GRADIENTS = ["gru-both-ways-last-2", "gru-elapsed-decay", "gru-gated", "gru-both-covariates", "lstm-2", "transformer-last", "tcn-last",
             "attention", "single", "summary-streams", "summary", "gru-frames-inputs", "blank"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_differences(folder, name):
    """By autograd and by finite differences, in float64; none reaches what lies behind an exam's last frame."""
    cache, run = trained(folder, name)
    model = run.model(0).double()
    (features, times, lengths, covariates), named = inputs_of(model, cache, KINDS[name][0])
    few = slice(1, 3)
    features, covariates = features[few].double(), None if covariates is None else covariates[few]
    named = {key: None if value is None else value[few] for key, value in named.items()}
    known = ~features.isnan()
    torch.manual_seed(0)  # no two frames alike, where a maximum and a deviation have a kink
    values = (features[known] + 0.01 * torch.randn(int(known.sum()))).requires_grad_()

    def outputs(values):
        return model(features.clone().masked_scatter(known, values), times[few], lengths[few], covariates, **named)

    assert torch.autograd.gradcheck(outputs, values)
    x = features.clone().requires_grad_()
    model(x, times[few], lengths[few], covariates, **named).sum().backward()
    beyond = torch.arange(x.shape[1]) >= lengths[few, None]
    assert (x.grad[beyond] == 0).all() and (x.grad.isfinite()).all() and (name == "blank" or x.grad.abs().max() > 0)


def by_hand(family, x, seconds):
    """The summary of one feature over the frames that have it."""
    x, seconds = x[~np.isnan(x)], seconds[~np.isnan(x)]
    if not len(x):
        return np.nan
    if family == 7:
        timed = ~np.isnan(seconds)
        return np.nan if not timed.any() else np.polyfit(seconds[timed], x[timed], 1)[0] if timed.sum() > 1 else 0
    return [x.mean, x.max, x.min, x.std, lambda: x[0], lambda: x[-1], lambda: x[-1] - x[0]][family]()


def test_summaries_of_every_family():
    random = np.random.default_rng(0)
    x, seconds = random.normal(size=(3, 5, 8)), random.uniform(0.1, 2, (3, 5)).cumsum(1)
    x[0, 2:4, 0], x[1, :, 1], x[1, 0, 2], x[2, 1:, 3], seconds[1, 1], seconds[2, :3] = [np.nan] * 6
    lengths = [5, 4, 3]
    for family in range(9):
        for per_second in (0, 1) if family == 7 else (0,):
            model = TemporalModel.build({"model": {"architecture": "summary", "dimension": 8, "classes": 8, "temporal_pool": "mean",
                                                   "dropout": 0, "streams": ["a", "b"], "fusion": "concat"}}).double()
            model.head.weight.data, model.head.bias.data = torch.eye(8).double(), torch.zeros(8).double()
            model.family.fill_(family), model.per_second.fill_(per_second), model.summary_std.fill_(1), model.summary_mean.fill_(-1)
            visits = torch.tensor([[2, 2], [1, 3], [0, 0]])
            with torch.no_grad():
                found = model(torch.from_numpy(x), torch.from_numpy(seconds), torch.tensor(lengths), visits=visits)
            for b, length in enumerate(lengths):
                for d in range(8):
                    own = x[b, :length, d]
                    place = seconds[b, :length] - seconds[b, 0] if per_second else np.arange(length)
                    if family == 8:
                        first, last = visits[b].tolist()
                        parts = [own[length - last:], own[:first]] if last else [own, own]
                        empty = any(np.isnan(part).all() for part in parts)
                        expected = np.nan if empty else np.nanmean(parts[0]) - np.nanmean(parts[1])
                    else:
                        expected = by_hand(family, own, place)
                    # Less the mean of −1; one that no frame has counts as its mean.
                    assert found[b, d].item() == pytest.approx(0 if np.isnan(expected) else expected + 1, abs=1e-6), (family, b, d)


def test_without_times_the_transformer_is_pytorchs():
    """Where all frames stand in one place rotary positions turn nothing."""
    torch.manual_seed(0)
    config = {"architecture": "transformer", "temporal_pool": "none", "time": False, "time_encoding": "log", "hidden": 48,
              "layers": 3, "bidirectional": False, "dimension": 5, "classes": 2, "dropout": 0.0}
    model = TemporalModel.build({"model": config}).eval()
    x, beyond = torch.randn(4, 9, 48), torch.arange(9)[None] >= torch.tensor([9, 4, 1, 7])[:, None]
    with torch.no_grad():
        ours = model.attend(x, torch.zeros(4, 9, dtype=torch.float64), beyond)
        theirs = model.transformer(x, src_key_padding_mask=beyond)
    torch.testing.assert_close(ours[~beyond], theirs[~beyond], rtol=1e-6, atol=1e-6)


def test_places_turn_queries_and_keys_as_in_gpt_neox():
    from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 3, 7, 16).unbind()
    place = torch.rand(2, 7).cumsum(1)
    angle = place[..., None] * 10000 ** (-torch.arange(0, 16, 2) / 16)
    angle = torch.cat([angle, angle], -1)
    theirs = apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    for part, expected in zip((q, k), theirs):
        torch.testing.assert_close(turned(part, place.double()), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind, layers", [("gru", 2), ("lstm", 2)])
def test_recurrence_is_pytorchs_on_packed_sequences(kind, layers):
    torch.manual_seed(0)
    model = TemporalModel.build({"model": {"architecture": kind, "temporal_pool": "none", "time": False, "time_encoding": "log", "hidden": 7,
                                           "layers": layers, "bidirectional": True, "dimension": 5, "classes": 2, "dropout": 0.0}}).eval()
    theirs = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[kind](7, 7, layers, batch_first=True, bidirectional=True)
    theirs.load_state_dict(getattr(model, kind).state_dict())
    x, lengths = torch.randn(3, 6, 5), torch.tensor([2, 6, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(model.project(x), lengths, batch_first=True, enforce_sorted=False)
    states, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    found = model(x, lengths=lengths)
    for b, length in enumerate(lengths):
        torch.testing.assert_close(found[b, :length], model.head(states)[b, :length], rtol=1e-6, atol=1e-6)


def test_a_loader_s_batches_go_in(folder):
    """Without the frames that are missing, which the program leaves out."""
    cache, run = trained(folder, "gru-last-2")
    model = run.model(1)
    positional, named = inputs_of(model, cache, "plain")
    data = coldframe.ExamDataset(cache, "label")
    features, times, present, _ = coldframe.collate([data[row] for row in range(len(data))])
    assert not present[:, 0].all() or (~present).any()
    with torch.no_grad():
        torch.testing.assert_close(model(*coldframe.drop_missing(features, times, present)), model(*positional, **named))


def test_covariates_are_spelt_as_the_program_takes_them():
    columns = [{"name": "age", "mean": 60.0, "deviation": 10.0, "missing": True}, {"name": "site", "categories": ["Süd 1", "2"], "missing": True},
               {"name": "flat", "mean": 1.0, "deviation": 0.0, "missing": False}]
    model = TemporalModel.build({"model": {"architecture": "covariates", "covariates": 6, "covariates_at": "head", "dimension": 4, "classes": 2,
                                           "hidden": 3, "temporal_pool": "mean", "dropout": 0.0}, "covariates": columns})
    rows = [{"age": 70, "site": "SU\u0308D1", "flat": 5}, {"age": "50", "site": 2.0, "flat": ""}, {"age": float("nan"), "site": "3", "flat": 1},
            {"age": None, "site": "", "flat": None}]
    assert model.encode_covariates(rows).tolist() == [[1, 0, 1, 0, 0, 0], [-1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0]]
    with pytest.raises(KeyError, match="flat"):
        model.encode_covariates([{"age": 70, "site": "2"}])


def test_what_is_wrong_is_said(folder, tmp_path):
    cache, run = trained(folder, "gru-both-covariates")
    model = run.model(0)
    with pytest.raises(ValueError, match=r"features are \[2, 3, 5\]; expected \[B, T, 6\]"):
        model(torch.zeros(2, 3, 5))
    with pytest.raises(ValueError, match="covariates are None numbers; expected 6: take encode_covariates"):
        model(torch.zeros(2, 3, 6))
    with pytest.raises(FileNotFoundError, match="no fit of fold 2, seed 0, repeat 0"):
        run.model(2)
    with pytest.raises(FileNotFoundError, match="no model at .*controls/mean; expected"):
        run.models("mean")
    _, clock = trained(folder, "clock")
    with pytest.raises(ValueError, match="`clock` needs clock=clock_inputs"):
        clock.model(0)(torch.zeros(2, 3, 6))
    for content, says in [(b"", "is no safetensors file"), (b"\2" + bytes(7) + b"{}", "is of the format None; expected coldframe.temporal.1")]:
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=says):
            TemporalModel.load(tmp_path / "x.safetensors")


def test_fits_are_found_by_their_numbers(folder):
    cache, more = cohort(folder, "plain")
    succeed("train", "--cache", cache, "--out", folder / "repeated", *quick("--folds", 2, "--epochs", 1, "--bootstrap", 20, "--seeds", 2,
                                                                            "--repeats", 2, *more))
    run = coldframe.Run(folder / "repeated")
    numbers = [tuple(model.card[name] for name in ("repeat", "fold", "seed")) for model in run.models()]
    assert numbers == [(repeat, fold, seed) for repeat in range(2) for fold in range(2) for seed in range(2)]
    chosen = run.model(1, seed=1, repeat=1)
    same = TemporalModel.load(run.path / "models" / "repeat-1-fold-1-seed-1.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(chosen.state_dict().values(), same.state_dict().values(), strict=True))
