"""How averages are taken of values of which some are masked: the mean would count those too."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xlagraph.facts.program.written import MAX_WIDTH, called_name, indentation, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xlagraph.facts.program.written import Statement

MAX_BELOW = 12
"""Lines below the statement that are looked at for means."""
MAX_NAMED = 3
_HEADS = ("def ", "async def ", "class ")


def divided(
    lines: Mapping[int, str], statement: Statement, values: str, number: str, rank: int
) -> tuple[str, ...]:
    """Comments that say what to write in place of means of masked values.

    The means that the lines below take are named; without any it is said in general.

    Args:
        lines: those known of the file, by number.
        statement: the one whose values are masked along their last dimension.
        values: their name.
        number: how many are wanted, a scalar tensor.
        rank: how many dimensions they have; 0 where that is not known.
    """
    found = [
        f"# line {line}: {instead}, not {mean}"
        for line, call, mean in _means(lines, statement, values)
        if (instead := _instead(call, values, number, rank))
    ]
    dimension = "" if rank == 1 else "-1"
    general = (
        f"# averages: {values}.sum({dimension}) / {number}, not {values}.mean({dimension})",
        f"# averages: divide sums by {number}",
    )
    told = list(dict.fromkeys(found))[:MAX_NAMED] or [general[0]]
    return tuple(told) if max(map(len, told)) <= MAX_WIDTH else general[1:]


def _means(
    lines: Mapping[int, str], statement: Statement, values: str
) -> Iterator[tuple[int, ast.Call, str]]:
    """The means of the values, as far as the name stands for them: line, call and its text."""
    column = indentation(lines[statement.first])
    number = statement.last + 1
    while number in lines and number <= statement.last + MAX_BELOW:
        line = lines[number]
        if line.lstrip().startswith(_HEADS) and indentation(line) <= column:
            return
        text, body = statement_at(lines, number)
        nodes = [node for one in body for node in ast.walk(one)]
        for node in nodes:
            if isinstance(node, ast.Call) and _is_mean(node, values):
                yield number + node.lineno - 1, node, ast.unparse(node)
        stored = (one for one in nodes if isinstance(one, ast.Name) and one.id == values)
        if any(isinstance(one.ctx, ast.Store) for one in stored):
            return
        number += text.count("\n") + 1


def _is_mean(call: ast.Call, values: str) -> bool:
    """``v.mean(...)``, or ``torch.mean(v, ...)``."""
    if called_name(call) != "mean" or not isinstance(call.func, ast.Attribute):
        return False
    of = call.func.value
    if isinstance(of, ast.Name) and of.id == "torch" and call.args:
        of = call.args[0]
    return isinstance(of, ast.Name) and of.id == values


def _instead(call: ast.Call, values: str, number: str, rank: int) -> str:
    """What to write for a mean; empty for one along other dimensions, or not understood."""
    is_method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == values
    arguments = call.args if is_method else call.args[1:]
    texts = [ast.unparse(one) for one in (*arguments, *call.keywords)]
    if not texts:
        return (
            f"{values}.sum() / {number}" if rank == 1 else f"({values}.sum(-1) / {number}).mean()"
        )
    named = [one.value for one in call.keywords if one.arg == "dim"]
    dimension = ast.unparse((*arguments, *named)[0]) if (*arguments, *named) else ""
    is_last = dimension == "-1" or (rank > 0 and dimension == str(rank - 1))
    return f"{values}.sum({', '.join(texts)}) / {number}" if is_last else ""
