"""What explanations of linear models of summaries should be: numpy on the tensors of a model file."""
import json

import numpy as np
from safetensors import safe_open

FAMILIES = ["mean", "maximum", "minimum", "standard deviation", "first frame", "last frame", "last − first", "slope"]


def read(path):
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def temperature_of(metadata):
    return json.loads(metadata["card"])["targets"][0]["temperature"]


def summary(family, x):
    """A summary of x [T, D] and its gradient [T, D], which ties share."""
    ones, n = np.ones_like(x), len(x)
    first, last = np.zeros_like(x), np.zeros_like(x)
    first[0] = last[-1] = 1
    if family == "mean":
        return x.mean(0), ones / n
    if family in ("maximum", "minimum"):
        end = x.max(0) if family == "maximum" else x.min(0)
        return end, (x == end) / (x == end).sum(0)
    if family == "standard deviation":
        deviation = x.std(0)
        there = deviation > 1e-6
        return np.maximum(deviation, 1e-6), there * (x - x.mean(0)) / (n * np.where(there, deviation, 1))
    if family == "slope":
        place = np.arange(n) - (n - 1) / 2
        slope = np.repeat(place[:, None] / max((place**2).sum(), 1e-9), x.shape[1], 1)
        return (slope * x).sum(0), slope
    gradient = {"first frame": first, "last frame": last, "last − first": last - first}[family]
    return (gradient * x).sum(0), gradient


def explained(families, tensors, temperature, x):
    """What the frames of x [T, D] add to P(1), the mean gradient [T, D] of P(1), and P(1) of the exam and of the baseline."""
    def softmax(z):
        odds = np.exp((z - z.max(-1, keepdims=True)) / temperature)
        return odds / odds.sum(-1, keepdims=True)

    mean, m, deviation = tensors["feature_mean"], tensors["summary_mean"], tensors["summary_std"]
    scale = tensors["head.weight"] / deviation
    start = tensors["head.bias"]
    found = [summary(family, x) for family in families]
    step = np.array([scale[c] @ (s - m[c]) for c, (s, _) in enumerate(found)])
    places, weights = np.polynomial.legendre.leggauss(200)
    p = softmax(start + (places[:, None] + 1) / 2 * step)  # ∂P(1) / ∂z_c = P(1) (δ_1c − P(c)) / temperature
    slopes = (weights[:, None] / 2 * p[:, 1:] * (np.array([0, 1]) - p)).sum(0) / temperature
    frames, mean_gradient = 0, 0
    for c, (_, gradient) in enumerate(found):
        shift = m[c] - summary(families[c], np.repeat(mean[None], len(x), 0))[0]
        sizes = abs(gradient)
        share = np.where(sizes.sum(0) > 0, sizes / np.where(sizes.sum(0) > 0, sizes.sum(0), 1), 1 / len(x))
        mean_gradient = mean_gradient + slopes[c] * scale[c] * gradient
        frames = frames + slopes[c] * (scale[c] * (gradient * (x - mean) - shift * share)).sum(1)
    return frames, mean_gradient, softmax(start + step)[1], softmax(start)[1]
