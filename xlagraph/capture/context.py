"""``with xlagraph.capture(...)`` and ``with xlagraph.assert_stable(...)``."""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

from xlagraph.capture import process
from xlagraph.capture.dump import Dump
from xlagraph.capture.folder import choose_folder
from xlagraph.capture.hub import Hub
from xlagraph.capture.options import DEFAULT_ARM_STEPS, Numbers, Options, parse_bytes
from xlagraph.capture.patches import say
from xlagraph.capture.session import Session
from xlagraph.capture.stable import StableWatch, UnstableError
from xlagraph.run.reader import read_run

_LATE = (
    "capture began after torch_xla's runtime, so XLA's dump could not be switched on: graphs "
    "are lowered once more on armed steps, those of other steps are missing, and cache keys "
    "are not known"
)


@contextmanager
def capture(
    path: str | Path = "",
    *,
    level: int = 1,
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
        level=level,
        steps=Numbers.parse(steps, "steps"),
        ranks=Numbers.parse(ranks, "ranks"),
        max_bytes=max_bytes if isinstance(max_bytes, int) else parse_bytes(max_bytes, "max_bytes"),
        arm_steps=arm_steps,
        holders=holders,
        summary=summary,
    )
    session = Session(options, choose_folder(options))
    hub, is_late = _hub(options)
    process.add_sink(hub, session)
    if is_late:
        session.on_note("late", _LATE)
    try:
        yield session
    finally:
        process.remove_sink(hub, session)


def _hub(options: Options) -> tuple[Hub, bool]:
    """The process's hub, and whether it came too late for XLA's dump."""
    hub = process.the_hub()
    if hub is None:
        dump = _early_dump()
        import torch_xla  # noqa: F401 - the hub patches what this import defines

        hub = process.ensure_hub(dump, options)
    return hub, hub.evidence.dump is None


def _early_dump() -> Dump | None:
    xlac = sys.modules.get("_XLAC")
    if xlac is not None and xlac._xla_runtime_is_initialized():
        return None
    return process.make_temporary_dump()


@contextmanager
def assert_stable(max_graphs: int = 1, after_step: int = 2) -> Iterator[None]:
    """Fail when steps of the block run more than ``max_graphs`` graphs after warm-up.

    Steps are counted from the block's start; the first ``after_step`` are warm-up. Only
    syncs that end a step count, and reads of values that compile.

    Raises:
        UnstableError: at the block's end; its message names the cause. It is an
            ``AssertionError``. An exception of the block itself goes first.
    """
    folder = Path(tempfile.mkdtemp(prefix="xlagraph-"))
    watch = StableWatch(max_graphs, after_step)
    try:
        with capture(folder / "run") as session:
            hub = process.the_hub()
            assert hub is not None
            session.options = replace(session.options, arm_steps=after_step + max_graphs)
            process.add_sink(hub, watch)
            try:
                yield
            finally:
                process.remove_sink(hub, watch)
        if watch.failed:
            raise UnstableError(watch.message(_explain(folder / "run")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _explain(folder: Path) -> str:
    """The run's explanation as text; a failure to explain is itself said."""
    text = StringIO()
    try:
        # Not before: a program that stays stable never loads the analysis.
        from rich.console import Console

        from xlagraph.cause.run_explain import explain_run
        from xlagraph.terminal.run import print_run

        print_run(Console(file=text, width=100, markup=False), explain_run(read_run(folder)))
    except Exception as error:  # noqa: BLE001 - the assertion must be told even so
        say(f"the cause could not be explained: {type(error).__name__}: {error}")
    return text.getvalue()
