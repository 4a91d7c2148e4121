"""Coverage-guided fuzzing of what reads protobufs: ``python fuzz/proto.py -runs=200000``.

Needs ``pip install atheris``; takes libFuzzer's options. Seeds are the modules of
``fixtures/protos`` under 30 kB unless a corpus folder is given. Half of the mutations change
one field at any depth and write the lengths around it anew, so that they reach beyond the
outermost message. It ends with a trace when something other than the project's own error comes
out, or when what was read cannot be printed and read again as text.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["xlagraph"]):
    from xlagraph.canon.form import canonical_lines
    from xlagraph.canon.labels import Level
    from xlagraph.errors import BytesError, GraphError, InputError
    from xlagraph.hlo import open_entries, read_module
    from xlagraph.hlo.origin import find_origins
    from xlagraph.hlo.printer import print_module
    from xlagraph.hlo.proto.reader import read_proto
    from xlagraph.hlo.verify import verify
    from xlagraph.wire import wire_fields

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOS = Path(__file__).parent.parent / "fixtures" / "protos"
LARGEST = 30_000
DEEPEST = 8


def check(data: bytes) -> None:
    """Reads one input in all ways in which a module is used."""
    try:
        module = read_proto(data)
    except BytesError as error:
        str(error)
        return
    for i in range(len(module)):
        module.metadata(i)
    find_origins(module)
    with contextlib.suppress(GraphError):  # operands that do not fit the opcode are no syntax
        verify(module)
    with contextlib.suppress(GraphError):
        list(canonical_lines(module, Level.NAMES))
    text = print_module(module)
    with contextlib.suppress(InputError):  # names and opcodes can be what no text can say
        read_module(text)


def mutate(data: bytes, largest: int, seed: int) -> bytes:
    """Changes bytes anywhere, or one field with the lengths around it."""
    chance = random.Random(seed)  # noqa: S311
    changed = _in_field(data, chance, 0) if chance.random() < 0.5 else None
    return (changed or atheris.Mutate(data, largest))[:largest]


def _in_field(data: bytes, chance: random.Random, depth: int) -> bytes | None:
    """A message with one field changed, left out, or written twice; None if it is no message."""
    try:
        fields = list(wire_fields(data, 0, len(data), ""))
    except BytesError:
        return None
    if not fields:
        return None
    field = chance.choice(fields)
    before, whole = data[: field.tag], data[field.tag : field.stop]
    value, after = data[field.start : field.stop], data[field.stop :]
    if field.wire == 2 and depth < DEEPEST and chance.random() < 0.9:
        inner = _in_field(value, chance, depth + 1)
        if inner is None:
            inner = atheris.Mutate(value, len(value) + 16)
        return before + _varint(field.number << 3 | 2) + _varint(len(inner)) + inner + after
    edits: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: whole + whole,
        lambda: atheris.Mutate(whole, len(whole) + 16),
        lambda: _varint(chance.randrange(1, 130) << 3) + _varint(chance.randrange(1 << 63)),
    ]
    return before + chance.choice(edits)() + after


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def main() -> None:
    """Starts libFuzzer, with the small modules as seeds unless a folder is given."""
    arguments = list(sys.argv)
    if all(argument.startswith("-") for argument in arguments[1:]):
        seeds = Path(tempfile.mkdtemp(prefix="xlagraph-fuzz-"))
        for folder in filter(Path.is_dir, PROTOS.iterdir()):
            for entry in open_entries(str(folder)).entries:
                if len(entry.data()) < LARGEST:
                    (seeds / f"{folder.name}.{entry.stage}").write_bytes(entry.data())
        arguments.append(str(seeds))
    atheris.Setup(arguments, check, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
