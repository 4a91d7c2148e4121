"""A Python number of the program's statement, sent so that it is a parameter whatever its value.

A tensor without dimensions is lowered as the number in it. What is taken out of a tensor of one
element is not, and has no dimensions either: dtypes and shapes stay as they are.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from xlagraph.cause.sources import line_of, statement
from xlagraph.facts.program.typed_numbers import TypedStatement, replaced
from xlagraph.facts.program.written import (
    called_name,
    indentation,
    lines_in_words,
    statement_at,
    statements_over,
)
from xlagraph.message import Listing, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.facts.program.written import Statement
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

_OPCODES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Mod: "remainder",
}
"""What these operators of tensors are in a graph."""
_NUMBERS = frozenset({"float", "int", "len", "round", "abs", "max", "min"})
"""Functions that give a number for numbers."""
_MAKERS = frozenset({"tensor", "as_tensor"})
_MAY_BE_NUMBERS = (ast.Name, ast.Subscript, ast.Attribute)
"""Operands that may be numbers as well as tensors. What is called for most often is a tensor, and
so is a name in a sum with what a number is multiplied with: a loss."""
_LOOPS = ("for ", "async for ", "while ")
Traced = dict[int, frozenset[str]]
"""The opcodes that the modules have of each line of a file."""


def sent_scalar(case: Case, lines: Sequence[SourceLine], users: Iterable[int]) -> Message | None:
    """What to type where a number is used; None where the statement does not tell which it is.

    Args:
        case: the two modules.
        lines: where it is used.
        users: what takes it in B.
    """
    line = statement(lines)
    if line is None:
        return None
    used_by = frozenset(opcode for y in users for opcode in _past_spreading(case.diff.b, y))
    typed = typed_scalar(case.program(line), line.line, _traced(case, line.file), used_by)
    if typed is None:
        return None
    where = lines_in_words(typed.first, typed.last)
    return say(f"Replace {where} (a tensor of one element is no number):", Listing(typed.code))


def _past_spreading(module: Module, i: int) -> Iterator[str]:
    """The opcodes of what takes a number, or what it is spread to."""
    if module.opcodes[i] not in ("broadcast", "reshape", "convert"):
        yield module.opcodes[i]
        return
    for user in module.users[i]:
        yield from _past_spreading(module, user)


def _traced(case: Case, file: str) -> Traced:
    found: dict[int, set[str]] = {}
    for module in (case.diff.a, case.diff.b):
        for i, opcode in enumerate(module.opcodes):
            line = line_of(module, i)
            if line and line.file == file:
                found.setdefault(line.line, set()).add(opcode)
    return {line: frozenset(opcodes) for line, opcodes in found.items()}


def typed_scalar(
    lines: Mapping[int, str], number: int, traced: Traced, used_by: frozenset[str]
) -> TypedStatement | None:
    """The statement on this line with each number that a tensor is combined with sent.

    Args:
        lines: those known of the file, by number.
        number: where the number is used, or made a tensor.
        traced: an operator that no graph has of its line took no tensor, so its result is a number.
        used_by: what takes the number.
    """
    for one in statements_over(lines, number):
        known = _Numbers(lines, traced, one)
        edits = known.tensors() or known.operands(used_by)
        if edits:
            return replaced(one, edits)
    return None


class _Numbers:
    """The expressions of a statement that are numbers for sure."""

    def __init__(self, lines: Mapping[int, str], traced: Traced, found: Statement) -> None:
        self._lines, self._traced, self._statement = lines, traced, found

    def tensors(self) -> list[tuple[ast.expr, str]]:
        """Each ``torch.tensor(number)`` that is sent, with one element instead."""
        edits: list[tuple[ast.expr, str]] = []
        for node in ast.walk(self._statement.node):
            maker = _sent_maker(node)
            if maker and isinstance(node, ast.Call) and self._is_number(maker.args[0]):
                sent, value = map(self._statement.segment, (node, maker.args[0]))
                before, _, after = sent.partition(f"({value}")
                edits.append((node, f"{before}([{value}]{after}[0]"))
        return edits

    def operands(self, used_by: frozenset[str]) -> list[tuple[ast.expr, str]]:
        """Each number that changes and that a tensor is combined with so, sent.

        Nothing if another operand of the statement may be the number as well.
        """
        edits: list[tuple[ast.expr, str]] = []
        for operator, pair in self._combined(self._statement.node, used_by):
            numbers = [one for one in pair if self._is_number(one)]
            is_sum = isinstance(operator, (ast.Add, ast.Sub))
            unsure = (ast.Subscript, ast.Attribute) if is_sum else _MAY_BE_NUMBERS
            if not numbers and any(isinstance(one, unsure) for one in pair):
                return []
            for one in numbers:
                if any(isinstance(n, ast.Name) for n in ast.walk(one)):
                    sent = f'torch.tensor([{self._statement.segment(one)}]).to("xla")[0]'
                    edits.append((one, sent))
        return edits

    def _combined(
        self, node: ast.AST, used_by: frozenset[str]
    ) -> Iterator[tuple[ast.operator, tuple[ast.expr, ...]]]:
        """Each operator that may take the number, and its operands."""
        if isinstance(node, ast.Subscript) or self._is_number(node):
            return
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and _taken(node.op) & used_by:
            pair = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
            yield node.op, pair
        for child in ast.iter_child_nodes(node):
            yield from self._combined(child, used_by)

    def _is_number(self, node: ast.AST, at: int = 0) -> bool:
        """Whether an expression of this statement, or of the line `at`, is a number."""
        parts: list[ast.expr] = []
        if isinstance(node, ast.Constant):
            return type(node.value) in (int, float)
        if isinstance(node, ast.Name):
            return self._is_bound(node.id, at or self._statement.first)
        if isinstance(node, ast.BinOp):
            parts = [] if self._took_no_tensor(node, at) else [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Call) and called_name(node) in _NUMBERS:
            parts = [node.func, *node.args] if isinstance(node.func, ast.Attribute) else node.args
        else:
            return False
        return all(self._is_number(one, at) for one in parts)

    def _took_no_tensor(self, node: ast.BinOp, at: int) -> bool:
        opcode = _OPCODES.get(type(node.op))
        lines = [at] if at else range(self._statement.first, self._statement.last + 1)
        is_seen = any(opcode in self._traced.get(line, ()) for line in lines)
        return bool(self._traced) and opcode is not None and not is_seen

    def _is_bound(self, name: str, line: int) -> bool:
        """Whether the last line above that gives this name something gives it a number.

        All lines up to there have to be known, and it has to stand in this block or around it.
        """
        depth = indentation(self._lines.get(line, ""))
        for above in range(line - 1, 0, -1):
            text = self._lines.get(above)
            if text is None or text.lstrip().startswith(("def ", "async def ", "class ")):
                return False
            if not re.search(rf"\b{name}\b", text):
                continue
            found = statement_at({above: text}, above, " pass")[1]
            if len(found) != 1:
                return False
            if not _binds(found[0], name):
                continue
            is_around = indentation(text) <= depth and self._stays(name, above, line)
            return is_around and self._is_number_given(found[0], name, above)
        return False

    def _stays(self, name: str, above: int, line: int) -> bool:
        """Whether no loop that begins below the line `above` binds it again for its next turn.

        As ``loss = loss + term`` does, which makes a tensor of the 0.0 before the loop.
        """
        depth = indentation(self._lines.get(line, ""))
        heads: list[int] = []
        for k in range(line - 1, above, -1):
            text = self._lines.get(k, "")
            if text.strip() and indentation(text) < depth:
                depth = indentation(text)
                heads += [depth] if text.lstrip().startswith(_LOOPS) else []
        if not heads:
            return True
        for k in range(line, max(self._lines) + 1):
            if k not in self._lines:
                return False
            text = self._lines[k]
            if k > line and text.strip() and indentation(text) <= heads[-1]:
                return True
            if re.search(rf"\b{name}\b", text):
                found = statement_at(self._lines, k, " pass")[1]
                if len(found) != 1 or _binds(found[0], name):
                    return False
        return False

    def _is_number_given(self, node: ast.stmt, name: str, line: int) -> bool:
        if isinstance(node, ast.For):
            return _counts(node, name)
        is_plain = isinstance(node, ast.Assign) and _is_name(node.targets[0], name)
        return is_plain and isinstance(node, ast.Assign) and self._is_number(node.value, line)


def _taken(operator: ast.operator) -> set[str]:
    """What takes the second operand: torch's sums and differences multiply it by an alpha."""
    own = _OPCODES.get(type(operator))
    return {own, "multiply"} if own in ("add", "subtract") else {own} if own else set()


def _sent_maker(node: ast.AST) -> ast.Call | None:
    """``torch.tensor(x)`` of ``torch.tensor(x).to(device)``, or with ``device=``."""
    if not isinstance(node, ast.Call):
        return None
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_moved = called_name(node) == "to" and isinstance(inner, ast.Call)
    maker = inner if is_moved and isinstance(inner, ast.Call) else node
    is_sent = is_moved or any(one.arg == "device" for one in node.keywords)
    is_maker = called_name(maker) in _MAKERS and len(maker.args) == 1
    return maker if is_sent and is_maker else None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _counts(loop: ast.For, name: str) -> bool:
    """Whether a loop counts with this name: over a range, or as the number of an enumeration."""
    called = called_name(loop.iter) if isinstance(loop.iter, ast.Call) else ""
    target = loop.target
    if called == "enumerate" and isinstance(target, ast.Tuple):
        return _is_name(target.elts[0], name)
    return called == "range" and _is_name(target, name)


def _binds(node: ast.stmt, name: str) -> bool:
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == name]
    return any(isinstance(one.ctx, ast.Store) for one in names)
