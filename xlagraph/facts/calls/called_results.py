"""The results of calls, one by one: equal whatever else the called function gives back.

Checkpointing calls a function for its value alone, and later again for the value and what its
derivative needs of it; without checkpointing it is called once, for both.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import Interner, label_instructions
from xlagraph.canon.structure import call_order, expression_number, number_computations
from xlagraph.facts.values.expressions import counts_each_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.graph import Module


class _Calls(NamedTuple):
    """Calls of an entry computation, and what the functions that they call give back."""

    editor: ModuleEditor
    called: Mapping[int, int]
    """For each call the number of its computation: equal for equal functions."""
    results: Mapping[int, Sequence[int]]
    """By these numbers, those of the values given back."""


def take_results_apart(edit: Editors) -> None:
    """Lets results of calls that different functions give back stand for themselves.

    Of other calls nothing changes: what differs within their functions is still to be seen.
    """
    interner = Interner()
    both = [_calls_of(editor, interner) for editor in edit]
    results = {number: found for calls in both for number, found in calls.results.items()}
    given = Counter(result for found in results.values() for result in set(found))
    shared = {result for result, number in given.items() if number > 1}
    for calls in both:
        for call, number in calls.called.items():
            _stand_alone(calls.editor, call, results[number], shared)


def _calls_of(editor: ModuleEditor, interner: Interner) -> _Calls:
    module = editor.build()
    labels = label_instructions(module, interner)
    numbers = number_computations(module, labels, interner)
    counted = _counted(module)
    entry = module.entry_computation
    called: dict[int, int] = {}
    results: dict[int, list[int]] = {}
    for i in range(entry.start, entry.stop):
        callees = module.callees.get(i, ())
        if module.opcodes[i] == "call" and len(callees) == 1 and callees[0] not in counted:
            called[i] = numbers[callees[0]]
            if called[i] not in results:
                results[called[i]] = _results(module, callees[0], labels, numbers, interner)
    return _Calls(editor, called, results)


def _stand_alone(
    editor: ModuleEditor, call: int, results: Sequence[int], shared: Collection[int]
) -> None:
    """Makes a call, or what is taken out of its tuple, values of their own."""
    operands = editor.operands[call]
    if not editor.shapes[call].startswith("("):
        if results[0] in shared:
            editor.become_undone(call, operands, f"result {results[0]} of a call")
        return
    for user in list(editor.users(call)):
        index = int(editor.attributes[user].get("index") or 0)
        if editor.opcodes[user] == "get-tuple-element" and results[index] in shared:
            editor.become_undone(user, operands, f"result {results[index]} of a call")


def _results(
    module: Module, called: int, labels: Sequence[int], numbers: Sequence[int], interner: Interner
) -> list[int]:
    """The number of each value that a computation gives back."""
    body = module.computations[called]
    expressions: dict[int, int] = {}
    for i in range(body.start, body.stop):
        expressions[i] = expression_number(module, i, labels[i], expressions, numbers, interner)
    is_tuple = module.opcodes[body.root] == "tuple"
    given = module.operands[body.root] if is_tuple else (body.root,)
    return [expressions[o] for o in given]


def _counted(module: Module) -> set[int]:
    """Computations for which it matters how often they run, by what they or their callees do."""
    found = set[int]()
    for number in call_order(module):
        body = module.computations[number]
        for i in range(body.start, body.stop):
            if counts_each_time(module, i) or not found.isdisjoint(module.callees.get(i, ())):
                found.add(number)
    return found
