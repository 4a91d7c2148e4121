"""``xlagraph run [options] train.py args`` and ``xlagraph run [options] -m module args``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from xlagraph.capture.host.levels import LEVELS, LINES, MEANING


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="The program's exit code is the command's; 2 if it could not be started. A .pth file "
    "of the xlagraph package begins the capture inside the program's own interpreter, and in "
    "those that it starts.",
)
@click.option("-o", "--output", default="", help="Run folder or URL (default: a new xlagraph-run).")
@click.option(
    "--level", type=click.Choice(tuple(LEVELS)), default=LINES.name, show_default=True, help=MEANING
)
@click.option("--steps", default="", help="Steps looked at closely at level 2, such as 3-5,90-.")
@click.option("--ranks", default="", help="Ranks recorded, such as 0,8 (default: all).")
@click.option("--max-bytes", default="", help="Bound for each process, such as 512M (default 1G).")
@click.option("--holders", is_flag=True, help="Find what holds each live tensor (slow).")
@click.option("--signal", default="", help="Signal that asks for a close look, such as USR2.")
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module name.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    output: str,
    level: str,
    steps: str,
    ranks: str,
    max_bytes: str,
    signal: str,
    *,
    holders: bool,
    module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run the Python program PROGRAM with capture switched on."""
    from xlagraph.capture.host.folder import is_taken
    from xlagraph.capture.host.inherited import PROGRAM_VARIABLE, ensure_job
    from xlagraph.capture.host.options import options_from
    from xlagraph.run.remote import is_url

    variables = {
        "XLAGRAPH": level,
        "XLAGRAPH_DIR": output,
        "XLAGRAPH_STEPS": steps,
        "XLAGRAPH_RANKS": ranks,
        "XLAGRAPH_MAX_BYTES": max_bytes,
        "XLAGRAPH_HOLDERS": "1" if holders else "",
        "XLAGRAPH_SIGNAL": signal,
    }
    os.environ.update({name: value for name, value in variables.items() if value})
    options = options_from(os.environ)  # what cannot be read is told here, not by the program
    job = ensure_job()
    if options.path and not is_url(options.path) and is_taken(Path(options.path), job):
        raise click.UsageError(f"{options.path} holds the run of another job: name a new folder")
    os.environ[PROGRAM_VARIABLE] = str(os.getpid())  # exec keeps it
    target = ["-m", program] if module else [program]
    # The same process: signals, exit code and terminal are the program's own.
    os.execv(sys.executable, [sys.executable, *target, *arguments])  # noqa: S606
