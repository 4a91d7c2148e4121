"""What loops carry, and functions take and give back: places of one side alone, and their removal.

A derivative takes more out of a loop than the loop's result: each turn keeps values for it. A term
more or less in a loop's body so changes what is carried, taken in and given back all the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from xlagraph.canon.labels import bare_shape, clean
from xlagraph.diff.align import aligned
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.cause.editor import ModuleEditor
    from xlagraph.graph import Computation, Module

    Places = frozenset[int]

T = TypeVar("T")

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Places of one side alone, in what belongs together there: a loop, or calls of a function."""

    owners: tuple[int, ...]
    """The loop, or the calls."""
    places: Places = frozenset()
    """Of the tuple that is carried, or given back."""
    arguments: Places = frozenset()
    """Of what the calls hand in."""


class Origins:
    """What values of one side are, as far as the other side has them too.

    A value that a loop or a function hands on is what is computed there: so are those told apart
    that stand alike in the tuples of both sides.
    """

    def __init__(self, view: SideView):
        self.view = view
        self._known: dict[int, Hashable] = {}

    def of(self, i: int) -> Hashable:
        """Equal for values of both sides that are partners, or are handed on from such."""
        if i not in self._known:
            self._known[i] = None  # it goes round in a loop
            self._known[i] = self._found(i)
        return self._known[i]

    def _found(self, i: int) -> Hashable:
        module = self.view.module
        opcode, operands = module.opcodes[i], module.operands[i]
        if opcode == "get-tuple-element":
            source = self._source(operands[0], int(module.attributes[i].get("index") or 0))
            if source != UNKNOWN:
                return None if source == i else self.of(source)
        if opcode == "call":
            return ("call", *map(self.of, operands))
        partner = self.view.partners[i]
        if partner < 0:
            return (self.view.side, i)
        return self.view.ab(i, partner)[0]

    def _source(self, giver: int, place: int) -> int:
        """The value at a place of a tuple that a call or a loop gives, or a turn takes."""
        module = self.view.module
        opcode = module.opcodes[giver]
        if opcode == "parameter":
            return self._before(module.computation_of(giver), place)
        if opcode not in ("call", "while"):
            return UNKNOWN
        root = body_of(module, giver).root
        return module.operands[root][place] if module.opcodes[root] == "tuple" else UNKNOWN

    def _before(self, body: Computation, place: int) -> int:
        """What a turn of a loop takes in, where that is what the loop began with."""
        module = self.view.module
        callers = module.callers.get(body.index, ())
        if len(callers) != 1 or module.opcodes[callers[0]] != "while":
            return UNKNOWN
        start = module.operands[callers[0]][0]
        root = body_of(module, callers[0]).root
        if not module.opcodes[start] == module.opcodes[root] == "tuple":
            return UNKNOWN
        given = module.operands[root][place]
        is_kept = (
            module.opcodes[given] == "get-tuple-element"
            and module.operands[given][0] in body.parameters
            and int(module.attributes[given].get("index") or 0) == place
        )
        return module.operands[start][place] if is_kept else given


def lone_places(
    a: Origins, b: Origins, values_a: Sequence[int], values_b: Sequence[int]
) -> tuple[Places, Places]:
    """Places of two lists of values that have none in the other list, A's and B's.

    What is of one origin stands in each other's place; between that what has equal shapes does.
    None where the lists are of one length: then values differ, in type or size maybe, and no place.
    """
    if len(values_a) == len(values_b):
        return frozenset(), frozenset()
    found = aligned([a.of(p) for p in values_a], [b.of(q) for q in values_b])
    ends = [(-1, -1), *found, (len(values_a), len(values_b))]
    shapes_a = [bare_shape(a.view.module, p) for p in values_a]
    shapes_b = [bare_shape(b.view.module, q) for q in values_b]
    for (i, j), (stop_a, stop_b) in pairwise(ends):
        between = aligned(shapes_a[i + 1 : stop_a], shapes_b[j + 1 : stop_b])
        found += [(i + 1 + x, j + 1 + y) for x, y in between]
    return (
        frozenset(range(len(values_a))) - {x for x, _ in found},
        frozenset(range(len(values_b))) - {y for _, y in found},
    )


def body_of(module: Module, call: int) -> Computation:
    """What a call runs, or a loop in each turn: of two computations what gives a tuple back."""
    called = [module.computations[c] for c in module.callees[call]]
    return max(called, key=lambda c: module.shapes[c.root].startswith("("))


def can_narrow_loop(module: Module, loop: int) -> bool:
    """Whether places can be taken out of what a loop carries: its tuples are its own."""
    body, start = body_of(module, loop), module.operands[loop][0]
    inputs = [p for c in module.callees[loop] for p in module.computations[c].parameters]
    return (
        module.opcodes[start] == module.opcodes[body.root] == "tuple"
        and module.users[start] == (loop,)
        and all(module.callers[c] == (loop,) for c in module.callees[loop])
        and all(is_taken_apart(module, i) for i in (loop, *inputs))
    )


def is_taken_apart(module: Module, i: int) -> bool:
    """Whether nobody takes an instruction's tuple as one."""
    is_tuple = module.shapes[i].startswith("(")
    return not is_tuple or all(module.opcodes[u] == "get-tuple-element" for u in module.users[i])


def narrow(editor: ModuleEditor, what: Narrowed, mark: str) -> None:
    """Takes places out; what takes values from there gets others, which only this side has."""
    module = editor.module
    first = what.owners[0]
    if module.opcodes[first] == "while":
        tuples = [module.operands[first][0], body_of(module, first).root]
        computations = [module.computations[c] for c in module.callees[first]]
        givers = [first, *(p for c in computations for p in c.parameters)]
    else:
        function = module.computations[module.callees[first][0]]
        tuples, givers = ([function.root], [*what.owners]) if what.places else ([], [])
        _drop_arguments(editor, function, what, mark)
    for i in tuples:
        editor.set_operands(i, _without(editor.operands[i], what.places))
    for i in (*tuples, *givers):
        shape = read_shape(clean(editor.shapes[i]))
        editor.shapes[i] = str(replace(shape, parts=_without(shape.parts, what.places)))
    for i in givers:
        for user in module.users[i]:
            _move(editor, user, what.places, mark)


def _drop_arguments(editor: ModuleEditor, function: Computation, what: Narrowed, mark: str) -> None:
    """Lets calls hand in less, and makes the parameters for it values of this side alone."""
    if not what.arguments:
        return
    kept = _without(function.parameters, what.arguments)
    computations = list(editor.module.computations)
    computations[function.index] = replace(function, parameters=kept)
    editor.module = replace(editor.module, computations=tuple(computations))
    editor.payloads.update((p, str(n)) for n, p in enumerate(kept))
    for n in what.arguments:
        editor.become_undone(function.parameters[n], (), f"{mark} {function.parameters[n]}")
    for call in what.owners:
        editor.set_operands(call, _without(editor.operands[call], what.arguments))


def _move(editor: ModuleEditor, i: int, places: Places, mark: str) -> None:
    """Lets an instruction take its value from the place where that is by now, if it still is."""
    if editor.opcodes[i] != "get-tuple-element" or not places:
        return
    attributes = editor.attributes[i]
    index = int(attributes.get("index") or 0)
    if index in places:
        editor.become_undone(i, (), f"{mark} {i}")
        return
    now = str(index - sum(1 for k in places if k < index))
    items = tuple((key, now if key == "index" else text) for key, text in attributes.items)
    editor.attributes[i] = replace(attributes, items=items)


def _without(listed: Sequence[T], places: Collection[int]) -> tuple[T, ...]:
    return tuple(one for k, one in enumerate(listed) if k not in places)
