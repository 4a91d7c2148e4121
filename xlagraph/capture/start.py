"""Begin the capture that the environment asks for, in two halves around torch_xla's import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from xlagraph.capture import process
from xlagraph.capture.dump import Dump
from xlagraph.capture.folder import choose_folder
from xlagraph.capture.options import Options, options_from
from xlagraph.capture.patches import say
from xlagraph.capture.session import Session
from xlagraph.capture.signals import on_signal
from xlagraph.errors import XlagraphError
from xlagraph.run.remote import before_threads_end, is_url


@dataclass(slots=True)
class Start:
    """The first half: the folder is chosen and the flags are set."""

    options: Options
    folder: Path
    dump: Dump

    @classmethod
    def from_environment(cls) -> Start | None:
        """Read ``XLAGRAPH*``; None, with a line on standard error, when it cannot be done."""
        try:
            options = options_from(os.environ)
            folder = choose_folder(options)
            return cls(options, folder, process.make_dump(folder))
        except (XlagraphError, OSError) as error:
            say(f"nothing is captured: {error}")
            return None

    def finish(self) -> None:
        """The second half: hooks in, session listening."""
        try:
            hub = process.ensure_hub(self.dump, self.options)
            process.add_sink(hub, Session(self.options, self.folder))
            if self.options.signal is not None:
                on_signal(self.options.signal, hub.arming.ask)
            if is_url(self.options.path):
                before_threads_end(process.close_all)
        except Exception as error:  # noqa: BLE001 - the program must start whatever happens
            say(f"nothing is captured: {type(error).__name__}: {error}")
