"""Coverage-guided fuzzing of everything that reads text: ``python fuzz/reader.py -runs=200000``.

Needs ``pip install atheris``; takes libFuzzer's options. Seeds are the dialect texts unless a
corpus folder is given. It ends with a trace when something other than the project's own
error comes out, or when the fast and the general way of the reader disagree.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["xlagraph"]):
    from xlagraph.errors import GraphError, InputError, Source, XlagraphError
    from xlagraph.hlo import read_module, read_shape
    from xlagraph.hlo.lazy_ir import read_lazy_ir
    from xlagraph.hlo.printer import SHORT, print_module
    from xlagraph.hlo.verify import verify

DIALECTS = Path(__file__).parent.parent / "fixtures" / "dialects"


def outcome(text: str, *, plain: bool) -> str:
    """What one way of reading makes of a text: its short form, or its error."""
    try:
        module = read_module(text, plain=plain)
    except InputError as error:
        return str(error)
    with contextlib.suppress(GraphError):  # operands that do not fit the opcode are no syntax
        verify(module)
    read_module(print_module(module))
    return print_module(module, SHORT)


def check(data: bytes) -> None:
    """Runs every reader on one input."""
    text = data.decode("utf-8", "replace")
    fast, general = outcome(text, plain=True), outcome(text, plain=False)
    if fast != general:
        raise AssertionError(f"fast: {fast}\ngeneral: {general}")
    for read in (read_shape, lambda text: read_lazy_ir(Source("<fuzz>", text))):
        try:
            read(text)
        except XlagraphError as error:
            str(error)


def main() -> None:
    """Starts libFuzzer, with the dialect texts as seeds unless a folder is given."""
    arguments = list(sys.argv)
    if all(argument.startswith("-") for argument in arguments[1:]):
        seeds = Path(tempfile.mkdtemp(prefix="xlagraph-fuzz-"))
        for path in DIALECTS.glob("*.hlo"):
            shutil.copy(path, seeds)
        arguments.append(str(seeds))
    atheris.Setup(arguments, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
