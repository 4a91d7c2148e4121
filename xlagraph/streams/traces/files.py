"""Reading what a profiler wrote: JSON, compressed or not, and pickles that may hold no code."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import warnings
from typing import Any

from xlagraph.content import Content
from xlagraph.errors import InputError, Location, Source, SpecError

EXCERPT = 200
"""Characters of a file kept around the place of an error."""

Json = dict[str, Any]


def read_json(path: str) -> Json:
    """A JSON object from a file (plain, .gz or .zst).

    Raises:
        SpecError: the file cannot be read, or holds something else than an object.
        InputError: it is not JSON.
    """
    content = Content(path)
    text = content.data[:].decode("utf-8", "replace")
    if content.damage:
        raise SpecError(f"{path}: {content.damage}")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise _not_json(path, text, error) from None
    except RecursionError:
        raise SpecError(f"{path}: nested too deeply") from None
    if not isinstance(found, dict):
        raise SpecError(f"{path}: want a JSON object")
    return found


def _not_json(path: str, text: str, error: json.JSONDecodeError) -> InputError:
    """The error with the line around its place; a trace may be one line of gigabytes."""
    begin = max(text.rfind("\n", 0, error.pos) + 1, error.pos - EXCERPT)
    line = text[begin : error.pos + EXCERPT].split("\n", 1)[0]
    number = text.count("\n", 0, error.pos) + 1
    return InputError(
        f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}",
        Location(Source(path, line, number), error.pos - begin),
    )


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries: a memory snapshot holds nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuses: to name a class is how a pickle runs code."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no snapshot needs")

    def persistent_load(self, pid: Any) -> Any:
        """Refuses what lies outside of the file."""
        raise pickle.UnpicklingError(f"it asks for an object outside of the file: {pid!r}")


def _check_places(data: bytes) -> None:
    """Refuses a pickle that keeps a value at a place which it has too few bytes to fill up to.

    The unpickler makes room for all places below: 5 bytes of a damaged file can ask for 64 GiB.
    """
    for operation, place, _ in pickletools.genops(data):
        if operation.name in _PUTS and place is not None and place > len(data):
            raise pickle.UnpicklingError(f"it keeps a value at place {place:,} of its memory")


_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError, OverflowError,
    AttributeError, MemoryError, RecursionError,
)  # fmt: skip


def read_snapshot(path: str) -> Json:
    """The dictionary that ``torch.cuda.memory._dump_snapshot`` pickled.

    No code of the file runs: a pickle that names a class or a function is refused.

    Raises:
        SpecError: the file cannot be read, or is no such pickle.
    """
    data = Content(path).data[:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in a damaged text
            _check_places(data)
            found = _PlainUnpickler(io.BytesIO(data)).load()
    except _BROKEN as error:
        reason = str(error) or type(error).__name__
        raise SpecError(f"{path}: not a memory snapshot: {reason}") from None
    if not isinstance(found, dict) or "device_traces" not in found:
        raise SpecError(f"{path}: not a memory snapshot: it has no device_traces")
    return found
