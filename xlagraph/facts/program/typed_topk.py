"""How a ``topk`` of the program is written with one k: its own statement, and those that make k."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.facts.program.averages import divided
from xlagraph.facts.program.on_device import Unknown, as_tensor, reads_device
from xlagraph.facts.program.written import (
    MAX_WIDTH,
    Statement,
    called_name,
    free_name,
    indentation,
    statement_at,
    statements_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_ABOVE = 12
"""Lines above the call that are looked at for what makes k."""
MAX_MAKERS = 4
_HEADS = ("def ", "async def ", "class ")


@dataclass(frozen=True, slots=True)
class TypedTopk:
    """A call of topk whose k is not the same in all steps."""

    k: str
    """What the program hands over as k."""
    first: int
    """The first line to replace, and the last."""
    last: int
    makers: tuple[int, ...]
    """The lines above the call that make k, ascending."""
    code: tuple[str, ...]
    """What to write in the place of all of them; empty where that is not understood."""


def typed_topk(lines: Mapping[int, str], number: int, rank: int = 0) -> TypedTopk | None:
    """The call on this line; None if there is none, or its k is a number that is written there.

    Args:
        lines: those known of the file, by number.
        number: the line of the call.
        rank: dimensions of what it takes from; 0 where that is not known.
    """
    for statement in statements_over(lines, number):
        calls = [one for one in ast.walk(statement.node) if isinstance(one, ast.Call)]
        found = [(one, k) for one in calls if (k := _k_of(one)) is not None]
        if len(found) == 1 and not isinstance(found[0][1], ast.Constant):
            return _typed(lines, statement, *found[0], rank)
    return None


def _k_of(call: ast.Call) -> ast.expr | None:
    if called_name(call) != "topk":
        return None
    named = next((one.value for one in call.keywords if one.arg == "k"), None)
    place = _place_of_k(call)
    return named or (call.args[place] if len(call.args) > place else None)


def _place_of_k(call: ast.Call) -> int:
    """Among the arguments: those of ``torch.topk(x, k)``, or of ``x.topk(k)``."""
    function = call.func
    is_method = isinstance(function, ast.Attribute) and not (
        isinstance(function.value, ast.Name) and function.value.id == "torch"
    )
    return 0 if is_method else 1


def _typed(
    lines: Mapping[int, str], statement: Statement, call: ast.Call, k: ast.expr, rank: int
) -> TypedTopk:
    makers = [] if reads_device(k) else list(_makers(lines, statement, k))
    makers.reverse()
    numbers = tuple(n for one in makers for n in range(one.first, one.last + 1))
    taken = _taken(call, rank)
    above, below = _code(lines, statement, call, k, makers, taken, rank) if taken else ((), ())
    return TypedTopk(
        statement.segment(k),
        min((statement.first, *numbers)) if above or not below else statement.first,
        statement.last,
        numbers,
        (*above, *below),
    )


def _taken(call: ast.Call, rank: int) -> ast.expr | None:
    """What topk takes from; None if that is not along its last dimension, or in no order."""
    place = _place_of_k(call)
    options = {one.arg: one.value for one in call.keywords}
    dimension = call.args[place + 1] if len(call.args) > place + 1 else options.pop("dim", None)
    if len(call.args) > place + 3 or not options.keys() <= {"k", "input", "largest"}:
        return None
    if dimension and ast.unparse(dimension) not in ("-1", str(rank - 1)):
        return None
    if place == 0 and isinstance(call.func, ast.Attribute):
        return call.func.value
    return call.args[0] if call.args else options.get("input")


def _makers(lines: Mapping[int, str], statement: Statement, k: ast.expr) -> Iterator[Statement]:
    """The assignments above, nearest first, up to the one that reads k from the device.

    Lines that were not stored end the search: what stands there may assign it as well.
    """
    wanted = _names(k)
    column = indentation(lines[statement.first])
    found, number = 0, statement.first - 1
    while number in lines and statement.first - number <= MAX_ABOVE and found < MAX_MAKERS:
        line = lines[number]
        if line.lstrip().startswith(_HEADS) and indentation(line) < column:
            return
        text, body = statement_at(lines, number)
        node = body[0] if len(body) == 1 else None
        value = _assigned(node, wanted)
        if node is not None and value is not None:
            found += 1
            yield Statement(number, number + text.count("\n"), text, node)
            if reads_device(value):
                return
            wanted |= _names(value)
        number -= 1


def _assigned(node: ast.stmt | None, wanted: set[str]) -> ast.expr | None:
    """The value that is assigned to one of these names."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    return node.value if names & wanted and hasattr(node, "value") else None  # type: ignore[union-attr]


def _names(value: ast.expr) -> set[str]:
    """Variables in an expression, without what is called and what attributes are asked of."""
    nodes = list(ast.walk(value))
    aside = {id(one.func) for one in nodes if isinstance(one, ast.Call)}
    aside |= {id(one.value) for one in nodes if isinstance(one, ast.Attribute)}
    return {one.id for one in nodes if isinstance(one, ast.Name) and id(one) not in aside}


def _code(
    lines: Mapping[int, str],
    statement: Statement,
    call: ast.Call,
    k: ast.expr,
    makers: list[Statement],
    taken: ast.expr,
    rank: int,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to write for the lines that make k, if it was read, and for the call."""
    nothing = (), ()
    values = _values_name(statement.node, call)
    column = indentation(lines[statement.first])
    if not values or any(indentation(lines[one.first]) != column for one in makers):
        return nothing  # in a branch
    tensors: set[str] = set()
    above: list[str] = []
    try:
        for one in _with_between(lines, statement, makers):
            above += [one] if isinstance(one, str) else _on_device(one, tensors)
        number, is_tensor = as_tensor(k, tensors)
    except Unknown:
        return nothing
    wanted = ast.unparse(number)
    scalar = f"({wanted})" if isinstance(number, (ast.BinOp, ast.UnaryOp)) else wanted
    sent: tuple[str, ...] = ()
    if not is_tensor:
        wanted = free_name("wanted", statement)
        sent = (f"{wanted} = torch.tensor([{statement.segment(k)}]).to({values}.device)",)
        scalar = f"{wanted}[0]"
        above = []
    is_wanted = f"torch.arange(k_max, device={values}.device) < {wanted}"
    below = (
        *_with_k_max(statement, k, taken),
        *sent,
        f"{values} = torch.where({is_wanted}, {values}, 0)",
        *divided(lines, statement, values, scalar, rank),
    )
    is_short = max(map(len, (*above, *below))) <= MAX_WIDTH
    return (tuple(above), below) if is_short else nothing


def _with_between(
    lines: Mapping[int, str], statement: Statement, makers: Sequence[Statement]
) -> Iterator[Statement | str]:
    """The statements that make k, and the lines between them and the call, which stay."""
    column = indentation(lines[statement.first])
    for maker, behind in pairwise([*makers, statement]):
        yield maker
        between = (lines[number][column:] for number in range(maker.last + 1, behind.first))
        yield from (line for line in between if line.strip())


def _with_k_max(statement: Statement, k: ast.expr, taken: ast.expr) -> tuple[str, ...]:
    """The call with the whole dimension as k: as many as there are cannot be too few."""
    source = statement.segment(taken)
    edits, above = [(k, "k_max")], []
    is_plain = isinstance(taken, (ast.Name, ast.Attribute, ast.Subscript))
    if not is_plain or any(isinstance(one, ast.Call) for one in ast.walk(taken)):
        whole = free_name("whole", statement)  # computed once
        above, source = [f"{whole} = {source}"], whole
        edits.append((taken, whole))
    return (*above, f"k_max = {source}.shape[-1]", *statement.replaced(edits))


def _on_device(maker: Statement, tensors: set[str]) -> Iterator[str]:
    """An assignment that reads nothing from the device any more; its name is a tensor then."""
    node = maker.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        raise Unknown
    (target,) = node.targets
    if not isinstance(target, ast.Name):
        raise Unknown
    value, is_tensor = as_tensor(node.value, tensors)
    if is_tensor:
        tensors.add(target.id)
        yield f"{target.id} = {ast.unparse(value)}"
    else:
        yield maker.segment(node)


def _values_name(node: ast.stmt, call: ast.Call) -> str:
    """The variable that the values of topk are assigned to, alone; empty if there is none."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return ""
    (target,) = node.targets
    value = node.value
    if value is call and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[0]
    elif not (isinstance(value, ast.Attribute) and value.value is call and value.attr == "values"):
        return ""
    is_name = isinstance(target, ast.Name) and not target.id.startswith("_")
    return target.id if is_name and isinstance(target, ast.Name) else ""
