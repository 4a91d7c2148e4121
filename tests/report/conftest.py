"""A headless Chromium for the report's tests."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from report_browser import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, once a session; under CI its absence is a failure."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        missing = "chromium and chromedriver are needed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from report_browser import start

    running = start(tmp_path_factory.mktemp("chromium"))
    yield running
    running.driver.quit()


@pytest.fixture
def no_complaints(browser: Browser) -> Iterator[None]:
    """Holds a test to a console without errors, and gives the next one the usual window."""
    yield
    assert browser.complaints() == []
    browser.resize(1440)
    browser.scheme("light")
