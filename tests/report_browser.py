"""Driving a report in headless Chromium."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from xlagraph.report.render import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

    from xlagraph.report.model import Report

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-ipc-flooding-protection",  # which leaves out steps when many come in a second
)
PATIENCE = 20.0


@dataclass
class Browser:
    """A page under test."""

    driver: webdriver.Chrome
    folder: Path

    def open(self, report: Report, address: str = "#/") -> None:
        """Renders a report and shows it."""
        self.show(render(report), address)

    def show(self, text: str, address: str = "#/") -> None:
        """Shows a page; what an earlier page logged is forgotten."""
        file = self.folder / f"{time.monotonic_ns()}.html"
        file.write_text(text)
        self.driver.get_log("browser")
        self.driver.get(f"file://{file}{address}")
        self.until(lambda: self.run("return document.body.dataset.ready") is not None)

    def go(self, address: str) -> None:
        """Changes the address, as a link does."""
        self.run("location.hash = arguments[0]", address)
        self.until(lambda: self.run("return document.body.dataset.ready") == address)

    def forget(self) -> None:
        """Goes on in a tab without a history.

        Of a full one (50 entries) Chromium drops those first that came without a click.
        """
        old = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        new = self.driver.current_window_handle
        self.driver.switch_to.window(old)
        self.driver.close()
        self.driver.switch_to.window(new)
        self.resize(1440)
        self.scheme("light")

    def back(self, to: str) -> None:
        """Goes back to an address.

        From within the page: the driver asks another process where the history stands, which may
        not have heard of the last step yet.
        """
        self.run("history.back()")
        self.until(lambda: self.run("return document.body.dataset.ready") == to)

    def run(self, script: str, *arguments: object) -> Any:
        """Runs a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], object]) -> None:
        """Waits until something holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            where = self.driver.current_url if time.monotonic() > end else ""
            assert not where, f"the page did not get there; it is at {where}"
            time.sleep(0.02)

    def texts(self, selector: str) -> list[str]:
        """Texts of the elements that are shown."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter(e => e.checkVisibility()).map(e => e.textContent)"""
        return [str(text) for text in self.run(script, selector)]

    def click(self, selector: str, *, said: str = "") -> None:
        """Clicks the first such element, or the first with that text."""
        for attempt in range(5):
            try:
                found = self.driver.find_elements(By.CSS_SELECTOR, selector)
                next(e for e in found if e.is_displayed() and said in e.text).click()
            except StaleElementReferenceException:  # the list was drawn again
                assert attempt < 4
            else:
                return

    def one(self, selector: str) -> WebElement:
        """The first such element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of the first such element."""
        return str(
            self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        )

    def press(self, *keys: str) -> None:
        """Presses keys where the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def escape(self) -> None:
        """Presses Escape."""
        self.press(Keys.ESCAPE)

    @property
    def address(self) -> str:
        """The part of the address after the file."""
        return str(self.run("return location.hash"))

    def complaints(self) -> list[str]:
        """Errors and warnings that the page logged."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def resize(self, width: int, height: int = 900) -> None:
        """Sets the size of the view."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def scheme(self, name: str) -> None:
        """Asks for light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def media(self, name: str) -> None:
        """Shows the page as on ``screen`` or as in ``print``."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": name})


def start(folder: Path) -> Browser:
    """Starts Chromium with a profile of its own."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser = Browser(driver, folder)
    browser.resize(1440)
    browser.scheme("light")
    return browser
