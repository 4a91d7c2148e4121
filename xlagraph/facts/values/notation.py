"""Instructions as formulas are written: ``p - lr * m``, ``sum(x) / n``, ``(a @ x) @ w``."""

from __future__ import annotations

import re
from itertools import accumulate
from math import isclose, prod
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.values.ranges import is_doubled, roll_of
from xlagraph.facts.values.scalars import is_one, through
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Module

ATOM, POWER, SIGN, PRODUCT, SUM, COMPARISON = 0, 1, 2, 3, 4, 5
"""How tightly what a text is made of hangs together, the tightest first."""


class Term(NamedTuple):
    """A text, and how tightly it hangs together."""

    text: str
    rank: int
    summed: tuple[str, int] = ("", 0)
    """Of a sum: of what, and of how many numbers each of its own is one."""

    def within(self, rank: int) -> str:
        """The text as a part of what hangs together so tightly: in parentheses where need be."""
        return self.text if self.rank <= rank else f"({self.text})"


_INFIX = {
    "add": ("+", SUM),
    "subtract": ("-", SUM),
    "multiply": ("*", PRODUCT),
    "divide": ("/", PRODUCT),
    "remainder": ("%", PRODUCT),
    "dot": ("@", PRODUCT),
    "and": ("&", COMPARISON),
    "or": ("|", COMPARISON),
}
SIGNS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_CALLED = {
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log-plus-one": "log1p",
    "logistic": "sigmoid",
    "maximum": "max",
    "minimum": "min",
    "select": "where",
    "power": "pow",
    "cosine": "cos",
    "sine": "sin",
}
_COMPARED = {"EQ": eq, "NE": ne, "LT": lt, "LE": le, "GT": gt, "GE": ge}
_TRUTH = ("false", "true")
MAX_TWICE = 8
"""Characters of a factor that is written twice; a longer one is squared."""
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_NAME = re.compile(r"(?<![\w.])[a-zA-Z_]\w*(?![\w(])")
_NUMBERED = re.compile(r"(?<=\w)(?:[._]\d+)+$")
_RESHAPED = frozenset({"bitcast", "concatenate", "convert", "copy", "reshape"})
_REDUCED = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}


def names_in(formula: str) -> frozenset[str]:
    """The names of values in a formula, and not those of functions."""
    return frozenset(_NAME.findall(formula))


def logistic_of(module: Module, i: int) -> tuple[int, ...]:
    """What ``1 / (1 + exp(-x))`` is made of below its division, x last; empty if it is not that."""
    found = [i]
    for opcode in ("divide", "add", "exponential", "negate"):
        value, (*ones, inner) = found[-1], module.operands[found[-1]] or (-1,)
        if opcode == "add" and ones and not is_one(module, ones[0]):
            ones, inner = [inner], ones[0]
        if module.opcodes[value] != opcode or not all(is_one(module, one) for one in ones):
            return ()
        found.append(inner)
    return tuple(found[1:])


def row_of(module: Module, i: int) -> tuple[int, ...]:
    """What a gather of rows is made of, the table first and their numbers last; empty if none.

    Between them stands what turns numbers that count from the end into others: torch_xla wraps
    each index by that.
    """
    if module.opcodes[i] != "gather" or len(_taken_off(module, i)) != 1:
        return ()
    found = [module.operands[i][0]]
    at = module.operands[i][1]
    while module.opcodes[at] in _RESHAPED and len(module.operands[at]) == 1:
        found.append(at)
        (at,) = module.operands[at]
    if module.opcodes[at] == "select":
        asked, wrapped, plain = module.operands[at]
        is_wrap = module.opcodes[asked] == "compare" and module.opcodes[wrapped] == "add"
        if is_wrap and plain in module.operands[asked] and plain in module.operands[wrapped]:
            found += (at, asked, wrapped)
            at = plain
    return (*found, at)


def _taken_off(module: Module, i: int) -> str:
    """The dimensions of which a gather takes one place each, joined."""
    return (module.attributes[i].get("collapsed_slice_dims") or "").strip("{}")


def written(module: Module, i: int, terms: Sequence[Term]) -> Term:
    """What an instruction computes of these terms."""
    opcode = module.opcodes[i]
    folded = _folded(module, i, terms) or _rolled(module, i, terms)
    if folded:
        return folded
    if opcode == "negate":
        return Term(f"-{terms[0].within(POWER)}", SIGN)
    if opcode == "compare" and len(terms) == 2:
        sign = SIGNS.get(module.attributes[i].get("direction") or "", "?")
        return _infix(sign, COMPARISON, terms)
    if opcode == "dot":
        return Term(f"{terms[0].within(SIGN)} @ {terms[1].within(SIGN)}", PRODUCT)
    if opcode in _INFIX and len(terms) == 2:
        return _infix(*_INFIX[opcode], terms)
    if opcode == "reduce":
        return _reduced(module, i, terms[0].text)
    if opcode == "get-tuple-element":
        place = module.attributes[i].get("index") or "0"
        if picked_by(module, module.operands[i][0]):
            return Term(terms[0].text.removeprefix("arg" if place == "0" else ""), ATOM)
        is_first = place == "0" and module.opcodes[module.operands[i][0]] == "call"
        return Term(terms[0].text + ("" if is_first else f"[{place}]"), ATOM)
    if opcode == "call":
        return Term(f"{_callee(module, i)}({', '.join(t.text for t in terms)})", ATOM)
    name = _CALLED.get(opcode, opcode)
    return Term(f"{name}({', '.join(t.text for t in terms)})", ATOM)


def unsquared(one: str, other: str) -> tuple[str, str]:
    """Two formulas without the square that both are: what is squared tells what differs."""
    roots = _root(one), _root(other)
    return roots if all(roots) else (one, other)


def _root(formula: str) -> str:
    """What a formula is the square of, as a whole; empty if it is none."""
    twice = re.fullmatch(r"(.+) \* \1", formula)
    root = twice[1] if twice else formula.removesuffix("**2")
    if root == formula or not _is_whole(root):
        return ""
    return root[1:-1] if root.startswith("(") else root


def _is_whole(formula: str) -> bool:
    """Whether a formula is one name, one call, or all in parentheses."""
    name, opens, rest = formula.partition("(")
    if not opens:
        return bool(re.fullmatch(r"\w+", name))
    depths = [*accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in opens + rest)]
    return bool(re.fullmatch(r"\w*", name)) and depths.index(0) == len(depths) - 1


def _rolled(module: Module, i: int, terms: Sequence[Term]) -> Term | None:
    """``roll(x, -1)``, as torch.roll is given its shift; of what is read so, ``x``."""
    if is_doubled(module, i):
        rolls = (roll_of(module, user) is not None for user in module.users[i])
        return terms[0] if all(rolls) else None
    along = roll_of(module, i)
    if along is None:
        return None
    start, size = terms[1 + along], read_shape(module.shapes[i]).dimensions[along]
    shift = f"-{start.within(POWER)}"
    if start.text.isdecimal():
        places = (size - int(start.text)) % size
        shift = str(places if 2 * places <= size else places - size)
    return Term(f"roll({terms[0].text}, {shift})", ATOM)


def _folded(module: Module, i: int, terms: Sequence[Term]) -> Term | None:
    """What numbers alone come to, squares, what a one or a known choice leaves; None if nothing."""
    opcode, texts = module.opcodes[i], [term.text for term in terms]
    if opcode == "multiply" and "1" in texts:
        return terms[1 - texts.index("1")]
    if opcode == "multiply" and len(texts[0]) > MAX_TWICE and terms[0] == terms[1]:
        return Term(f"{terms[0].within(ATOM)}**2", ATOM)
    if opcode == "select" and texts[0] in _TRUTH:
        return terms[1 if texts[0] == "true" else 2]
    summed, number = terms[0].summed, texts[-1]
    if opcode in ("multiply", "divide") and summed[1] and NUMBER.fullmatch(number):
        share = (
            float(number) ** (1 if opcode == "multiply" else -1) * summed[1] if float(number) else 0
        )
        return Term(f"mean({summed[0]})", ATOM) if isclose(share, 1, rel_tol=1e-5) else None
    if len(terms) != 2 or not all(NUMBER.fullmatch(text) for text in texts):
        return None
    one, other = map(float, texts)
    if opcode == "compare":
        found = _COMPARED.get(module.attributes[i].get("direction") or "")
        return Term(_TRUTH[found(one, other)], ATOM) if found else None
    if opcode == "divide" and other:
        return Term(f"{one / other:.6g}", ATOM)
    return None


def _infix(sign: str, rank: int, terms: Sequence[Term]) -> Term:
    """Of equal rank the left one needs no parentheses; the right one does, as order counts."""
    left, right = terms
    return Term(f"{left.within(rank)} {sign} {right.within(rank - 1)}", rank)


def _reduced(module: Module, i: int, text: str) -> Term:
    callees = module.callees.get(i, ())
    root = module.opcodes[module.computations[callees[0]].root] if len(callees) == 1 else ""
    picked = picked_by(module, i)
    name = f"arg{picked}" if picked else _REDUCED.get(root, "reduce")
    of = elements(module, module.operands[i][0])
    number = of // max(elements(module, i), 1)
    return Term(f"{name}({text})", ATOM, (text, number) if name == "sum" else ("", 0))


def told_as(module: Module, i: int) -> str:
    """An instruction's opcode; argmax or argmin where a reduction, or its result, is such a one."""
    opcode = module.opcodes[i]
    if roll_of(module, i) is not None:
        return "roll"
    is_place = opcode == "get-tuple-element" and module.attributes[i].get("index") == "1"
    picked = picked_by(module, module.operands[i][0] if is_place else i)
    return f"arg{picked}" if picked else opcode


def picked_by(module: Module, i: int) -> str:
    """Whether a reduction of values with their places gives the ``max`` or the ``min``.

    Empty if it is none, or of numbers that do not count along what is reduced.
    """
    callees = module.callees.get(i, ())
    if module.opcodes[i] != "reduce" or len(module.operands[i]) != 4 or len(callees) != 1:
        return ""
    root = module.computations[callees[0]].root
    if module.opcodes[root] != "tuple" or not _is_place(module, i):
        return ""
    value = module.operands[root][0]
    if module.opcodes[value] == "select":
        return _chosen(module, value)
    return {"maximum": "max", "minimum": "min"}.get(module.opcodes[value], "")


def _is_place(module: Module, i: int) -> bool:
    """Whether what comes along with the values are their places along the reduced axis."""
    place = through(module, module.operands[i][1], ("convert", "copy"))
    is_spread = module.opcodes[place] == "broadcast"
    along = module.attributes[place].get("dimensions" if is_spread else "iota_dimension") or ""
    reduced = module.attributes[i].get("dimensions") or ""
    iota = module.operands[place][0] if is_spread else place
    return module.opcodes[iota] == "iota" and along.strip("{}") == reduced.strip("{}") != ""


def _chosen(module: Module, choice: int) -> str:
    """Which of both values a choice takes, where one comparison by size tells."""
    condition, *both = module.operands[choice]
    front, found = [condition], set[bool]()
    for i in front:  # grows while it is read
        direction = module.attributes[i].get("direction") or ""
        if module.opcodes[i] == "compare" and direction[:1] in ("G", "L"):
            if sorted(module.operands[i]) != sorted(both):
                return ""
            found.add((direction[0] == "G") == (list(module.operands[i]) == both))
        elif module.opcodes[i] == "or":
            front += module.operands[i]
        elif module.opcodes[i] != "compare":
            return ""
    return ("max" if found.pop() else "min") if len(found) == 1 else ""


def elements(module: Module, i: int) -> int:
    """How many elements a value has; 0 of a tuple, or of a size that is not known."""
    sizes = re.fullmatch(r"\w+\[([\d,]*)\]", bare_shape(module, i))
    return prod(map(int, filter(None, sizes[1].split(",")))) if sizes else 0


def _callee(module: Module, i: int) -> str:
    callees = module.callees.get(i, ())
    return _NUMBERED.sub("", module.computations[callees[0]].name) if callees else "call"
