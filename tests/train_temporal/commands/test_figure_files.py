"""--figures: drawings and tables for a paper."""
import html
import re
from xml.etree import ElementTree

import pandas as pd
import pytest
from pylatexenc.latex2text import LatexNodes2Text
from study_cohort import made_run
from test_study import evaluated, groups_of
from training_support import coldframe


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("made"))


def page_tables(page):
    """Captions and cells of all tables of a page, in order; a minus is the hyphen that it is in LaTeX."""
    tables = []
    for section in page.split("<section")[1:]:
        caption = re.search(r"<h2>(.*?)</h2>", section)[1]
        if '<div class="data"' in section:
            continue  # every exam, for scripts
        for table in re.findall(r"<table[^>]*>.*?</table>", section, re.DOTALL):
            rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
            tables.append((html.unescape(caption), [[html.unescape(cell).replace("−", "-") for cell in row] for row in rows]))
    return tables


def latex_tables(text):
    """The same of LaTeX, as pylatexenc reads it."""
    read = LatexNodes2Text(math_mode="text", strict_latex_spaces=False).latex_to_text
    tables = []
    for table in re.findall(r"\\begin\{table\}(.*?)\\end\{table\}", text, re.DOTALL):
        body = re.search(r"\\toprule(.*)\\bottomrule", table, re.DOTALL)[1].replace("\\midrule\n", "")
        rows = [line.strip().removesuffix("\\\\") for line in body.strip().split("\n")]
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", table)[1]
        cells = [[read(cell).strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]
        assert all(len(row) == len(columns) for row in cells)
        tables.append((read(re.search(r"\\caption\{(.*)\}\n", table)[1]), cells))
    return tables


def test_figures_are_files_of_their_own(made, tmp_path):
    out, words = tmp_path / "out", ["--figures", "--subgroups", "sex", "--characteristics", "age", "--against", made[1]]
    summary = evaluated(made, *words, out=out)
    names = ["calibration", "confusion", "decision_curve", "flow", "precision_recall", "roc", "roc_of_models", "scores"]
    drawn = {path.stem for path in (out / "figures").glob("*.svg")}
    assert set(names) <= drawn
    page = (out / "report.html").read_text()
    for path in (out / "figures").glob("*.svg"):
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg") and "var(" not in path.read_text()
        style, white = root[0], root[1]
        assert ".c0 .line, .c0.line { fill: none; stroke: #0072b2;" in style.text and white.attrib["fill"] == "#ffffff"
        added = re.compile(r"\n<style>.*?</style>\n<rect[^>]*/>", re.DOTALL)
        assert added.sub("", path.read_text()).strip() in page
    table = pd.read_csv(out / "figures" / "figures.csv").fillna("")
    main = table[(table.model == "gru") & (table.what == "figure")]
    for column, group, figures in [("", "", summary["models"][0]["metrics"])] + [
            ("sex", value, group["metrics"]) for value, group in groups_of(summary, "sex").items()]:
        rows = main[(main.column == column) & (main.group == group)].set_index("figure")
        assert rows.value.to_dict() == {name: figure[figure["primary"]]["value"] for name, figure in figures.items()}
    assert pd.read_csv(out / "figures" / "flow.csv").set_index("step").exams.to_dict() == summary["flow"]
    assert list(pd.read_csv(out / "figures" / "characteristics.csv")) == ["column", "row", "0", "1", "all"]
    latex = (out / "figures" / "tables.tex").read_text()
    assert latex_tables(latex) == page_tables(page)
    notes = re.findall(r'<p class="note">(.*?)</p>', page)
    assert notes and re.findall(r"\\par\\footnotesize (.*)\n", latex) == notes, "why figures have no interval"
    curve = pd.read_csv(out / "figures" / "decision_curve.csv")
    assert list(curve) == ["threshold", "gru", "treat_all"] and len(curve) == 99
    evaluated(made, "--overwrite", out=out)
    assert sorted(path.name for path in out.iterdir()) == ["predictions.csv", "report.html", "summary.json"]
    evaluated(made, *words, "--overwrite", out=out)
    (out / "figures" / "roc_by_hand.svg").write_text("mine")
    done = coldframe("evaluate", "--run", made[1], "--cache", made[0], "--out", out, "--overwrite")
    assert done.returncode == 2 and "roc_by_hand.svg" in done.stderr and (out / "figures" / "roc_by_hand.svg").exists()
    mine = tmp_path / "mine" / "figures" / "drawn.svg"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for words, said in [(["--out", tmp_path / "mine", "--overwrite"], "not the folder of an evaluation"),
                        (["--figures"], "give that, too")]:
        done = coldframe("evaluate", "--run", made[1], "--cache", made[0], *words)
        assert done.returncode == 2 and said in done.stderr and mine.read_text() == "mine"
