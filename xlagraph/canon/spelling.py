"""One spelling for each value: shapes, attribute values, and text in general.

XLA's parser takes ``{1, 0}`` for ``{1,0}``, ``[2,2]<=[4]`` for the list that it stands for, and a
value left out for its default. What is equal here is equal to XLA's parser; what it takes for
equal and is not among these stays different here, and is reported as a difference.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from xlagraph.errors import InputError
from xlagraph.hlo.shapes import Shape, read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_DEVICES = 1 << 14
"""Devices of a list in short form up to which it is written out."""
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
_TOKEN = re.compile(
    rf"({_STRING})|/\*.*?\*/|//[^\n]*+|\s++|->|<=|(?:[\w.+?%~@#$!]|-(?!>))++|.", re.S
)
_PLAIN = re.compile(r"[^\s\"'/]*+")
"""Text that has one spelling only."""
_ZEROS = re.compile(r"(?<![\w.])0\d")
_WORD_START = re.compile(r"[\w.+?%~@#$!\"'-]")
_WORD_END = re.compile(r"[\w.+?%~@#$!\"'})\]-]")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]+)|(.))", re.S)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NOTHING = re.compile(r"S\(0\)|E\(0\)|L\(1\)|D\(D(?:,D)*\)")
"""Parts of a layout that say what holds without them."""
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?: ?T\(([\d,]+)\))?")
_METADATA = re.compile(r' ?metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}"]*\})*\}')
_PAIR = re.compile(r"([A-Za-z_][\w.\-]*)\s*=\s*(.*)", re.S)
_INTEGER = re.compile(r"-?\d+")
_SLICE = re.compile(r"\[(\d+):(\d+)(?::1)?\]")
_WINDOW_DEFAULT = {
    "lhs_dilate": re.compile(r"1(?:x1)*"),
    "pad": re.compile(r"0_0(?:x0_0)*"),
    "rhs_dilate": re.compile(r"1(?:x1)*"),
    "rhs_reversal": re.compile(r"0(?:x0)*"),
    "stride": re.compile(r"1(?:x1)*"),
}
DEFAULTS = {
    "api_version": "API_VERSION_ORIGINAL",
    "async_execution_thread": '"main"',
    "batch_group_count": "1",
    "constrain_layout": "false",
    "custom_call_has_side_effect": "false",
    "feature_group_count": "1",
    "frontend_attributes": "{}",
    "indices_are_sorted": "false",
    "input_batching_dims": "{}",
    "is_host_transfer": "false",
    "is_reverse": "false",
    "is_stable": "false",
    "lhs_batch_dims": "{}",
    "operand_batching_dims": "{}",
    "output_to_operand_aliasing": "{}",
    "rhs_batch_dims": "{}",
    "scatter_indices_batching_dims": "{}",
    "start_indices_batching_dims": "{}",
    "unique_indices": "false",
    "use_global_device_ids": "false",
}
"""What XLA's parser takes for the value of an attribute that is left out."""


class Memo(dict[tuple[str, str], str]):
    """Results by two texts, forgotten together where their texts hold too many characters."""

    limit = 1 << 25

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def keep(self, key: tuple[str, str], value: str) -> str:
        """Notes a result and returns it."""
        self.characters += len(key[0]) + len(key[1]) + len(value)
        if self.characters > self.limit:
            self.clear()
            self.characters = 0
        self[key] = value
        return value


_ATTRIBUTES = Memo()


def one_spelling(text: str) -> str:
    """A text with its tokens spaced in one way, and no comments; strings keep what they say."""
    if _PLAIN.fullmatch(text) and not _ZEROS.search(text):
        return text
    made: list[str] = []
    end = ""
    for token in _tokens(text):
        if end and _WORD_START.match(token) and _WORD_END.match(end):
            made.append(" ")
        made.append(token)
        end = token[-1]
    return "".join(made)


def _tokens(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found[1]:
            yield quoted(unquoted(token))
        elif token.isdigit():
            yield token.lstrip("0") or "0"
        elif not (token.isspace() or token.startswith(("/*", "//"))):
            yield token


def unquoted(text: str) -> str:
    """What a quoted string says: C escapes are read, as XLA's lexer does."""
    return _ESCAPE.sub(_escaped, text[1:-1]) if "\\" in text else text[1:-1]


def _escaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 8) & 0xFF)
    if found[2]:
        return chr(int(found[2], 16) & 0xFF)
    return _NAMED.get(found[3], found[3])


def quoted(text: str) -> str:
    """A string in double quotes, on one line."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


# -- shapes ----------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def canonical_shape(text: str) -> str:
    """A shape as XLA prints it, default layouts filled in; other text in one spelling."""
    try:
        return _shape_text(read_shape(text))
    except InputError:
        return one_spelling(text)


def _shape_text(shape: Shape) -> str:
    if shape.element_type in ("tuple", "buffer"):
        inner = ", ".join(map(_shape_text, shape.parts))
        return f"b({inner})" if shape.element_type == "buffer" else f"({inner})"
    return shape.without_layout() + canonical_layout(shape)


def canonical_layout(shape: Shape) -> str:
    """The layout of an array with its braces, filled in where it is the default."""
    order, _, rest = one_spelling(shape.layout)[1:-1].partition(":")
    rest = _NOTHING.sub("", rest)
    rank = len(shape.dimensions)
    if not order and rank:
        order = ",".join(map(str, reversed(range(rank))))
    return f"{{{order}{':' if rest else ''}{rest}}}" if order or rest else ""


HEADER_DEFAULTS = {
    "alias_passthrough_params": "false",
    "buffer_donor": "{}",
    "frontend_attributes": "{}",
    "input_output_alias": "{}",
    "is_scheduled": "false",
    "num_partitions": "1",
    "replica_count": "1",
}
"""As `DEFAULTS`, for the fields of the header."""


def canonical_field(key: str, text: str) -> str:
    """The value of a header field in one spelling; ``""`` where it is what holds without it."""
    made = _pairs(text) if key == "frontend_attributes" else one_spelling(text)
    return "" if made == HEADER_DEFAULTS.get(key) else made


# -- attributes ------------------------------------------------------------------------------


def canonical_attribute(key: str, text: str) -> str:
    """The value of an attribute in one spelling; ``""`` where it is what holds without it."""
    known = _ATTRIBUTES.get((key, text))
    if known is None:
        made = _READERS.get(key, one_spelling)(text)
        known = _ATTRIBUTES.keep((key, text), "" if made == DEFAULTS.get(key) else made)
    return known


def _configuration(text: str) -> str:
    """``backend_config``: a string, or a dictionary that stands for its own text."""
    if text.startswith(("'", '"')):
        text = unquoted(text)
    return quoted(text)


def _pairs(text: str) -> str:
    """``{a="x",b={n = 1 : i32}}`` by key; a dictionary within keeps its text."""
    found = []
    for piece in split_list(text[1:-1], ","):
        pair = _PAIR.fullmatch(piece.strip())
        if not pair:
            return text
        value = quoted(unquoted(pair[2])) if pair[2].startswith(("'", '"')) else pair[2]
        found.append(f"{pair[1]}={value}")
    return "{" + ",".join(sorted(found)) + "}"


def split_list(text: str, separator: str) -> list[str]:
    """The pieces of a list, split where no bracket or string is open."""
    pieces, start, depth = [], 0, 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in ("(", "{", "["):
            depth += 1
        elif token in (")", "}", "]"):
            depth -= 1
        elif token == separator and not depth:
            pieces.append(text[start : found.start()])
            start = found.end()
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]


def _groups(text: str) -> str:
    """Replica groups: ``[2,2]<=[4]`` is written out, as far as it is short."""
    text = one_spelling(text)
    found = _IOTA.fullmatch(text)
    devices = _devices(found) if found else []
    if not found or not devices:
        return text
    sizes = _numbers(found[1])
    if len(sizes) != 2:
        return text
    rows = [devices[k : k + sizes[1]] for k in range(0, len(devices), sizes[1])]
    return "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"


def _sharding(text: str) -> str:
    """Shardings: ``[2,2]<=[4]`` is ``[2,2]0,1,2,3``; where one comes from does not count."""
    text = _METADATA.sub("", one_spelling(text))
    text = text.replace("last_tile_dim_replicate", "last_tile_dims={replicated}")
    return _IOTA.sub(_listed, text)


def _listed(found: re.Match[str]) -> str:
    devices = _devices(found)
    return f"[{found[1]}] {','.join(map(str, devices))}" if devices else found[0]


def _devices(iota: re.Match[str]) -> list[int]:
    """The devices that ``[..]<=[reshaped]T(order)`` stands for; none where they are too many."""
    reshaped = _numbers(iota[2])
    order = _numbers(iota[3]) if iota[3] else list(range(len(reshaped)))
    fits = prod(_numbers(iota[1])) == prod(reshaped) <= MAX_DEVICES
    if not fits or sorted(order) != list(range(len(reshaped))):
        return []
    steps = [prod(reshaped[k + 1 :]) for k in range(len(reshaped))]
    places = product(*(range(reshaped[k]) for k in order))
    return [sum(at * steps[k] for at, k in zip(place, order, strict=True)) for place in places]


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in text.split(",") if digits]


def _window(text: str) -> str:
    """``{size=3x3 pad=1_1x1_1}`` by name, without what says what holds without it."""
    fields = one_spelling(text)[1:-1].split()
    kept = []
    for field in fields:
        key, _, value = field.partition("=")
        default = _WINDOW_DEFAULT.get(key)
        if not (default and default.fullmatch(value)):
            kept.append(field)
    return "{" + " ".join(sorted(kept)) + "}"


def _slice(text: str) -> str:
    return _SLICE.sub(r"[\1:\2]", one_spelling(text))


def _padding(text: str) -> str:
    return "x".join(
        part.removesuffix("_0") if part.count("_") == 2 else part
        for part in one_spelling(text).split("x")
    )


def _precision(text: str) -> str:
    text = one_spelling(text)
    return "" if set(text[1:-1].split(",")) <= {"default"} else text


def _real(text: str) -> str:
    """A number in single precision, as XLA keeps it."""
    from xlagraph.canon.literals import single

    try:
        return single(float(text))
    except (ValueError, OverflowError):
        return one_spelling(text)


def _integer(text: str) -> str:
    return str(int(text)) if _INTEGER.fullmatch(text) and len(text) < 20 else one_spelling(text)


_READERS: dict[str, Callable[[str], str]] = {
    "backend_config": _configuration,
    "epsilon": _real,
    "frontend_attributes": _pairs,
    "index": _integer,
    "operand_precision": _precision,
    "padding": _padding,
    "replica_groups": _groups,
    "sharding": _sharding,
    "slice": _slice,
    "window": _window,
}
