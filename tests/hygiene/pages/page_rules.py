"""How each program that a page shows is started in seconds. A program that is named nowhere here fails the test."""

import re
import shlex
from dataclasses import dataclass

# Lines of these are run one after another, as the page has them, by a `coldframe` of smallest settings (page_sandbox.py).
IN_ORDER = re.compile(r"(?:/usr/bin/time -v )?(?:build/bin/)?coldframe (?!plan )|coldframe-make-exams |build/tests/make_large_cache |"
                      r"for \w in |python -c |[A-Z]+=\S+ [A-Z]+=\S+$|examples/mednet/make_frames\.py |examples/slurm/submit |"
                      r"python examples/export_\w+_encoder\.py ")


@dataclass(frozen=True)
class Small:
    """`words` follow a script's own, the last of an option's values being the one that counts; `edits` replace what a
    pattern finds. With `findings` exit code 1 is fine: such small measurements may miss what the script checks."""
    words: str = ""
    edits: tuple = ()
    findings: bool = False


# Inputs that lie beside the house, or are large.
EDITS = ((r"make_large_cache (\S+) \d+ 12 384", r"make_large_cache \1 24 3 192"), ("parts 256", "parts 2"), ("29811", "48"),
         ("--block 96", "--block 32"), (r"\.\./shared/data/pocus/exams\.csv", "exams.csv"), (r"\.\./shared/data/dicom/multiframe", "dicoms"),
         (r"\.\./shared/weights/mobilenet\S+", "backbone.ts.pt"), (r"\.\./shared/weights/dinov2-small", "dinov2-small"),
         ("/usr/bin/time -v ", ""))

# By script or program; all but those above have a line.
SCRIPTS = {
    "coldframe plan": Small(edits=((r"--measure-(exams|frames) \d+", ""), ("--measure-rounds 1", ""))),
    "build/tests/confound_coverage": Small("1 40", findings=True),
    "build/tests/difference_coverage": Small(edits=((r" \d+", " 1 40"),), findings=True),
    "build/tests/host_path": Small(edits=((" 30000 1 256", " 48 1 16"),)),
    "build/tests/interval_coverage": Small(edits=((r" \d+.*", " 1 number 20"),), findings=True),
    "build/tests/tune_tests": Small("--gtest_list_tests"),
    "build/tests/vit_instruction_sets": Small(edits=((r"sets \d+( \d+)?( \d+)?", "sets 1 1 112"),)),
    "examples/quickstart": Small("--exams 16"),
    "tests/benchmarks/clips/probe": Small("--exams 40 --epochs 1", findings=True),
    "tests/benchmarks/clips/run": Small("--models videomae-S --rounds 1 --precisions fp32 --peers eager"),
    "tests/benchmarks/defaults/run": Small("--quick --settings 1 --seeds 0 --jobs 1 --cohorts order"),
    "tests/benchmarks/extract/run": Small("--rounds 1 --exams 2 --side 64 --only jpegs --workers 1"),
    "tests/benchmarks/maps/run": Small("--exams 8 --judged 2", findings=True),
    "tests/benchmarks/plan/budgets": Small("--budgets 3 --exams 1 --frames 1 --rounds 1", findings=True),
    "tests/benchmarks/plan/peaks": Small("--models vit_tiny_patch16_224 --exams 1 --precisions fp32", findings=True),
    "tests/benchmarks/plan/run": Small("--rows 3"),
    "tests/benchmarks/plan/schedules": Small("--models vit_tiny_patch16_224 --exams 1 --frames 1 --budgets --rounds 1"),
    "tests/benchmarks/train/budget": Small("--exams 128"),
    "tests/benchmarks/train/change": Small("--seeds 1 --cohorts change --parts ours --features made"),
    "tests/benchmarks/train/run": Small("--exams 64 --rounds 1 --batch 16"),
    "tests/benchmarks/vit/run": Small("--rounds 1 --batch 1 --size 224 --without compile"),
    "tests/benchmarks/volumes/run": Small("--edge 64"),
    "tests/extract/decode/nifti_memory.py": Small("0.2"),
    "tests/extract/vit/clip_parity.py": Small("--only small --precisions fp32"),
    "tests/extract/vit/test_vit.py": Small("--collect-only"),
    "tests/soak/covariates": Small("--exams 60", findings=True),
    "tests/soak/flat_memory.py": Small("--frames 1200", findings=True),
    "tests/soak/order_and_intervals": Small("--exams 24 --cohorts order", findings=True),
    "tests/soak/pairs": Small("1"),
    "tests/soak/streams": Small("--exams 24", findings=True),
    "tests/soak/survival": Small("--exams 60", findings=True),
    "tests/soak/verdicts": Small("--seeds 0 --nulls 1", findings=True),
    "tests/train_temporal/permuted_labels.py": Small("--times 2 -- --epochs 1"),
    "tests/train_temporal/reference_training.py": Small("--epochs 1 --bootstrap 10", ((" --folds 5 --repeats 5", " --folds 2"),), True),
}

# What cannot run on any machine, or runs elsewhere: that its scripts are there and have the options is looked at.
NOT_RUN = {
    r"pip ": "installs a wheel, as tests/package/test_install.py does with one that it makes",
    r"(python3 -m venv|\.) ~/coldframe": "makes and enters an environment for a wheel",
    r"(\w+=\$\(.*)?sbatch ": "needs a SLURM cluster, which tests/cluster/run brings up; test_scripts.py runs the scripts without one",
    r"tests/run( quick)?$": "is what runs this test; test_run.py runs it in a tree of its own",
    r"build/test-venv/bin/python tests/extract/vit/parity\.py": "is what test_parity.py runs, with fewer models",
    r"build/test-venv/bin/python tests/soak/power_cut": "is what test_power_cut.py runs, with fewer cuts",
    r"tests/benchmarks/mednet/run": "needs MedNet, which it downloads: some hundred megabytes",
}


def program_of(text):
    """The script or program of a command: `tests/soak/pairs` of `build/test-venv/bin/python tests/soak/pairs`."""
    words = [word for word in shlex.split(text) if not re.match(r"[A-Z_]+=", word)]
    if words[0].endswith("/python"):
        words = [word for word in words[1:] if not word.startswith("-")]
        words = words[1:] if words[0] == "pytest" else words
    return "coldframe plan" if re.match(r"(build/bin/)?coldframe plan ", text) else words[0]


def is_run(text):
    return not any(re.match(pattern, text) for pattern in NOT_RUN)


def edited(text):
    for pattern, small in EDITS + (() if IN_ORDER.match(text) else SCRIPTS[program_of(text)].edits):
        text = re.sub(pattern, small, text)
    return " ".join(text.split())


def merged(commands):
    """{a script's smallest command: the commands that it stands for}: those that differ in options with values are one,
    which has them all; a switch may change what is done."""
    kinds = {}
    for one in commands:
        start, options = re.match(r"(.*?)((?: --.*)?)$", edited(one.text)).groups()
        kind = options if program_of(one.text) == "coldframe plan" else tuple(re.findall(r" --[\w-]+(?= --|$)", options))
        kinds.setdefault((start.removeprefix("build/bin/"), kind), {}).setdefault(options, []).append(one)
    return {f"{start}{''.join(found)} {SCRIPTS[program_of(start)].words}".strip(): [one for of_options in found.values() for one in of_options]
            for (start, _), found in kinds.items()}
