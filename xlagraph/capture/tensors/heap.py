"""What the garbage collector tracks, found by type: modules, optimizers, tensors.

By real type and never through ``__class__``, so that lazy proxies stay asleep.

A tensor that only C++ holds, such as one that autograd saved, keeps its Python object, which
then belongs to the C++ side: to hold that object does not keep the tensor alive, and autograd's
threads may free it at any time (``torch/csrc/autograd/python_variable.cpp``). So no such object
may be seen by Python code before it has been made Python's again, by ``_fix_weakref``, which
must not be done to a tensor that is being freed. Here both are asked for by iterators that are
written in C: the interpreter's lock changes hands in none of them. Nor does a collection run in
between, which could call Python code (until Python 3.11 it starts wherever something is made).
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, compress, filterfalse, starmap, tee
from typing import Any


def find(*classes: type) -> tuple[list[Any], ...]:
    """Objects of each class, in one pass over all that the collector tracks.

    A class may be ``torch.Tensor``: then plain tensors and parameters are found, and no subclasses
    that stand for other tensors.
    """
    families = [_family(one) for one in classes]
    found: tuple[list[Any], ...] = tuple([] for _ in classes)
    for one in _select(frozenset().union(*families)):
        number = next(n for n, family in enumerate(families) if type(one) in family)
        found[number].append(one)
    return found


def _family(wanted: Any) -> frozenset[type]:
    """A class and all that were derived from it."""
    found: set[type] = set()
    todo = [wanted]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += type.__subclasses__(one)
    torch = sys.modules.get("torch")
    if torch is None or wanted is not torch.Tensor:
        return frozenset(found)
    plain = torch._C._disabled_torch_dispatch_impl
    every: Iterable[Any] = found
    return frozenset(one for one in every if one.__torch_dispatch__ is plain)


def _select(types: frozenset[type]) -> list[Any]:
    """Tracked objects of these types; tensors among them are Python's own afterwards.

    Nothing but C runs from the collector's list of objects to the result, nor while that list
    is emptied: it has in it what looks through it, and would live on.
    """
    every, same, at_last = tee(map(gc.get_objects, (None,)), 3)
    few = tee(map(list, _of_types(types, every, same)), 4)
    base: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    tensors = types & _family(base) if base else frozenset()
    tracked = chain.from_iterable(_of_types(tensors, *few[:2]))
    living = filter(getattr(base, "_use_count", None), tracked)
    fixed = filterfalse(getattr(base, "_fix_weakref", None), living)  # it returns None
    others = chain.from_iterable(_of_types(types - tensors, *few[2:]))
    nothing: Iterator[Any] = filter(None, map(list.clear, at_last))
    collects: list[bool] = []
    try:
        return list(chain(_halted(collects), fixed, others, nothing))
    finally:
        if any(collects):
            gc.enable()


def _halted(collects: list[bool]) -> Iterator[Any]:
    """Nothing; when it is asked for that, it turns the collector off and adds whether it was on."""
    noted = map(collects.append, starmap(gc.isenabled, [()]))
    return filter(None, chain(noted, starmap(gc.disable, [()])))


def _of_types(
    types: frozenset[type], lists: Iterator[list[Any]], same: Iterator[list[Any]]
) -> Iterator[Iterator[Any]]:
    """Of each list those elements; ``same`` are the same lists once more."""
    wanted = map(partial(map, types.__contains__), map(partial(map, type), same))
    return starmap(compress, zip(lists, wanted, strict=False))
