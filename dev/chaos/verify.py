"""The product's own audit, as its users run it, beside ours."""

import json
import signal
import subprocess
import sys

from dev.chaos.stage import Stage
from dev.chaos.verdict import Finding, Kind
from dev.processes import ROOT, last_line
from dev.servers.launcher import end_with_launcher

_SECONDS = 300.0


class Verify:
    """`python -m app verify`, begun now: with `--kafka` while the topics are whole."""

    def __init__(self, stage: Stage) -> None:
        options = ["--json", *(["--kafka"] if stage.topics_are_whole else [])]
        self._ran = subprocess.Popen(
            [sys.executable, "-m", "app", "verify", *options],
            cwd=ROOT,
            env=stage.product.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_launcher(signal.SIGKILL),  # noqa: PLW1509 - two C calls
        )

    def findings(self) -> list[Finding]:
        """What it calls a violation, once it has ended."""
        try:
            said, trouble = self._ran.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._ran.kill()
            said, trouble = "", f"no end after {_SECONDS:.0f} s"
        try:
            found = json.loads(said)["findings"]
        except (ValueError, KeyError):
            found = []
        if self._ran.returncode and not found:
            return [Finding(Kind.OTHER, "app verify failed", last_line(trouble))]
        return [
            Finding(Kind.OTHER, f"app verify, {one['check']}: {one['found']}", one["id"])
            for one in found
            if one["severity"] == "violation"
        ]
