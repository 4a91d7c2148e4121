"""Places in the program as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import SourceLine, say, words

if TYPE_CHECKING:
    from xlagraph.cause.verdict import Place

    Json = dict[str, object]

NO_LINE = SourceLine("", 0)


def where_json(place: Place) -> Json:
    """Where a cause goes back to; `file` is empty where no line is known."""
    return {
        **line_json(place.line or NO_LINE),
        "text": words(place.message),
        "tensors": [words(say(tensor)) for tensor in place.tensors],
        "stack": [line_json(frame) for frame in place.stack],
        "source": [{"line": number, "text": text} for number, text in place.source],
        "unknown": words(place.unknown),
        "command": words(place.command),
    }


def line_json(line: SourceLine) -> Json:
    """A source line with what its stack tells; empty where that is not known."""
    return {
        "file": line.file,
        "line": line.line,
        "function": line.function,
        "called": str(line.called or ""),
        "backward_of": line.backward_of,
    }
