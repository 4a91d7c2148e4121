"""Names for models that a program has side by side, where their parameters have equal names.

A model and its average, two heads: the names within each say nothing about which one it is. The
program's main module is asked for a variable that holds the model, itself or in a list, tuple or
dict; local variables are not, since looking at those of a frame keeps what they hold alive. The
name that a model gets stays, so that its tensors have one name throughout a run.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

MAX_LISTED = 64
"""Members of a list, tuple or dict that are looked at."""


class Roots:
    """What each model is called that nothing contains; ``""`` where no name is needed."""

    def __init__(self) -> None:
        self._settled: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def names(self, models: list[Any]) -> dict[int, str]:
        """By Python ``id``: a name for each model that shares names with another, else ``""``.

        In the order in which they were first asked for: a module within several is named in one
        way throughout a run, while the collector's order changes.
        """
        tensors = {id(one): frozenset(_tensor_names(one)) for one in models}
        counts = Counter(name for names in tensors.values() for name in names)
        new = [one for one in models if one not in self._settled]
        alike = [one for one in new if any(counts[name] > 1 for name in tensors[id(one)])]
        variables = _variables(alike) if alike else {}
        numbers: Counter[str] = Counter()
        for one in new:
            self._settled[one] = ""
        for one in alike:
            kind = type(one).__name__
            numbers[kind] += 1
            self._settled[one] = variables.get(id(one), f"{kind}{numbers[kind]}")
        asked = {id(one) for one in models}
        return {id(one): name for one, name in self._settled.items() if id(one) in asked}


def _tensor_names(model: Any) -> Iterator[str]:
    for name, _ in model.named_parameters():
        yield name
    for name, _ in model.named_buffers():
        yield name


def _variables(models: Iterable[Any]) -> dict[int, str]:
    """By Python ``id``: the first variable of the main module that holds each model."""
    wanted = {id(one) for one in models}
    found: dict[int, str] = {}
    for name, value in vars(sys.modules["__main__"]).copy().items():
        if name.startswith("_"):
            continue
        members: Iterable[tuple[str, Any]] = [(name, value)]
        if type(value) in (list, tuple):
            members = [(f"{name}[{k}]", one) for k, one in enumerate(value[:MAX_LISTED])]
        elif type(value) is dict:
            listed = islice(value.copy().items(), MAX_LISTED)
            members = [(f"{name}[{key!r}]", one) for key, one in listed if type(key) is str]
        for called, one in members:
            if id(one) in wanted:
                found.setdefault(id(one), called)
    return found
