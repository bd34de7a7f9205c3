"""The runbooks as a person at night reads them: sections, and in each the commands of its steps."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "ops" / "runbooks").glob("*.md"))


@dataclass(frozen=True)
class Section:
    """What an alert's link leads to."""

    text: str

    @property
    def steps(self) -> dict[str, list[str]]:
        """The shell blocks below each heading; "" holds what comes before the first one."""
        first, *rest = re.split(r"^### (.+)\n", self.text, flags=re.MULTILINE)
        parts = {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}
        return {name: re.findall(r"(?ms)^```sh\n(.*?)^```$", part) for name, part in parts.items()}


def sections(page: Path) -> dict[str, Section]:
    """Every section of a page, by the anchor that a link to it names."""
    _, *rest = re.split(r"^## (.+)\n", page.read_text(), flags=re.MULTILINE)
    titles = [title.lower().replace(" ", "-") for title in rest[::2]]
    return dict(zip(titles, map(Section, rest[1::2]), strict=True))


def linked(address: str) -> Section:
    """The section that an alert's `runbook_url` leads to."""
    path, _, anchor = address.partition("#")
    return sections(ROOT / path)[anchor]
