"""`coldframe plan`: its figures hang together, and its answers are those of its table."""
import functools
import json
import re

import pytest
import timm
import transformers
from safetensors.torch import save_file
from training_support import coldframe
from tuning_support import BLOCKS, CUT, PIXELS, SIDE, cut_cache, extract, made_exams, tiny_vit

from coldframe.models import TemporalModel

GIB = 2**30
TINY = "vit_tiny_patch16_224"


@functools.cache
def plan(*words):
    device = [] if "--device" in words else ["--device", "cuda"]  # also where no GPU is there
    done = coldframe("plan", *words, *device, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def ways(report, blocks, lora=0):
    return {way["schedule"]: way for way in report["ways"]
            if (way["blocks"], way["lora_rank"]) == (blocks, lora)}


@pytest.fixture(scope="module")
def small():
    return plan("vit_small_patch16_224")


def test_parts_make_up_the_peak(small):
    for way in small["ways"]:
        parts = way["bytes"]
        beside = sum(parts[name] for name in ("weights", "gradients", "optimizer", "inputs", "allocator", "context"))
        assert parts["peak"] == beside + max(parts["activations"], parts["temporal"])
        counts = [way["most_exams"][f"{card}GiB"] for card in (8, 11, 16, 24, 40, 80)]
        assert counts == sorted(counts)
        assert (way["most_exams"]["24GiB"] >= 16) == (parts["peak"] <= 24 * GIB)


def test_parameters_are_timms(small):
    model = timm.create_model("vit_small_patch16_224", num_classes=0)
    count = sum(p.numel() for p in model.parameters())
    end = ways(small, 12)["none"]
    gru = small["ways"][0]["trained_parameters"]
    assert end["trained_parameters"] == count + gru
    assert end["bytes"]["weights"] == 4 * (2 * count + gru)  # as they were, and as they become
    assert end["bytes"]["optimizer"] == 4 * 4 * (count + gru)
    last = ways(small, 2)["none"]
    trained = sum(p.numel() for part in (*model.blocks[-2:], model.norm) for p in part.parameters())
    assert last["trained_parameters"] == trained + gru
    assert last["bytes"]["weights"] == 4 * (count + trained + gru)
    lora = ways(small, 12, 8)["none"]
    assert lora["trained_parameters"] == 12 * 8 * (384 + 3 * 384 + 384 + 384) + gru


@pytest.mark.parametrize("name, layers", [("gru", 1), ("lstm", 1), ("transformer", 2), ("tcn", 3), ("attention", 1)])
def test_parameters_of_temporal_models_are_pytorchs(name, layers):
    config = {"architecture": name, "hidden": 64, "layers": layers, "dimension": 192, "classes": 1, "dropout": 0.0,
              "bidirectional": False, "temporal_pool": "attention", "time": name != "attention", "time_encoding": "log"}
    cached = plan(TINY, "--temporal", name)["ways"][0]
    assert cached["trained_parameters"] == sum(p.numel() for p in TemporalModel.build({"model": config}).parameters())
    assert cached["bytes"]["temporal"] > 4 * 16 * 20 * 2 * 192


def end_to_end(report):
    """None, cheap, and within each part of the memory."""
    end = [way for way in report["ways"] if (way["blocks"], way["lora_rank"]) == (12, 0)]
    none, cheap, *shares = [way for way in end if way["share"] or way["schedule"] in ("none", "cheap")]
    assert [way["share"] for way in shares] == [2, 3, 5, 10]
    for way in shares:
        assert way["bytes"]["activations"] <= none["bytes"]["activations"] / way["share"]
    return none, cheap, *shares


def test_less_memory_takes_more_time_within_an_exam():
    none, cheap, *shares = end_to_end(plan("vit_small_patch16_224", "--exams", 1, "--frames", 64))
    assert cheap["bytes"]["activations"] <= 0.67 * none["bytes"]["activations"]  # 0.6 of what is kept, and what a part needs
    work = [way["step_seconds"] / none["step_seconds"] for way in (none, cheap, *shares)]
    assert work[-1] > work[1]
    assert all(way["exams_at_once"] == 1 for way in shares)


def test_exams_in_turn_take_less_memory_and_no_more_time(small):
    none, cheap, *shares = end_to_end(small)
    for way in shares:
        assert way["exams_at_once"] < 16 and way["step_seconds"] <= 1.1 * cheap["step_seconds"]
        assert way["schedule"] == f"cheap, {way['exams_at_once']} exams at a time"
    last = ways(small, 12)
    one, frame = last["cheap, 1 exam at a time"], last["cheap, 1 exam at a time, 1 frame at a time"]
    assert frame["bytes"]["peak"] < one["bytes"]["peak"] < shares[-1]["bytes"]["peak"]
    # What an exam takes by itself, beside the batch's rows.
    alone = ways(plan("vit_small_patch16_224", "--exams", 1), 12)["cheap"]
    assert one["bytes"]["activations"] == alone["bytes"]["activations"]
    assert 59e6 < none["bytes"]["activations"] / 320 < 70e6  # as hooks measure it in PyTorch


@pytest.mark.parametrize("memory,code", [("24GiB", 0), ("2GiB", 0), ("600MiB", 1)])
def test_the_answer_is_that_of_the_table(memory, code):
    words = ["plan", "vit_small_patch16_224", "--device", "cuda", "--memory", memory]
    done = coldframe(*words)
    assert done.returncode == code, done.stderr
    answer = json.loads(coldframe(*words, "--json").stdout)["answer"]
    assert answer["fits"] == (code == 0)
    assert re.match(r"(Yes|Yes, by another schedule|No): end to end at 16 × 20 frames", done.stdout)
    assert len(done.stdout.splitlines()) <= 25
    limit = answer["memory"]
    for number, change in enumerate(answer["changes"]):
        assert change["way"]["bytes"]["peak"] <= limit
        told = change["way"]["schedule"] if answer["fits"] and number == 0 else change["change"]
        assert told in done.stdout
    if answer["fits"]:
        assert answer["fastest"]["bytes"]["peak"] <= limit
        assert (answer["fastest"]["schedule"] == "cheap") == (answer["changes"] == [])


def test_all_ways_stand_behind_an_option():
    few, all_ways = (coldframe("plan", "vit_small_patch16_224", *words).stdout for words in ([], ["--all"]))
    assert len(few.splitlines()) <= 25 and "The most exams of 20 frames in a step on a card" in all_ways
    assert "last block" in few and "in 1/10" in few and "exams at a time" in all_ways
    assert "optimal" in coldframe("plan", "vit_small_patch16_224", "--all", "--coupled").stdout
    assert all("chunks of N frames" in text for text in (few, all_ways))


def save(folder, name):
    weights = folder / "model.safetensors"
    save_file(timm.create_model(name, num_classes=0).state_dict(), weights)
    return weights


@pytest.mark.parametrize("name", [TINY, "vit_small_patch16_dinov3"])  # with absolute positions, and without
def test_weights_are_what_their_name_is(tmp_path, name):
    by_name, by_file = plan(name), plan(save(tmp_path, name), "--architecture", name)
    peaks = [[way["bytes"]["weights"] for way in report["ways"]] for report in (by_file, by_name)]
    assert peaks[0] == peaks[1] and by_file["image_size"] == by_name["image_size"]


def test_weights_that_show_no_image_size(tmp_path):
    weights = save(tmp_path, "vit_small_patch16_dinov3")
    done = coldframe("plan", weights)
    assert done.returncode == 2 and "--image-size" in done.stderr
    assert plan(weights, "--image-size", 96)["image_size"] == [96, 96]
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "vit_small_patch16_dinov3", "num_classes": 0,
                                                      "pretrained_cfg": {"input_size": [3, 192, 192]}}))
    assert plan(weights)["image_size"] == [192, 192]


def test_images_are_as_large_as_extract_makes_them(tmp_path):
    """DINOv2's positions and config.json are of 518 pixels, and its preprocessor_config.json makes images of 224."""
    model = transformers.Dinov2Model(transformers.Dinov2Config(hidden_size=192, num_attention_heads=3, num_hidden_layers=2,
                                                               image_size=518, patch_size=14))
    model.save_pretrained(tmp_path)
    pixels = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224},
              "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(pixels))
    assert plan(tmp_path)["image_size"] == [224, 224]
    assert plan(tmp_path, "--image-size", 56)["image_size"] == [56, 56]


def test_a_cache_says_the_sizes(tmp_path):
    exams = made_exams(tmp_path / "exams", 5, frames=3)
    weights = tiny_vit(tmp_path / "tiny.safetensors")
    cache = cut_cache(exams, weights, tmp_path / "made.cache")
    report = plan("--cache", cache, "--memory", "8GiB")
    assert report["image_size"] == [SIDE, SIDE] and report["frames"] == 3 and report["architecture"]["depth"] == BLOCKS
    assert report["answer"]["fastest"]["blocks"] == BLOCKS - CUT  # all that lie behind the cut
    by_hand = plan(weights, "--image-size", SIDE, "--frames", 3, "--tune-blocks", BLOCKS - CUT, "--memory", "8GiB",
                   "--epoch-exams", 5)
    for ours, theirs in zip(report["ways"], by_hand["ways"], strict=True):
        same = ("weights", "gradients", "optimizer", "inputs", "temporal")
        assert [ours["bytes"][part] for part in same] == [theirs["bytes"][part] for part in same]
        # Which schedule is the fastest is measured in each run.
        assert ours["bytes"]["peak"] == pytest.approx(theirs["bytes"]["peak"], rel=0.02)
    assert plan("--cache", cache, "--frames", 7)["frames"] == 7
    refused = coldframe("plan", "--cache", cache, "--tune-blocks", BLOCKS)
    assert refused.returncode == 2 and f"1 to {BLOCKS - CUT}, the ViT's blocks behind the cache's cut" in refused.stderr
    features = extract(exams, tmp_path / "features.cache", "--weights", weights, *PIXELS)
    refused = coldframe("plan", "--cache", features)
    assert refused.returncode == 2 and "holds features alone; give one of `extract --cut BLOCK`" in refused.stderr


def test_the_plan_is_for_the_device_that_train_takes():
    report = json.loads(coldframe("plan", TINY, "--json").stdout)
    assert report["device"] == report["measured_on"][:len(report["device"])]


def test_memory_for_the_cheap_way_and_a_fiftieth_of_its_step_is_enough(small):
    parts = ways(small, 12)["cheap"]["bytes"]
    for more, fits in ((parts["activations"] // 45, True), (parts["activations"] // 60, False)):
        answer = plan("vit_small_patch16_224", "--memory", f"{parts['peak'] + more}B")["answer"]
        assert (answer["fastest"]["schedule"] == "cheap") == fits
        assert (answer["changes"] == []) == fits
        assert fits or answer["changes"][0]["way"] == answer["fastest"]


def test_changes_name_options_of_train():
    answer = plan("vit_small_patch16_224", "--memory", "3GiB", "--exams", 64)["answer"]
    options = coldframe("train", "--help-all").stdout
    changes = [change["change"] for change in answer["changes"]]
    assert any(change.startswith("--amp bf16") for change in changes)
    assert any(change.startswith("--tune-blocks 12 --lora 8") for change in changes)
    for option in re.findall(r"--[a-z0-9-]+", " ".join(changes)):
        assert f"{option} " in options


def test_fewer_exams_are_a_change_where_their_rows_alone_are_too_many():
    words = ["vit_small_patch16_224", "--exams", 256, "--frames", 100, "--tune-blocks", 1, "--device", "cpu",
             "--memory", "1500MiB"]
    answer = plan(*words)["answer"]
    assert not answer["fits"]
    batch = next(change for change in answer["changes"] if change["change"].startswith("--batch "))
    exams = int(batch["change"].split()[1].rstrip(":"))
    assert exams < 256


def test_a_single_exam_has_nothing_to_go_in_turn():
    assert "exam by exam" not in coldframe("plan", TINY, "--exams", 1).stdout
    assert "exam by exam" in coldframe("plan", TINY, "--exams", 2).stdout
    names = [way["schedule"] for way in plan(TINY, "--frames", 1)["ways"] if way["blocks"] == 12 and not way["lora_rank"]
             and not way["share"]]
    assert names == ["none", "cheap", "cheap, 1 exam at a time"]


def test_coupled_exams_go_together():
    measured = plan(TINY, "--coupled", "--measure", "--measure-exams", 3, "--measure-frames", 1, "--measure-rounds", 1,
                    "--tune-blocks", 1)["measured"]
    assert (measured["exams"], measured["frames"]) == (3, 1)
    assert not any("exam" in peak["schedule"] for peak in measured["peaks"])
    report = plan("vit_small_patch16_224", "--memory", "8GiB", "--coupled")
    assert all(way["exams_at_once"] == 16 for way in report["ways"])
    assert report["answer"]["fits"] and not re.search("exams? at a time", report["answer"]["fastest"]["schedule"])
    assert plan("vit_small_patch16_224", "--memory", "8GiB")["answer"]["fastest"]["exams_at_once"] < 16


# A head that takes more than the ViT.
def test_exams_go_in_turn_for_the_temporal_model_too():
    words = [TINY, "--image-size", 64, "--frames", 200, "--temporal", "transformer", "--layers", 12, "--hidden", 512,
             "--tune-blocks", 1, "--device", "cpu", "--memory", "900MiB"]
    answer = plan(*words)["answer"]
    assert answer["fits"] and re.match("cheap, [0-9]+ exams? at a time$", answer["fastest"]["schedule"])


def test_the_most_exams_are_counted_to_the_end():
    most = plan(TINY, "--frames", 24)["ways"][0]["most_exams"]["80GiB"]
    assert most > 200_000
    peaks = [plan(TINY, "--frames", 24, "--exams", exams)["ways"][0]["bytes"]["peak"] for exams in (most, most + 1)]
    assert peaks[0] <= 80 * GIB < peaks[1]


def test_what_is_measured_is_as_planned(tmp_path):
    page = tmp_path / "plan.html"
    report = plan(TINY, "--measure", "--measure-exams", "6", "--measure-frames", "2", "--measure-rounds", "1",
                  "--tune-blocks", "2", "--html", page)
    names = [peak["schedule"] for peak in report["measured"]["peaks"]]
    assert names[:2] == ["none", "cheap"] and any(name.endswith("1 exam at a time") for name in names), names
    for peak in report["measured"]["peaks"]:
        assert peak["predicted"] / peak["measured"] == pytest.approx(1, abs=0.02), peak
    assert all(way["step_seconds"] > 0 for way in report["ways"])
    text = page.read_text()
    assert text.count("<svg") >= 4
    assert not re.search(r"(src|href)=[\"']https?:", text)


def test_budgets_from_the_smallest_to_all_are_measured():
    report = plan(TINY, "--measure", "--measure-budgets", "4", "--measure-exams", "2", "--measure-frames", "2",
                  "--measure-rounds", "1", "--tune-blocks", "2")
    steps = report["measured"]["peaks"]
    assert [step["schedule"] for step in steps[:2]] == ["none", "cheap"]
    assert len(steps) == 6  # no budget is refused
    peaks = [step["measured"] for step in steps[2:]]
    assert peaks == sorted(peaks) and peaks[0] < peaks[-1] <= steps[0]["measured"]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_plan_says_first_what_was_measured(device):
    lines = coldframe("plan", TINY, "--device", device).stdout.splitlines()
    assert lines[1].startswith("Bytes and times are measured on cpu ("), lines[1]
    assert ("bytes are of tensors" in lines[1]) == (device == "cpu")
    assert ("of a GPU some 500.0 MiB for its context" in lines[1]) == ("18.0 MiB" in lines[1]) == (device == "cuda")
    assert plan(TINY, "--device", device)["measured_on"].startswith("cpu (")


@pytest.mark.parametrize("words,message", [
    ([], "name a model"),
    (["vit_smal_patch16_224"], "vit_small_patch16_224"),
    ([TINY, "--tune-blocks", "13"], "expected all, or 1 to 12"),
    ([TINY, "--image-size", "225"], "multiples of 16"),
    ([TINY, "--memory", "many"], "many"),
    ([TINY, "--frames", "-1"], "--frames -1: expected a whole number from 1"),
    ([TINY, "--exams", "2000000"], "at most 1000000"),
    ([TINY, "--exams", "1000000", "--frames", "1000000"], "expected less than 1 EiB"),
    ([TINY, "--hidden", "1000000", "--layers", "1000000"], "expected less than 1 EiB"),
    ([TINY, "--precision", "int8"], "int8"),
    ([TINY, "--lora", "-1"], "expected a rank"),
    ([TINY, "--pool", "map"], "map"),
    ([TINY, "--cache", "x.cache"], "MODEL and --cache: give one of them"),
])
def test_errors_say_what_to_do(words, message):
    done = coldframe("plan", *words)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
