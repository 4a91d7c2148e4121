"""``with xlagraph.assert_stable(...)``: capture a block, fail with the named cause."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from xlagraph.capture import process
from xlagraph.capture.context import capture
from xlagraph.capture.host.say import say
from xlagraph.run.reader import read_run
from xlagraph.run.scratch import scratch_folder
from xlagraph.watch.stable import StableWatch, UnstableError


@contextmanager
def assert_stable(max_graphs: int = 1, after_step: int = 2) -> Iterator[None]:
    """Fail when steps of the block run more than ``max_graphs`` graphs after warm-up.

    Steps are counted from the block's start; the first ``after_step`` are warm-up. Only
    syncs that end a step count, and reads of values that compile.

    Raises:
        UnstableError: at the block's end; its message names the cause. It is an
            ``AssertionError``. An exception of the block itself goes first.
    """
    folder = scratch_folder()
    watch = StableWatch(max_graphs, after_step)
    try:
        with capture(folder / "run"):
            hub = process.the_hub()
            assert hub is not None
            process.add_sink(hub, watch)
            try:
                yield
            finally:
                process.remove_sink(hub, watch)
        if watch.failed:
            text, is_warm_up = _explain(folder / "run")
            raise UnstableError(watch.message(text, is_warm_up=is_warm_up))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _explain(folder: Path) -> tuple[str, bool]:
    """The run's explanation as text, and whether all of it is warm-up.

    A failure to explain is itself said.
    """
    text = StringIO()
    try:
        # Not before: a program that stays stable never loads the analysis.
        from rich.console import Console

        from xlagraph.runs.explain import explain_run
        from xlagraph.terminal.run import print_run

        explained = explain_run(read_run(folder))
        print_run(Console(file=text, width=100, markup=False), explained)
    except Exception as error:  # noqa: BLE001 - the assertion must be told even so
        say(f"the cause could not be explained: {type(error).__name__}: {error}")
        return text.getvalue(), False
    lines = (line.rstrip() for line in text.getvalue().splitlines())  # cells are padded
    return "\n".join(lines), not explained.has_problem
