"""What makes two runs equal, and a run one of the model that was asked for. Each raises RuntimeError where it is not."""
import csv
import json
import struct


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def same_tables(a, b, tolerance, names=None):
    """The largest difference of any number in two tables of the same rows; other words are equal."""
    one, other = table(a), table(b)
    if len(one) != len(other) or not one or list(one[0]) != list(other[0]):
        raise RuntimeError(f"{a} has {len(one)} rows and {b} {len(other)}, or other columns")
    worst, where = 0.0, "nowhere"
    for number, (left, right) in enumerate(zip(one, other)):
        for name in names or left:
            difference = differ(left[name], right[name])
            if not difference <= worst:  # NaN, too
                worst, where = difference, f"row {number + 1}, {name}: {left[name]} and {right[name]}"
    if not worst <= tolerance:
        raise RuntimeError(f"{a} and {b} differ by {worst:.2e}, {tolerance} at most expected ({where})")
    return worst


def differ(x, y):
    if x == y:
        return 0.0
    try:
        return abs(float(x) - float(y))
    except ValueError:
        return float("inf")


def same_results(a, b, tolerance):
    """Of the losses of every epoch, and of all predicted probabilities, of two runs."""
    losses = same_tables(a / "metrics.csv", b / "metrics.csv", tolerance)
    names = [name for name in table(a / "predictions.csv")[0] if name != "predicted"]  # a hair's breadth decides that
    return max(losses, same_tables(a / "predictions.csv", b / "predictions.csv", tolerance, names))


def cards(run):
    """What each fit's file of weights says of its model."""
    found = {}
    for path in sorted((run / "models").glob("*.safetensors")):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        found[path.name] = json.loads(header["__metadata__"]["card"])
    if not found:
        raise RuntimeError(f"{run} has no models")
    return found


def fits(run):
    """Name of a fit -> its rows of metrics.csv."""
    found = {}
    for row in table(run / "metrics.csv"):
        found.setdefault("-".join(row[name] for name in ("model", "repeat", "fold", "seed")), []).append(row)
    return found


ARCHITECTURES = {"bigru": "gru", "single": "mean"}  # of models that are settings of another one


def fitted(run, model, least):
    """Every fit of the run is a network of this model, and steps lowered its training loss by `least` or more."""
    expected = ARCHITECTURES.get(model, model)
    for name, card in cards(run).items():
        if card["model"]["architecture"] != expected:
            raise RuntimeError(f"{run}: {name} is of '{card['model']['architecture']}', expected '{expected}'")
    for name, rows in fits(run).items():
        losses = [float(row["train_loss"]) for row in rows]
        if not losses[0] - losses[-1] >= least:
            raise RuntimeError(f"{run}: {name} went from a training loss of {losses[0]} to {losses[-1]}, too little to compare")


def tuned(run, block):
    """Every fit trained the ViT from this block on, and kept what it trained."""
    for name, card in cards(run).items():
        if "tuned" not in card:
            raise RuntimeError(f"{run}: {name} has no tuned ViT")
        if card["tuned"]["block"] != block:
            raise RuntimeError(f"{run}: {name} is tuned from block {card['tuned']['block']} on, expected {block}")
    for name, rows in fits(run).items():
        kept = next(row for row in rows if row["best"] == "1")
        if float(kept["learning_rate"]) == 0:  # the row of what it went on from
            raise RuntimeError(f"{run}: {name} kept what it went on from, so that no tuned ViT is compared")
