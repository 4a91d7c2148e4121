"""From HLO text to `Module`: each computation the fast way, or the general way where needed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location, Source
from xlagraph.hlo.collector import without_collector
from xlagraph.hlo.columns import Columns
from xlagraph.hlo.header import read_header
from xlagraph.hlo.plain import read_plain
from xlagraph.hlo.scan import MalformedError, skip_space

if TYPE_CHECKING:
    from xlagraph.graph import Module
    from xlagraph.hlo.general import GeneralReader

_HLO = re.compile(r"HloModule|ENTRY|=\s*\(?\w+\[")
"""What stands in every text of a module, or of a part of one."""


def read_module(
    text: str, name: str = "<text>", first_line: int = 1, *, plain: bool = True
) -> Module:
    """Reads one module; time and memory are linear in the length of `text`.

    Args:
        text: The module in any dialect.
        name: Where the text came from, for errors.
        first_line: Line number of the text's first line in its file.
        plain: Whether the fast way may be used; both give equal modules.

    Raises:
        InputError: the text is not HLO; tells line, column and what was expected.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    source = Source(name, text, first_line)
    with without_collector():
        try:
            return _read(source, plain=plain)
        except MalformedError as error:
            raise _refused(source, str(error), error.offset) from None
        except InputError as error:
            raise _refused(source, error.message, error.location.offset) from None


def _refused(source: Source, message: str, offset: int) -> InputError:
    is_hlo = _HLO.search(source.text) or not source.text.strip()
    return InputError(message if is_hlo else f"no HLO text: {message}", Location(source, offset))


def _read(source: Source, *, plain: bool) -> Module:
    text = source.text
    columns = Columns(source)
    general: GeneralReader | None = None
    header_name, header, tables, pos = read_header(source)
    pos = skip_space(text, pos)
    not_plain_before = 0 if plain else len(text)
    while pos < len(text):
        end = read_plain(columns, pos) if pos >= not_plain_before else None
        if end is None:
            if pos >= not_plain_before:
                # A second try within the same stretch would scan it again.
                not_plain_before = max(text.find("\n}", pos), pos)
            general = general or _general_reader(columns)
            end = general.read_top_level(pos)
        pos = skip_space(text, end)
    return columns.finish(header_name, header, tables)


def _general_reader(columns: Columns) -> GeneralReader:
    """The general way; most texts go without it."""
    from xlagraph.hlo.general import GeneralReader

    return GeneralReader(columns)
