"""Statements of the program that set an option of a layer or a parameter, and run no operation.

What such an option changes is seen where the layer runs; the line to edit is the one that sets it.
So it is with how a batch is put together (`batches`), of which type it is (`untyped`), and with
hooks (`attached`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from xlagraph.capture.places.again import Text, runs_again
from xlagraph.capture.places.attached import ATTACHES, attached
from xlagraph.capture.places.batches import (
    COLLATES,
    DRAWS,
    FLATTENS,
    LEAVES,
    PADDING,
    PADS,
    cut,
    distinct,
    flattened,
    given_collates,
    joined,
    joined_lists,
    makes,
    pads,
    senders,
)
from xlagraph.capture.places.statements import Setting, constant_text
from xlagraph.capture.places.untyped import MAKES, TABLES, untyped

LAYERDROP = "layerdrop"
_DROPS = re.compile(r"\b(?:\w+_)?layer_?drop")
"""A keyword by which a library's model leaves out layers by a random number."""
CONFIGURATION = "configuration"
_CONFIGURES = re.compile(r"\b[A-Z]\w*Config\b")
"""What a library's model is made of, options by keyword."""
ATTRIBUTES = frozenset({"momentum", "training", "requires_grad"})
"""What is set by assignment or by ``setattr``."""
METHODS = {
    "train": ("training", "True"),
    "eval": ("training", "False"),
    "requires_grad_": ("requires_grad", "True"),
}
"""Method to the attribute that it sets, and to what without an argument."""
_ARGUMENTS = frozenset({"mode", "requires_grad"})
_TAKES_ONE = frozenset({"train", "requires_grad_"})
_SETS = re.compile(
    rf"\.(?:{'|'.join(sorted(ATTRIBUTES))})\b|[\"'](?:{'|'.join(sorted(ATTRIBUTES))})[\"']"
    rf"|\.(?:{'|'.join(sorted(METHODS))})\("
    rf"|{PADS.pattern}|\b{FLATTENS}\(|\b{PADDING}\s*=|{COLLATES.pattern}|\.{ATTACHES.pattern}\("
    rf"|{_DROPS.pattern}\s*=|{_CONFIGURES.pattern}\("
    rf"|\.(?:{'|'.join(sorted(LEAVES))})\("
    rf"|\b(?:{'|'.join(sorted(DRAWS))})\(|\b{MAKES.pattern}\(|\.(?:{TABLES})\("
)
_MAX_TEXT = 1 << 19
_ESCAPE = re.compile(r"\\N\{[^}\n]*\}|\\.")
"""In a string; outside of one a backslash stands at the end of a line."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def settings_in(lines: Sequence[str], others: Iterable[Sequence[str]] = ()) -> list[Setting]:
    """The statements of a file that set an option of something that was made before, by line.

    Left out is what an object sets of its own, what belongs to an object just made, and how a batch
    is put together where that runs once. Empty where the text is no Python.

    Args:
        lines: of the file.
        others: those of the program's other files, which may call its functions.
    """
    text = "\n".join(lines)
    if not _SETS.search(text):
        return []
    own = _parsed(text)
    try:
        return sorted(_settings(own, _Ways(own, others))) if own else []
    except RecursionError:
        return []


def _parsed(text: str) -> Text | None:
    """A file's text; None where it is too long, or no Python."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        return Text(ast.parse(_ESCAPE.sub(_blank, text)))  # without escapes, of which it would warn
    except _UNREADABLE:
        return None


def _blank(found: re.Match[str]) -> str:
    return "_" * len(found[0])


class _Ways:
    """Which parts of a file run again; the other files are read where that is asked."""

    def __init__(self, own: Text, others: Iterable[Sequence[str]]) -> None:
        self._own = own
        self._others = others

    @cached_property
    def _program(self) -> list[Text]:
        read = [_parsed("\n".join(lines)) for lines in self._others]
        return [self._own, *(one for one in read if one)]

    def lead_to(self, node: ast.AST) -> bool:
        return runs_again(node, self._own, self._program)

    def lead_to_line(self, setting: Setting) -> bool:
        found = self._own.at(setting.line)
        return found is None or self.lead_to(found)


def _settings(text: Text, ways: _Ways) -> Iterator[Setting]:
    tree = text.tree
    yield from untyped(tree)
    collates = given_collates(tree) | senders(tree)
    waiting: list[tuple[ast.AST, str]] = [(tree, "<module>")]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.Call):
            yield from _called(node, function)
            yield from _given(node, function)
            yield from attached(node, function, tree)
            is_collated = bool(COLLATES.search(function)) or function in collates
            found = list(_put_together(node, function, is_collated=is_collated))
            yield from found if found and (makes(node) or ways.lead_to(node)) else ()
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            yield from _assigned(node, function)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
            is_collated = bool(COLLATES.search(function)) or function in collates
            lists = joined_lists(node) if is_collated else ()
            yield from filter(ways.lead_to_line, (*cut(node), *lists))
        waiting += [(inner, function) for inner in ast.iter_child_nodes(node)]


def _put_together(node: ast.Call, function: str, *, is_collated: bool) -> Iterator[Setting]:
    """What a call says of how long a batch is."""
    if pads(node, collates=is_collated):
        yield Setting(node.lineno, function, PADDING, "")
    yield from flattened(node, function)
    if is_collated:
        yield from joined(node, function)
        yield from distinct(node, function)


def _assigned(node: ast.Assign | ast.AugAssign | ast.AnnAssign, function: str) -> Iterator[Setting]:
    if node.value is None:  # an annotation alone
        return
    value = "" if isinstance(node, ast.AugAssign) else constant_text(node.value)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if not isinstance(target, ast.Attribute) or _is_self(target.value):
            continue
        if target.attr in ATTRIBUTES:
            yield Setting(node.lineno, function, target.attr, value)


def _called(node: ast.Call, function: str) -> Iterator[Setting]:
    called = node.func
    if isinstance(called, ast.Name) and called.id == "setattr" and len(node.args) == 3:
        owner, name, given = node.args
        if isinstance(name, ast.Constant) and name.value in ATTRIBUTES and not _is_self(owner):
            yield Setting(node.lineno, function, str(name.value), constant_text(given))
    elif isinstance(called, ast.Attribute) and called.attr in METHODS and _is_there(called.value):
        arguments = [*node.args, *(one.value for one in node.keywords)]
        is_known = all(one.arg in _ARGUMENTS for one in node.keywords)
        if is_known and len(arguments) <= (called.attr in _TAKES_ONE):
            option, value = METHODS[called.attr]
            yield Setting(
                called.end_lineno or node.lineno,
                function,
                option,
                constant_text(arguments[0]) if arguments else value,
            )


def _given(node: ast.Call, function: str) -> Iterator[Setting]:
    for one in node.keywords:
        if one.arg and _DROPS.fullmatch(one.arg):
            yield Setting(one.value.lineno, function, LAYERDROP, constant_text(one.value))
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    is_all = all(one.arg for one in node.keywords)  # no further ones from a dictionary
    if is_all and _CONFIGURES.fullmatch(name):
        yield Setting(node.lineno, function, CONFIGURATION, name)


def _is_self(owner: ast.expr) -> bool:
    """Whether an object's own attribute is set, of which it is not known what it is."""
    return isinstance(owner, ast.Name) and owner.id == "self"


def _is_there(owner: ast.expr) -> bool:
    """Whether something is named, by variables, attributes and items, and not just made."""
    while isinstance(owner, (ast.Attribute, ast.Subscript)):
        owner = owner.value
    return isinstance(owner, ast.Name)
