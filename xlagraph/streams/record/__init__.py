"""Record the order of a CUDA program: ``XLAGRAPH_STREAMS=3-5`` or `record_streams`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xlagraph.capture.host.options import DEFAULT_MAX_BYTES
from xlagraph.capture.host.say import say
from xlagraph.streams.unseen import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def record_streams(
    path: str | Path = "", *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Callable[[], None]]:
    """Records what the block does on CUDA into a log for ``xlagraph streams``.

    The block is to be run by the thread that trains, after some steps of warm-up: a kernel's
    first run loads it, which hides what it would do otherwise. The value given is a function to
    be called where a step ends. Nothing is computed differently, nothing waits for the device.

    Args:
        path: The log; ``""`` for ``xlagraph-streams.jsonl`` or the next free name.
        max_bytes: Bound on the log's size.

    Raises:
        OSError: the log cannot be created.
        RuntimeError: torch has no CUDA device.
    """
    import torch

    from xlagraph.capture.host.options import Numbers
    from xlagraph.streams.record.session import Recording
    from xlagraph.streams.record.steps import StreamOptions, free_path

    if not torch.cuda.is_available():
        raise RuntimeError("record_streams needs a CUDA device")
    torch.cuda.current_stream()  # initializes CUDA, if nothing has so far
    where = Path(path) if path else free_path(StreamOptions(Numbers()))
    recording = Recording(where, max_bytes, BLOCK)
    recording.start()
    try:
        yield recording.step
    finally:
        recording.stop()
        say(f"{recording.records:,} records; next: xlagraph streams {recording.path}")
