"""Every kind of cause, from all the places that define some."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.errors import XlagraphError
from xlagraph.explain.registry import rule_kinds
from xlagraph.ranks.kinds import KINDS as RANK_KINDS
from xlagraph.runs.kinds import KINDS as RUN_KINDS
from xlagraph.streams.kinds import KINDS as STREAM_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.kinds import Kind


class UnknownKindError(XlagraphError):
    """A name that is no kind of cause."""

    def __init__(self, name: str):
        near = get_close_matches(name, kinds(), n=3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"no kind of cause is called {name!r}{meant} (xlagraph cause lists them)")


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by its identifier."""
    return {kind.id: kind for kind in (*rule_kinds(), *RUN_KINDS, *RANK_KINDS, *STREAM_KINDS)}


def find_kind(name: str) -> Kind:
    """The kind with this identifier.

    Raises:
        UnknownKindError: there is none.
    """
    found = kinds().get(name)
    if found is None:
        raise UnknownKindError(name)
    return found


def by_section() -> Mapping[Section, Sequence[Kind]]:
    """The kinds in the order in which the catalogue lists them."""
    return {s: [kind for kind in kinds().values() if kind.section is s] for s in Section}
