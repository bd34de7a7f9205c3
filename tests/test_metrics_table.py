"""`docs/metrics.md` documents every metric, and no other (section 8)."""

from pathlib import Path

from prometheus_client.core import Metric

from app.telemetry import database_state, metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"


def row(metric: Metric) -> str:
    """Its line of the table."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = {
        (label, value)
        for sample in metric.samples
        for label, value in sample.labels.items()
        if label != "le"
    }
    shown = ", ".join(
        f"{label}={' / '.join(sorted(value for other, value in labels if other == label))}"
        for label in sorted({label for label, _ in labels})
    )
    return f"| `{name}` | {metric.type} | {shown or '–'} | {metric.documentation} |"


def test_the_table_says_what_the_code_says() -> None:
    counted = [row(metric) for metric in metrics.registry.collect()]
    read = [row(family) for family in database_state.described()]
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert written == counted + read, "\n".join(counted + read)
