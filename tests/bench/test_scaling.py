"""`docs/scaling.md` says what the model says, of the figures that were measured."""

import json
import shutil
from pathlib import Path

import pytest

from dev.bench.scaling import DOCS, INPUTS, loads, renew

FIGURES = json.loads((DOCS / "benchmarks" / "figures.json").read_text())


def test_the_page_is_what_the_model_makes_of_the_figures(tmp_path: Path) -> None:
    page = Path(shutil.copy(DOCS / "scaling.md", tmp_path))
    renew(FIGURES, page)
    assert page.read_text() == (DOCS / "scaling.md").read_text(), "python -m dev.bench.scaling"


def test_where_everything_is_half_as_fast_twice_as_much_is_needed() -> None:
    slower = json.loads(json.dumps(FIGURES))
    for figure in INPUTS - {"tick"}:
        for side in slower[figure]["samples"].values():
            side["values"] = [value / 2 for value in side["values"]]
    for before, after in zip(loads(FIGURES), loads(slower), strict=True):
        if before[0] in {"worker processes at work on expiry", "cores, all together"}:
            more = float(after[-1].replace(",", "")) / float(before[-1].replace(",", ""))
            assert more == pytest.approx(2, rel=0.02), before[0]
