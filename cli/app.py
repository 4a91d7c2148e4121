"""The ``xlagraph`` command group. Each subcommand is loaded when it is called."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import TextIO

import click

from xlagraph.errors import RuleWarning, XlagraphError
from xlagraph.limits import DEFAULT_MAX_INPUT, bytes_from, set_max_input

COMMANDS = {
    "canon": "Print a module's canonical text, or its ladder of digests.",
    "cause": "Explain a kind of cause, or list all kinds.",
    "compare": "Say what a newer run of a program does better or worse.",
    "diff": "Say what differs between two modules, and why.",
    "list": "List the modules that a file or folder holds.",
    "export": "Write a module as a graph for other tools.",
    "explain": "Say why a captured run compiled as often as it did.",
    "report": "Write a run, or a pair of modules, as one HTML page.",
    "run": "Run a Python program with capture switched on.",
    "streams": "Say which CUDA streams use memory in no order, in a stream log.",
    "stats": "Count a captured run's steps, compiles and seconds.",
}


_NO_INPUT = ("cause", "run")
"""Commands that read no file of which they do not know how large it is."""


def _limit(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    if text is None:
        return
    size = bytes_from(text)
    if size is None:
        raise click.BadParameter(f"want bytes such as 512M or 8G; got {text!r}")
    set_max_input(size)


_MAX_INPUT = click.Option(
    ["--max-input"],
    metavar="BYTES",
    expose_value=False,
    is_eager=True,
    callback=_limit,
    help=f"Refuse inputs larger than this, unpacked, such as 8G.  [default: {DEFAULT_MAX_INPUT}]",
)


class _LazyGroup(click.Group):
    """Knows its subcommands by name, so that ``--help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"xlagraph.cli.{name}").command
        if name not in _NO_INPUT and _MAX_INPUT not in command.params:
            command.params.append(_MAX_INPUT)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a name with a slip of the pen is proposed."""
        near = get_close_matches(args[0], COMMANDS, n=1)
        if near and args[0] not in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 same computation, or nothing to report; 1 different, or found; 2 bad "
    "input or usage; 3 order unknown (streams).",
)
@click.version_option(package_name="xlagraph")
def cli() -> None:
    """Names the cause when PyTorch/XLA training recompiles."""


def run() -> None:
    """Runs the command; turns the errors that a user can cause into one message and code 2."""
    gc.freeze()
    gc.disable()  # a short-lived process that builds large acyclic lists
    warnings.showwarning = _warn
    try:
        cli.main(prog_name="xlagraph", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except XlagraphError as error:
        _end(str(error), error.exit_code)
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on
        sys.exit(1)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(f"cannot write the output: {error.strerror or error}", 2)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Shows our own warnings as a line, those of libraries as Python does."""
    if issubclass(category, RuleWarning):
        click.echo(f"xlagraph: {message}", err=True)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        click.echo(text, file=file, nl=False, err=True)


def _end(message: str, code: int) -> None:
    click.echo(f"xlagraph: {message}", err=True)
    sys.exit(code)
