#!/usr/bin/env python3
"""MedNet 2.1.0's ViT + GRU and Coldframe on the same made frames, split, weights and settings.

    tests/benchmarks/mednet/run [--exams N --frames N --epochs N --rounds N] [--device cuda]

Makes frames by examples/mednet/make_frames.py, then, in turns, trains with the backbone frozen, with its last 2 blocks
and with all 12: seconds of an epoch with its validation (MedNet's: the median of all but the first of each run;
Coldframe's: what a training takes longer than one of a single epoch, over their difference), the process's peak
memory (of a GPU: what nvidia-smi says of the process), the time from the frames to the first finished model, and the
AUROC on the test part with its interval (2000 resamples of patients). It ends with a check: MedNet's model with the
weights that Coldframe trained gives Coldframe's probabilities within 1e-4.

Coldframe's time to a model holds the extraction; its epochs with trained blocks stay within --memory-budget. Blocks are
trained from the model with the frozen backbone, each program from its own, and keep the epoch of the lowest validation
loss. With
--device cuda all exams of the split, 12 frames of each and batches of 16 are the defaults, as MedNet has them.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import torch
from peer import datamodule_of, made_model, test_outputs
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score

ROOT = pathlib.Path(__file__).resolve().parents[3]
COLDFRAME = ROOT / "build" / "bin" / "coldframe"
SPLIT = ROOT.parent / "shared" / "data" / "angioreport" / "temporal_hyperftype.json"
EXAMPLE = ROOT / "examples" / "mednet"


class Measured:
    """A process: its seconds and its peak memory."""

    def __init__(self, words, folder, cuda):
        self.cuda, self.bytes = cuda, 0
        begun = time.perf_counter()
        with open(folder / "log.txt", "ab") as log:
            self.process = subprocess.Popen(list(map(str, words)), cwd=folder, stdout=log, stderr=log)
            watcher = threading.Thread(target=self.watch)
            if cuda:
                watcher.start()
            _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.perf_counter() - begun
        if cuda:
            watcher.join()
        else:
            self.bytes = 1024 * used.ru_maxrss
        if self.process.returncode:
            sys.exit(f"{' '.join(map(str, words))}\nended with {self.process.returncode}; see {folder / 'log.txt'}")

    def watch(self):
        while self.process.returncode is None:
            said = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True).stdout
            for line in filter(None, said.splitlines()):
                pid, mebibytes = line.split(", ")
                if int(pid) == self.process.pid:
                    self.bytes = max(self.bytes, int(mebibytes) << 20)
            time.sleep(0.1)


class Case:
    def __init__(self, options, folder, blocks):
        self.options, self.folder, self.blocks, self.cuda = options, folder, blocks, options.device == "cuda"
        self.name = {0: "frozen backbone", 2: "last 2 blocks trained", 12: "all 12 blocks trained"}[blocks]
        self.lr = options.lr if blocks else options.frozen_lr
        self.epochs = options.epochs if blocks else options.frozen_epochs
        self.theirs, self.ours = [], []  # (seconds of epochs, bytes, seconds until the model is there)

    def mednet(self):
        o = self.options
        out = self.folder / f"mednet-blocks{self.blocks}.json"
        task = {"split": str(self.folder / "split.json"), "weights": str(self.folder / "weights.safetensors"),
                "blocks": self.blocks, "classes": o.classes, "batch": o.batch, "epochs": self.epochs, "lr": self.lr,
                "device": o.device, "out": str(out),
                "from": str(self.folder / "mednet-blocks0.pt") if self.blocks else None}
        done = Measured([sys.executable, pathlib.Path(__file__).with_name("peer.py"), json.dumps(task)], self.folder, self.cuda)
        found = json.loads(out.read_text())
        self.theirs.append((found["seconds"][1:], done.bytes, done.seconds))
        self.their_probabilities = {pathlib.Path(name).name: p for name, p in found["probabilities"].items()}

    def coldframe(self):
        o, cache = self.options, self.folder / f"blocks{self.blocks}.cache"
        self.run = self.folder / f"blocks{self.blocks}.run"
        for old in (cache, self.run):
            subprocess.run(["rm", "-rf", old], check=True)
        device = ["--device", o.device]
        weights = ["--weights", self.folder / "weights.safetensors"]
        made = Measured([COLDFRAME, "extract", "--config", EXAMPLE / "vitgru.ini", "--input", "split.json", "--allow-unordered",
                         *weights, "--store", "float32", "--precision", "fp32", "--out", cache, *device,
                         *(["--cut", 12 - self.blocks] if self.blocks else [])], self.folder, self.cuda)
        tune = ["--tune", weights[1], "--tune-blocks", self.blocks, "--tune-lr", self.lr, "--tune-drop-path", 0.1,
                "--from", self.folder / "blocks0.run", "--memory-budget", o.memory_budget] if self.blocks else []
        def trained(out, epochs):
            return Measured([COLDFRAME, "train", "--cache", cache, "--target", "label", "--out", out, "--overwrite", "--config",
                             EXAMPLE / "vitgru.ini", "--batch", o.batch, "--epochs", epochs, "--lr", self.lr, "--bootstrap", 10,
                             *tune, *device], self.folder, self.cuda)

        done, short = trained(self.run, self.epochs), trained(self.folder / "short.run", 1)
        self.ours.append(([(done.seconds - short.seconds) / (self.epochs - 1)], max(made.bytes, done.bytes),
                          made.seconds + done.seconds))
        lines = (self.run / "predictions.csv").read_text().splitlines()
        header = lines[0].split(",")
        columns = [i for i, name in enumerate(header) if name.startswith("p_")]
        rows = [line.split(",") for line in lines[1:]]
        self.our_probabilities = {row[header.index("exam")]: [float(row[i]) for i in columns] for row in rows}

    def tell(self, labels):
        def figures(runs):
            return (statistics.median(s for seconds, _, _ in runs for s in seconds), max(b for _, b, _ in runs),
                    statistics.median(t for _, _, t in runs))

        theirs, ours = figures(self.theirs), figures(self.ours)
        print(f"{self.name}: {self.epochs} epochs, --lr {self.lr:g}")
        for name, (epoch, size, until), probabilities in (("MedNet", theirs, self.their_probabilities),
                                                          ("Coldframe", ours, self.our_probabilities)):
            print(f"  {name:10} {epoch:9.3f} s an epoch  {size / 2 ** 20:7.0f} MiB  {until:7.1f} s until the model is there  "
                  f"AUROC {auroc(labels, probabilities)}")
        print(f"  {'ratio':10} {theirs[0] / ours[0]:9.1f}             {theirs[1] / ours[1]:7.2f}      {theirs[2] / ours[2]:7.1f}",
              flush=True)


def auroc(labels, probabilities):
    """Macro AUROC of the test part, with the interval of 2000 resamples of patients."""
    names = sorted(labels)
    truth = np.array([labels[name] for name in names])
    scores = np.array([probabilities[name] for name in names])

    def figure(rows):
        each = [roc_auc_score(truth[rows] == c, scores[rows, c]) for c in range(scores.shape[1])
                if 0 < (truth[rows] == c).sum() < len(rows)]
        return np.mean(each) if each else np.nan

    patients = {}
    for i, name in enumerate(names):
        patients.setdefault(name.split("_")[0], []).append(i)
    groups, random = list(patients.values()), np.random.default_rng(0)
    drawn = [figure(np.concatenate([groups[g] for g in random.integers(len(groups), size=len(groups))])) for _ in range(2000)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return f"{figure(np.arange(len(names))):.3f} [{low:.3f}, {high:.3f}]"


def check_outputs(case):
    """Puts Coldframe's trained model into MedNet's: the projection of standardised features is linear, and so is what
    MedNet's GRU does with features first."""
    (path,) = (case.run / "models").glob("*.safetensors")
    with safe_open(path, "pt") as file:
        temperature = json.loads(file.metadata()["card"])["targets"][0]["temperature"]
        w = {name: file.get_tensor(name).double() for name in file.keys()}
    project = w["project.weight"] / w["feature_std"]
    shift = w["project.bias"] - project @ w["feature_mean"]
    model = made_model(case.folder / "weights.safetensors", 0, case.options.classes)
    into = {"gru.weight_ih_l0": w["gru.weight_ih_l0"] @ project,
            "gru.bias_ih_l0": w["gru.bias_ih_l0"] + w["gru.weight_ih_l0"] @ shift,
            "gru.weight_hh_l0": w["gru.weight_hh_l0"], "gru.bias_hh_l0": w["gru.bias_hh_l0"],
            "classifier.weight": w["head.weight"], "classifier.bias": w["head.bias"]}
    model.load_state_dict(into, strict=False)
    data = datamodule_of(case.folder / "split.json", case.options.classes, model, case.options.batch)
    theirs = test_outputs(model, data, "cpu")
    widest = max(float(((logits / temperature).softmax(0) - torch.tensor(case.our_probabilities[pathlib.Path(name).name])).abs().max())
                 for name, logits in theirs.items())
    print(f"MedNet's model with Coldframe's weights: probabilities of {len(theirs)} exams differ by {widest:.1e} at most")
    if widest > 1e-4:
        sys.exit("that is more than 1e-4")


def main():
    cuda = "cuda" in " ".join(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--exams", type=int, default=None if cuda else 16, help="of the training part, others half as many")
    parser.add_argument("--frames", type=int, default=12 if cuda else 6)
    parser.add_argument("--classes", type=int, default=5 if cuda else 2)
    parser.add_argument("--batch", type=int, default=16 if cuda else 4)
    parser.add_argument("--epochs", type=int, default=10 if cuda else 2, help="with trained blocks")
    parser.add_argument("--frozen-epochs", type=int, default=10 if cuda else 5)
    parser.add_argument("--lr", type=float, default=9.68e-6, help="with trained blocks (MedNet's)")
    parser.add_argument("--frozen-lr", type=float, default=1e-3)
    parser.add_argument("--memory-budget", default="16GiB" if cuda else "1GiB", help="of Coldframe with trained blocks")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--split", type=pathlib.Path, default=SPLIT)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "mednet-benchmark")
    options = parser.parse_args()
    if min(options.epochs, options.frozen_epochs) < 2:
        parser.error("an epoch's seconds are those of all but the first: give at least 2")
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.out.resolve()
    subprocess.run([sys.executable, EXAMPLE / "make_frames.py", options.split, folder, "--frames",
                    str(options.frames), "--classes", str(options.classes),
                    *(["--exams", str(options.exams)] if options.exams else [])], check=True)
    os.chdir(folder)  # where MedNet looks for frames
    save_file({name: x.contiguous() for name, x in made_model(None, 0, options.classes).backbone.state_dict().items()},
              "weights.safetensors")
    labels = {pathlib.Path(exam["exam"]).name: exam["label"] for exam in json.loads(pathlib.Path("split.json").read_text())["test"]}
    cases = [Case(options, folder, blocks) for blocks in (0, 2, 12)]
    for number in range(options.rounds):
        for case in cases:
            for train in (case.mednet, case.coldframe)[::1 if number % 2 == 0 else -1]:
                train()
    print(f"load {os.getloadavg()[0]:.1f}, {torch.get_num_threads()} threads, {options.rounds} rounds")
    for case in cases:
        case.tell(labels)
    check_outputs(cases[0])


if __name__ == "__main__":
    main()
