"""Flower's pages as a person reads them."""

from dataclasses import dataclass
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import visibility_of_element_located
from selenium.webdriver.support.wait import WebDriverWait


@dataclass(frozen=True)
class Shown:
    """One line of Flower's list of tasks."""

    name: str
    state: str
    result: str


class Flower:
    """Flower in a browser that has logged in."""

    def __init__(self, window: Chrome, port: int, login: str) -> None:
        self.window = window
        self.address = f"http://127.0.0.1:{port}"
        window.get(f"http://{login}@127.0.0.1:{port}/")

    def open(self, path: str, until: str) -> None:
        """Show a page; return when the element (a CSS selector) is visible there."""
        self.window.get(f"{self.address}/{path}")
        there = visibility_of_element_located((By.CSS_SELECTOR, until))
        WebDriverWait(self.window, 60).until(there)

    def tasks(self) -> dict[str, Shown]:
        """The list of tasks as it is now, by their ids."""
        self.open("tasks", "#tasks-table tbody td")
        lines: list[list[str]] = self.window.execute_script(
            """return [...document.querySelectorAll('#tasks-table tbody tr[id]')].map(
                line => [line.id, ...[...line.cells].slice(0, 3).map(cell => cell.textContent)])"""
        )
        return {line[0]: Shown(*line[1:]) for line in lines}

    def text(self, selector: str) -> str:
        """All that this part of the page says."""
        return str(self.window.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent"))

    def first_column(self, table: str) -> list[str]:
        """What stands in the first cell of every line of the table's body."""
        cells = self.window.find_elements(By.CSS_SELECTOR, f"{table} tr td:first-child")
        return [str(cell.get_attribute("textContent")) for cell in cells]

    def photograph(self, path: Path) -> None:
        """The whole page, with nothing to scroll to."""
        height = self.window.execute_script("return document.documentElement.scrollHeight")
        frame = self.window.execute_script("return window.outerHeight - window.innerHeight")
        self.window.set_window_size(self.window.get_window_size()["width"], height + frame)
        assert self.window.save_screenshot(str(path))
