"""The example notebook runs, and what is committed with it is what comes out."""

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

import coldframe

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
NOTEBOOK = ROOT / "examples/quickstart.ipynb"


def results(notebook):
    """The texts of each code cell's outputs, None of a cell without any."""
    return [[output.get("text") or output["data"]["text/plain"] for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLDFRAME_PROGRAMS", str(BUILD / "bin"))
        patch.setenv("PYTHONPATH", str(Path(coldframe.__file__).parents[1]))
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}).execute()
    return notebook


def test_its_committed_outputs_are_of_these_cells(executed):
    committed = nbformat.read(NOTEBOOK, as_version=4)
    assert [len(texts) for texts in results(committed)] == [len(texts) for texts in results(executed)]
    assert all(cell.execution_count == number for number, cell in enumerate((cell for cell in committed.cells if cell.cell_type == "code"), 1))
    for expected, found in zip(results(committed), results(executed)):
        for text, other in zip(expected, found):
            assert [line.split()[:1] for line in text.splitlines()] == [line.split()[:1] for line in other.splitlines()]


def test_the_order_of_frames_carries_the_label(executed):
    (auroc,) = [texts[0] for texts in results(executed) if texts and "shuffled" in texts[0] and "value" in texts[0]]
    value = {line.split()[1]: float(line.split()[2]) for line in auroc.splitlines()[1:]}
    assert value["auto"] > 0.9 > value["shuffled"]
