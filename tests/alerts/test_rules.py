"""The alerts as Prometheus reads them: they fire when they should, and only then (section 8)."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.telemetry import database_state, metrics
from tests.alerts.night import OPS, RULES
from tests.alerts.runbook import ROOT, linked

BASE = "{{ $externalLabels.repository }}"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}
SPECIFIED = {
    "AppointmentTimeoutNoSuccessfulCycle",
    "AppointmentTimeoutBacklog",
    "AppointmentTimeoutErrors",
    "OutboxBacklog",
}


def verdict(promtool: str, prometheus: Path) -> subprocess.CompletedProcess[str]:
    """What promtool says to the rules' own tests below this directory."""
    tests = sorted((prometheus / "tests").glob("*.yml"))
    return subprocess.run(
        [promtool, "test", "rules", *tests], capture_output=True, text=True, check=False
    )


def test_prometheus_accepts_the_configuration_and_the_rules(promtool: str) -> None:
    checked = subprocess.run(
        [promtool, "check", "config", OPS / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rule files found" in checked.stdout


def test_the_rules_pass_their_own_tests(promtool: str) -> None:
    said = verdict(promtool, OPS)
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize("broken", ["vector(1) < 0", "vector(1)"], ids=["never", "always"])
@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_that_fires_never_or_always_fails_them(
    promtool: str, tmp_path: Path, alert: str, broken: str
) -> None:
    shutil.copytree(OPS, tmp_path / "prometheus")
    for path in (tmp_path / "prometheus" / "rules").glob("*.yml"):
        rules = yaml.safe_load(path.read_text())
        for rule in rules["groups"][0]["rules"]:
            if rule["alert"] == alert:
                rule["expr"] = broken
        path.write_text(yaml.safe_dump(rules))
    said = verdict(promtool, tmp_path / "prometheus")
    assert said.returncode == 1
    assert alert in said.stdout + said.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_leads_to_a_section_that_names_it_with_its_severity(alert: str) -> None:
    rule = ALERTS[alert]
    severity, notes = rule["labels"]["severity"], rule["annotations"]
    assert severity in {"critical", "warning"}
    assert notes["summary"].endswith(".")
    assert notes["runbook_url"].startswith(f"{BASE}ops/runbooks/")
    assert f"`{alert}`, {severity}." in linked(notes["runbook_url"].removeprefix(BASE)).text


def test_the_specifications_four_are_among_them() -> None:
    assert set(ALERTS) >= SPECIFIED


def test_they_ask_only_for_what_workers_tell() -> None:
    told = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    told |= {family.name for family in database_state.described()}
    asked = {name for rule in ALERTS.values() for name in re.findall(r"calendar_\w+", rule["expr"])}
    assert asked
    assert asked <= told


def test_prometheus_scrapes_the_workers_of_the_compose_file_under_the_rules_name() -> None:
    config = yaml.safe_load((OPS / "prometheus.yml").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    [job] = config["scrape_configs"]
    [found] = job["dns_sd_configs"]
    assert all(
        f'job="{job["job_name"]}"' in rule["expr"]
        for rule in ALERTS.values()
        if "up{" in rule["expr"].replace("_up", "")
    )
    [worker] = found["names"]
    assert str(found["port"]) == compose[worker]["environment"]["METRICS_PORT"]
    assert "./ops/prometheus:/etc/prometheus:ro" in compose["prometheus"]["volumes"]
    assert "--config.file=/etc/prometheus/prometheus.yml" in compose["prometheus"]["command"]
