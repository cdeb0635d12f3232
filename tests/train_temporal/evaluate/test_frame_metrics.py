"""The metrics of classes per frame equal their published definitions on random sequences: Jaccard
per phase as in the M2CAI challenge, segmental F1 and edit score as in Lea et al. 2017. The implementation here
counts sets of frames and recurses over segments."""
from functools import lru_cache
from itertools import groupby

import numpy as np
import pytest
from test_metrics import assert_equal
from test_task_metrics import run_driver


def phases(random, frames, classes):
    """Runs of phases, as a surgery has them, of 1 to some 20 frames."""
    runs = []
    while len(runs) < frames:
        runs += [int(random.integers(classes))] * int(random.integers(1, 20))
    return runs[:frames]


def mistaken(random, truth, classes):
    """Shifted borders, flickering frames and wrong phases."""
    decided = np.roll(truth, int(random.integers(-4, 5)))
    flicker = random.random(len(truth)) < random.choice([0, 0.05, 0.3])
    decided[flicker] = random.integers(0, classes, flicker.sum())
    return decided.tolist()


def segments(frames):
    """(class, set of frames) of each run."""
    found, first = [], 0
    for phase, run in groupby(frames):
        length = len(list(run))
        found.append((phase, set(range(first, first + length))))
        first += length
    return found


def segment_f1(truth, decided, least):
    true, predicted = segments(truth), segments(decided)
    used, right = set(), 0
    for phase, frames in predicted:
        overlap = [len(frames & other) / len(frames | other) if phase == of else 0
                   for of, other in true]
        best = int(np.argmax(overlap))
        if overlap[best] >= least and best not in used:
            used.add(best)
            right += 1
    precision, recall = right / len(predicted), right / len(true)
    return 2 * precision * recall / (precision + recall) if right else 0.0


def edit_score(truth, decided):
    a, b = ([phase for phase, _ in segments(frames)] for frames in (truth, decided))

    @lru_cache(maxsize=None)
    def distance(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1,
                   distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return 1 - distance(len(a), len(b)) / max(len(a), len(b))


def jaccard(exams, classes):
    """The mean over phases of the mean over the exams that have the phase; None where none has."""
    of_phase = []
    for phase in range(classes):
        shares = []
        for truth, decided in exams:
            is_phase, is_decided = (np.array(frames) == phase for frames in (truth, decided))
            if is_phase.any():
                shares.append((is_phase & is_decided).sum() / (is_phase | is_decided).sum())
        of_phase.append(np.mean(shares) if shares else np.nan)
    return np.mean(of_phase)


def table_of(random, exams, classes, ordinal):
    """The rows of all exams in a random order, and the header. Probabilities decide as told."""
    rows = []
    for number, (truth, decided) in enumerate(exams):
        for frame, (label, decision) in enumerate(zip(truth, decided)):
            probability = np.full(classes, 0.1 / classes)
            probability[decision] += 0.9
            rows.append([label, *probability, 7 * number, 3 * frame])
    header = ["grade" if ordinal else "label", *(f"p{c}" for c in range(classes)), "exam", "frame"]
    return ",".join(header), [rows[i] for i in random.permutation(len(rows))]


def case(seed):
    random = np.random.default_rng(seed)
    classes = 2 + seed % 6
    exams = []
    for _ in range(int(random.integers(1, 8))):
        truth = phases(random, int(random.integers(1, 150)), classes)
        exams.append((truth, mistaken(random, truth, classes)))
    return random, classes, exams


@pytest.mark.parametrize("block", range(3))
def test_metrics_of_frames_equal_their_definitions(tmp_path, block):
    cases = [case(seed) for seed in range(100 * block, 100 * block + 100)]
    tables = [table_of(random, exams, classes, ordinal=False) for random, classes, exams in cases]
    undefined = 0
    for (_, classes, exams), ours in zip(cases, run_driver(tmp_path, tables), strict=True):
        for percent in (10, 25, 50):
            expected = np.mean([segment_f1(*exam, percent / 100) for exam in exams])
            assert_equal(ours[f"segment_f1_{percent}"], expected, f"F1@{percent}")
        assert_equal(ours["edit_score"], np.mean([edit_score(*exam) for exam in exams]), "edit")
        assert_equal(ours["jaccard"], jaccard(exams, classes), "jaccard")
        undefined += isinstance(ours["jaccard"], str)
    assert 0 < undefined < 50


def test_a_phase_that_flickers_costs_segments_and_few_frames(tmp_path):
    truth = [0] * 50 + [1] * 50
    decided = [0] * 20 + [1] * 2 + [0] * 28 + [1] * 50
    random = np.random.default_rng(0)
    ours, ordinal = run_driver(tmp_path, [table_of(random, [(truth, decided)], 2, ordinal)
                                          for ordinal in (False, True)])
    assert ours["accuracy"] == 0.98
    assert ours["jaccard"] == pytest.approx((48 / 50 + 50 / 52) / 2)
    # Predicted 0, 1, 0, 1: the first 0 overlaps its segment by 0.4, the later one by 0.56.
    assert ours["segment_f1_10"] == ours["segment_f1_25"] == pytest.approx(2 * 2 / (2 + 4))
    assert ours["segment_f1_50"] == pytest.approx(2 * 2 / (2 + 4))
    assert ours["edit_score"] == 0.5
    for name in ("jaccard", "segment_f1_50", "edit_score"):
        assert ordinal[name] == ours[name]


def test_targets_per_exam_have_none_of_them(tmp_path):
    ours = run_driver(tmp_path, [("label,p0,p1", [(0, 0.7, 0.3), (1, 0.4, 0.6)])])[0]
    assert not {"jaccard", "segment_f1_10", "edit_score"} & set(ours)
