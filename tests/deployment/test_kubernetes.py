"""The manifests: the published schemas, and the product behind each of their words."""

import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject
from cloudcoil.models.prometheus_operator.v1 import PodMonitor, PrometheusRule
from cloudcoil.resources import Resource

from app import settings
from app.telemetry import database_state, metrics
from dev.processes import ROOT
from tests.alerts.night import OPS, RULES
from tests.deployment import image, kubernetes
from tests.deployment.compose import SCRATCH
from tests.docs.fences import blocks
from tests.docs.values import refused

VERSIONS = ("1.28", "1.37")
"""The oldest and the newest that the manifests are held against."""
OBJECTS = [
    pytest.param(one, id=f"{one['kind']} {one['metadata']['name']}") for one in kubernetes.objects()
]
MODELS: dict[str, type[Resource]] = {"PodMonitor": PodMonitor, "ScaledObject": ScaledObject}
PODS = pytest.mark.parametrize("pod", kubernetes.templates())
LABEL = "app.kubernetes.io/name"


def foreign(model: type[Resource], told: dict[str, Any]) -> dict[str, Any]:
    """What an operator's model makes of it: an unknown field is gone, a wrong value raises."""
    read = model.model_validate(told)
    return read.model_dump(mode="json", by_alias=True, exclude_unset=True)


@pytest.mark.parametrize("told", OBJECTS)
def test_the_published_schemas_accept_it(told: dict[str, Any]) -> None:
    if told["kind"] in MODELS:
        assert foreign(MODELS[told["kind"]], told) == told
        return
    for version in VERSIONS:
        kubernetes_validate.validate(told, version, strict=True)


@PODS
def test_a_pod_is_told_what_it_needs_and_understands(pod: str) -> None:
    told = kubernetes.environment(kubernetes.containers()[pod])
    assert refused(told) == []
    needed = {"DATABASE_URL"}
    if not pod.endswith("migrate"):
        needed |= {"CELERY_BROKER_URL", "KAFKA_BOOTSTRAP_SERVERS"}
    assert needed <= told.keys()


def test_workers_do_not_hold_the_owners_address() -> None:
    for pod, container in kubernetes.containers().items():
        owner = "appointment-timeout-owner" in str(container["envFrom"])
        assert owner == pod.endswith("migrate"), pod


@PODS
def test_a_pod_has_no_rights_that_it_does_not_need(pod: str) -> None:
    spec, container = kubernetes.templates()[pod]["spec"], kubernetes.containers()[pod]
    user, group = map(int, image.only("USER").split(":"))
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [SCRATCH]
    assert container["resources"]["limits"].keys() == {"memory"}


@PODS
def test_a_pod_runs_this_version(pod: str) -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert kubernetes.containers()[pod]["image"].endswith(f"/appointment-timeout:{version[1]}")


def test_every_selector_finds_the_workers() -> None:
    labels = kubernetes.templates()["appointment-timeout-worker"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        spec = kubernetes.named(kind, "appointment-timeout-worker")["spec"]
        assert spec["selector"]["matchLabels"] == labels
    assert kubernetes.named("PodMonitor", "appointment-timeout")["spec"]["selector"] == {
        "matchLabels": labels
    }


def test_there_is_one_beat_and_never_two() -> None:
    spec = kubernetes.named("Deployment", "appointment-timeout-beat")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_metrics_are_scraped_where_they_are_served_and_under_the_rules_name() -> None:
    container = kubernetes.containers()["appointment-timeout-worker"]
    told = kubernetes.environment(container)
    [port] = container["ports"]
    spec = kubernetes.named("PodMonitor", "appointment-timeout")["spec"]
    [endpoint] = spec["podMetricsEndpoints"]
    assert endpoint["port"] == port["name"]
    assert str(port["containerPort"]) == told["METRICS_PORT"]
    assert told["METRICS_HOST"] == "0.0.0.0"  # noqa: S104 - a pod's own network
    [job] = yaml.safe_load((OPS / "prometheus.yml").read_text())["scrape_configs"]
    labels = kubernetes.templates()["appointment-timeout-worker"]["metadata"]["labels"]
    assert labels[spec["jobLabel"]] == job["job_name"]


def test_scaling_asks_for_what_workers_tell_and_never_leaves_none() -> None:
    """Without a worker there is no metric, and nothing would ever start one again."""
    spec = kubernetes.named("ScaledObject", "appointment-timeout-worker")["spec"]
    assert spec["scaleTargetRef"]["name"] in kubernetes.templates()
    assert 1 < spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    told = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    told |= {family.name for family in database_state.described()}
    queries = [trigger["metadata"]["query"] for trigger in spec["triggers"]]
    asked = {name for query in queries for name in re.findall(r"calendar_\w+", query)}
    assert asked
    assert asked <= told
    batch = settings.AppointmentTimeoutSettings.model_fields["appointment_timeout_batch_size"]
    assert spec["triggers"][0]["metadata"]["threshold"] == str(batch.default)


def test_the_pages_command_makes_prometheus_rules_of_the_alerts(tmp_path: Path) -> None:
    [block] = [b for b in blocks(ROOT / "docs" / "deployment.md") if "PrometheusRule" in b.text]
    (tmp_path / "ops").symlink_to(ROOT / "ops")
    subprocess.run(["bash", "-euc", block.text], cwd=tmp_path, check=True)
    made = {path.stem: yaml.safe_load(path.read_text()) for path in (tmp_path / "rules").iterdir()}
    assert made.keys() == {rules.stem for rules in RULES}
    for rules in RULES:
        told = made[rules.stem]
        assert foreign(PrometheusRule, told) == told
        assert told["spec"] == yaml.safe_load(rules.read_text())
