"""The dashboard `calendar-overview`: its row, its words, and data for every panel (section 8)."""

import json
import math
from typing import Any

import pytest
import yaml

from tests.alerts.night import Night
from tests.alerts.runbook import ROOT
from tests.neighbour import wait_until

GRAFANA = ROOT / "ops" / "grafana"
DASHBOARD: dict[str, Any] = json.loads(
    (GRAFANA / "dashboards" / "calendar-overview.json").read_text()
)
ROW, *PANELS = DASHBOARD["panels"]
RATE_INTERVAL = "4s"  # four scrapes, as Grafana does it, and more than a tick


def test_all_panels_are_in_the_row_background_jobs() -> None:
    assert DASHBOARD["uid"] == "calendar-overview"
    assert (ROW["type"], ROW["title"], ROW["gridPos"]["y"]) == ("row", "Background jobs", 0)
    assert all(panel["gridPos"]["y"] > 0 and panel["type"] != "row" for panel in PANELS)


def test_no_panel_lies_on_another() -> None:
    fields = [
        (grid["x"] + x, grid["y"] + y)
        for grid in (panel["gridPos"] for panel in PANELS)
        for x in range(grid["w"])
        for y in range(grid["h"])
    ]
    assert len(fields) == len(set(fields))
    assert max(x for x, _ in fields) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "short", "cpm"}
    assert all(target["legendFormat"] for target in panel["targets"])


def test_every_query_finds_data(watched: Night) -> None:
    """On a Prometheus that has scraped the real stack while appointments expired."""
    missing = {t["expr"]: panel["title"] for panel in PANELS for t in panel["targets"]}

    def all_found() -> bool:
        watched.world.appointment()
        for expression in list(missing):
            found = watched.prometheus.query(expression.replace("$__rate_interval", RATE_INTERVAL))
            if found and all(math.isfinite(sample.value) for sample in found):
                del missing[expression]
        return not missing

    wait_until(all_found, f"data for {missing}")


def test_the_compose_file_provisions_it() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    volumes = compose["grafana"]["volumes"]
    provisioning = GRAFANA / "provisioning"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "calendar.yml").read_text())[
        "providers"
    ]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert "./ops/grafana/provisioning:/etc/grafana/provisioning:ro" in volumes
    assert f"./ops/grafana/dashboards:{provider['options']['path']}:ro" in volumes
    assert source["url"] == "http://prometheus:9090"
    assert {target["datasource"]["uid"] for target in PANELS} == {"${datasource}"}
    assert DASHBOARD["templating"]["list"][0]["query"] == source["type"] == "prometheus"
