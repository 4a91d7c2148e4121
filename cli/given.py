"""What commands do alike with what they are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from xlagraph.run.reader import Run


class OneRun(click.Command):
    """A command that takes one run, and says what takes two."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with a hint where more is given."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            said = f"{error.message}; `xlagraph compare OLD NEW` compares two runs"
            raise click.UsageError(said, error.ctx) from None


def run_or_newest(run: str | None) -> str:
    """The run that was named, else the newest in this folder, which is told.

    Raises:
        RunError: there is none.
    """
    if run:
        return run
    from xlagraph.run.reader import RunError
    from xlagraph.run.recent import newest_run

    try:
        found = str(newest_run(Path()))
    except RunError as error:
        command = click.get_current_context().info_name
        raise RunError(f"{error}; or name one, as in `xlagraph {command} RUN`") from None
    click.echo(f"The newest run here: {found}", err=True)
    return found


def open_run(path: str) -> Run:
    """The run in a folder, or at a URL.

    Raises:
        RunError: none is there, with what is there instead; or as `read_run`.
    """
    from xlagraph.inputs import is_run
    from xlagraph.run.reader import RunError, read_run

    instead = "" if is_run(path) or not Path(path).is_dir() else _instead(Path(path))
    if instead:
        raise RunError(f"{path}: not a run folder, but it holds {instead}")
    return read_run(path)


def _instead(folder: Path) -> str:
    """What a folder holds that is no run: run folders, or modules; empty where neither."""
    from shlex import quote

    from xlagraph.hlo.containers import open_entries
    from xlagraph.message import count
    from xlagraph.run.recent import runs_in

    command = click.get_current_context().info_name
    runs = [one.path for one in runs_in(folder)]
    if runs:
        what = runs[-1].name if len(runs) == 1 else f"{len(runs)} runs, {runs[-1].name} the newest"
        return f"{what}: xlagraph {command} {quote(str(runs[-1]))}"
    modules = [one for one in open_entries(str(folder)).entries if one.form != "unknown"]
    if not modules:
        return ""
    return (
        f"{count(len(modules), 'module')}: `xlagraph list {quote(str(folder))}` names them, "
        "`xlagraph diff A B` compares two"
    )


def complete_run(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    """Run folders that begin so, else any folder, for a shell."""
    from click.shell_completion import CompletionItem

    from xlagraph.run.recent import runs_in

    folder, _, _ = text.rpartition("/")
    here = Path(folder or ("/" if text.startswith("/") else "."))
    try:
        runs = [str(one.path) for one in runs_in(here)]
    except OSError:
        runs = []
    found = [run for run in runs if run.startswith(text)]
    return [CompletionItem(run) for run in found] or [CompletionItem(text, type="dir")]


def complete_kind(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    """Kinds of cause that begin so, with their titles, for a shell."""
    from click.shell_completion import CompletionItem

    from xlagraph.catalogue import kinds

    found = [kind for kind in kinds().values() if kind.id.startswith(text)]
    return [CompletionItem(kind.id, help=kind.title) for kind in found]
