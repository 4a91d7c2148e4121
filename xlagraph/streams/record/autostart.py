"""Imported by ``xlagraph_autostart.pth`` at interpreter start when ``XLAGRAPH_STREAMS`` is set.

Nothing heavy is imported and nothing happens before the program imports torch.
"""

from __future__ import annotations

import os

from xlagraph.capture.host.imports import when_imported
from xlagraph.capture.host.say import say


def arm() -> None:
    """Waits for the import of torch."""
    when_imported("torch", _begin)


def _begin() -> None:
    try:
        from xlagraph.streams.record.steps import Steps, options_from

        Steps(options_from(os.environ)).install()
    except Exception as error:  # noqa: BLE001 - the program must start whatever happens
        say(f"no stream log: {error}")


if os.environ.get("XLAGRAPH_STREAMS", "").strip():
    arm()
