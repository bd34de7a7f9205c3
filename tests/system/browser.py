"""A real browser without a window: Debian's Chromium, driven by its own driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.programs import needed

SIZE = "1480,900"  # of the window, in pixels: a laptop's


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """Chromium with an empty profile in the directory `profile`, which it makes; never online."""
    options = ChromeOptions()
    options.binary_location = needed("chromium", "chromium")
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
    started = Chrome(options, ChromeService(needed("chromedriver", "chromium-driver")))
    try:
        yield started
    finally:
        started.quit()
