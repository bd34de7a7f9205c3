"""Shows how far the trials are, and a line per outcome."""

from dev.chaos import scorecard
from dev.chaos.trial import Line
from dev.progress import Progress


class Show(Progress):
    """Says what happens, with the minutes since the beginning."""

    def outcome(self, line: Line) -> None:
        """A fault is over."""
        self.console.print(self.clock(), scorecard.sentence(line), soft_wrap=True)
        if line.findings:
            self.console.print(scorecard.troubles(line), soft_wrap=True)
