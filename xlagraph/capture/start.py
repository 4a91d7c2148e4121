"""Begin the capture that the environment asks for, in two halves around torch_xla's import."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from xlagraph.capture import process
from xlagraph.capture.host.folder import choose_folder
from xlagraph.capture.host.options import Options, options_from
from xlagraph.capture.host.say import say
from xlagraph.capture.host.signals import on_signal
from xlagraph.capture.host.versions import said_of
from xlagraph.capture.session import Session
from xlagraph.errors import XlagraphError
from xlagraph.run.remote import before_threads_end, is_url


@dataclass(slots=True)
class Start:
    """The first half: the folder is chosen."""

    options: Options
    folder: Path

    @classmethod
    def from_environment(cls) -> Start | None:
        """Read ``XLAGRAPH*``; None, with a line on standard error, when it cannot be done."""
        try:
            options = options_from(os.environ)
            return cls(options, choose_folder(options))
        except Exception as error:  # noqa: BLE001 - the program must start whatever happens
            _tell(error)
            return None

    def finish(self) -> None:
        """The second half: hooks in, session listening."""
        try:
            hub = process.ensure_hub(self.options)
            process.add_sink(hub, Session(self.options, self.folder, hub.evidence.dump))
            lacks = said_of(str(getattr(sys.modules["torch_xla"], "__version__", "")))
            if lacks:
                say(lacks)
            if self.options.signal is not None:
                on_signal(self.options.signal, hub.arming.ask)
            if is_url(self.options.path):
                before_threads_end(process.close_all)
        except Exception as error:  # noqa: BLE001 - the program must start whatever happens
            _tell(error)


def _tell(error: Exception) -> None:
    name = "" if isinstance(error, (XlagraphError, OSError)) else f"{type(error).__name__}: "
    say(f"nothing is captured: {name}{error}")
