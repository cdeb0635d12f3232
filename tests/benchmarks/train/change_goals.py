"""What the benchmark `change` must show."""
import numpy as np

COLUMNS = ["auto", "advised", "gru", "summary", "linear", "forest", "boosting", "twin"]
PEERS = COLUMNS[2:]
# Of rotated features, where any model finds something: below the best of all others at most.
BEHIND = {"auto": 0.03, "advised": 0.02}
# Rotated as well, but of the maximum, which a rotation hides among 32 features.
LEAST = {"auto": {"change": 0.88, "trend over visits": 0.85, "maximum": 0.75, "rare class": 0.88},
         "summary": {"change": 0.92, "trend over visits": 0.90, "maximum": 0.83, "rare class": 0.90}}
CHANCE = 0.55  # what is best by less than this found nothing: the best of six at chance is ahead of another by chance
LOSES = 0.01  # of the nine cohorts of the defaults, against the model alone


def mean(cells, model):
    """Over the seeds that have the model; NaN where none has."""
    seen = [cell[model] for cell in cells if model in cell]
    return float(np.mean(seen)) if seen else np.nan


def difference(cells, model, peer):
    """The mean of the paired differences."""
    seen = [cell[model] - cell[peer] for cell in cells if model in cell and peer in cell]
    return float(np.mean(seen)) if seen else np.nan


def best(cells):
    return max((mean(cells, model) for model in COLUMNS if any(model in cell for cell in cells)), default=np.nan)


def behind(cells, model):
    """The difference from whichever is best beside the model, and its name."""
    differences = {peer: difference(cells, model, peer) for peer in PEERS}
    peer = min((name for name in PEERS if not np.isnan(differences[name])), key=differences.get, default=None)
    return (differences[peer], peer) if peer else (np.nan, "none")


def goals(figures, nine):
    """(goal, figure, least) of what is measured."""
    for (cohort, rotated), cells in figures.items():
        where = f"{cohort}, rotated" if rotated else cohort
        if rotated and best(cells) >= CHANCE:
            for model, most in BEHIND.items():
                least, peer = behind(cells, model)
                yield f"{where}: {model} − the best other, {peer}", least, -most
        for model in LEAST:
            if cohort in LEAST[model] and not (rotated and cohort == "maximum"):
                yield f"{where}: {model}", mean(cells, model), LEAST[model][cohort]
        if cohort in nine and not rotated:
            yield f"{where}: auto − gru", difference(cells, "auto", "gru"), -LOSES


def tell(figures, nine):
    """Prints the table, in which a model has its number of seeds where these are fewer, and the goals; 1 where one is
    missed."""
    print("| AUROC | seeds | " + " | ".join(COLUMNS) + " |\n| --- |" + " --- |" * (len(COLUMNS) + 1))
    for (cohort, rotated), cells in figures.items():
        counts = {model: sum(model in cell for cell in cells) for model in COLUMNS}
        most, words = max(counts.values()), []
        for model, count in counts.items():
            fewer = f" ({count})" if count < most else ""
            words.append(f"{mean(cells, model):.3f}{fewer}" if count else "–")
        if most:
            print(f"| {cohort}{', rotated' if rotated else ''} | {most} | " + " | ".join(words) + " |")
    missed = 0
    for goal, figure, least in goals(figures, nine):
        if not np.isnan(figure):
            missed += figure < least
            print(f"{'holds ' if figure >= least else 'MISSED'} {goal}: {figure:.3f}, at least {least}")
    return 1 if missed else 0
