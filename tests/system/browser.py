"""A real browser without a window: Debian's Chromium, driven by its own driver."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

PROGRAMS = ("chromium", "chromedriver")
SIZE = "1480,900"  # of the window, in pixels: a laptop's

needs_chromium = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not all(map(shutil.which, PROGRAMS)),
    reason="needs a browser: apt-get install chromium chromium-driver",
)
"""Skips on a laptop that has none; in CI the missing program is the test's failure."""


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """Chromium with an empty profile in the directory `profile`, which it makes; never online."""
    chromium, driver = map(_program, PROGRAMS)
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless",
        "no-sandbox",  # it refuses to run as root otherwise; it opens only our own pages
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "hide-scrollbars",
        f"user-data-dir={profile}",
        f"window-size={SIZE}",
    ):
        options.add_argument(f"--{flag}")
    # Both named: selenium's own finder would look for downloads.
    started = Chrome(options, ChromeService(driver))
    try:
        yield started
    finally:
        started.quit()


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed"
    return found
