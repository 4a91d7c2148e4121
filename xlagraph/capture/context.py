"""``with xlagraph.capture(...)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xlagraph.capture import process
from xlagraph.capture.host.failure import name_of
from xlagraph.capture.host.folder import choose_folder
from xlagraph.capture.host.levels import level_of
from xlagraph.capture.host.options import DEFAULT_ARM_STEPS, Numbers, Options, parse_bytes
from xlagraph.capture.session import Session
from xlagraph.capture.steps.hub import Hub
from xlagraph.run.records import EARLIER_COMPILES

_LATE = (
    "capture began after torch_xla's runtime, so XLA's dump could not be switched on: graphs "
    "are lowered once more on armed steps, those of other steps are missing, and cache keys "
    "are not known"
)


@contextmanager
def capture(
    path: str | Path = "",
    *,
    level: int | str = 1,
    steps: str = "",
    ranks: str = "",
    max_bytes: int | str = "1G",
    arm_steps: int = DEFAULT_ARM_STEPS,
    holders: bool = False,
    summary: bool = False,
) -> Iterator[Session]:
    """Record the block's syncs in the run folder ``path``, as ``XLAGRAPH=1`` would.

    Best entered before the first use of an XLA device: XLA reads its flags then, and a later
    capture gets the graphs of armed steps only.

    Raises:
        OptionError: an option that cannot be read.
        OSError: the folder cannot be made.
    """
    options = Options(
        path=str(path),
        level=level_of(level),
        steps=Numbers.parse(steps, "steps"),
        ranks=Numbers.parse(ranks, "ranks"),
        max_bytes=max_bytes if isinstance(max_bytes, int) else parse_bytes(max_bytes, "max_bytes"),
        arm_steps=arm_steps,
        holders=holders,
        summary=summary,
    )
    folder = choose_folder(options)
    hub, is_late = _the_hub(options)
    session = Session(options, folder, hub.evidence.dump)
    process.add_sink(hub, session)
    if is_late:
        session.on_note("late", _LATE)
    if earlier := hub.counters.now().compiles:
        session.on_note(EARLIER_COMPILES, f"{earlier} in this process, before the capture began")
    failure = ""
    try:
        yield session
    except BaseException as error:
        failure = name_of(error)
        raise
    finally:
        process.remove_sink(hub, session, failure)


def prepare() -> None:
    """Put the hooks in now, so that a capture begun after the first use of a device has all."""
    _the_hub(Options())


def _the_hub(options: Options) -> tuple[Hub, bool]:
    """The process's hub, and whether it came too late for XLA's dump."""
    hub = process.the_hub()
    if hub is None:
        import torch_xla  # noqa: F401 - the hub patches what this import defines

        hub = process.ensure_hub(options)
    return hub, hub.evidence.dump is None
