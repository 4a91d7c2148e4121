"""``@pytest.mark.xlagraph(max_graphs=..., after_step=...)``: a test must stay stable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

_HELP = (
    "xlagraph(max_graphs=1, after_step=2): fail when the test's steps run more graphs than "
    "that after warm-up; the message names the cause"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _HELP)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Put capture's hooks in before a test without the marker uses a device."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("xlagraph") for item in session.items):
        from xlagraph.capture.context import prepare

        with suppress(ImportError, OSError):  # where it matters the marked test says so itself
            prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a marked test inside ``assert_stable``."""
    marker = item.get_closest_marker("xlagraph")
    if marker is None:
        return (yield)
    from xlagraph.watch.guard import assert_stable

    with assert_stable(*marker.args, **marker.kwargs):
        return (yield)
