"""The function of the program, or of a library, that a number is given to where JAX calls it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.message import Code, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Computation, Module
    from xlagraph.message import Message

_NUMBER = re.compile(r"(?:\.\d+)+$")
_TRANSFORMS = re.compile(r"^(?:(?:jit|jvp|vmap|transpose|pjit|xla|wrapped)_+)+(?=\w)")
_NAMELESS = re.compile(
    r"_*(?:|None|lambda|fn|f|func|fun|region|body|cond|branch|call|closed_call|core_closed_call|"
    r"checkpoint|remat|computation|xla_computation|custom_jvp_call|custom_vjp_call)_*\d*(?:_\d+)*"
)
"""What a computation is called that comes of no function with a name."""
_OPTIONS = {
    ("_std", "subtract"): "ddof",
    ("_var", "subtract"): "ddof",
}
"""What the number is called that a function of jax.numpy takes, by what is done with it there."""


def called_with(module: Module, uses: Iterable[tuple[int, int]]) -> Message | None:
    """The function that takes a number in by all these uses, in words; None if there is no one.

    ``_std`` is what `jnp.std` calls. What the function hands on goes to the one that uses it.

    Args:
        module: in which the number is given to it.
        uses: instructions, and which of their operands the number is.
    """
    found = {_called_by(module, user, place) for user, place in uses}
    (name, option) = found.pop() if len(found) == 1 else ("", "")
    if not name:
        return None
    return say(Code(name), " as ", Code(option)) if option else say(Code(name))


def _called_by(module: Module, user: int, place: int) -> tuple[str, str]:
    """The name of the function that a use calls, and of what the number is there."""
    if module.opcodes[user] != "call" or len(module.callees.get(user, ())) != 1:
        return "", ""
    callee = module.computations[module.callees[user][0]]
    name = _name(callee.name)
    if _NAMELESS.fullmatch(name):
        return "", ""
    options = {_OPTIONS.get((name, use), "") for use in _done_with(module, callee, place)}
    return name, options.pop() if len(options) == 1 else ""


def _name(computation: str) -> str:
    name = _NUMBER.sub("", computation.lstrip("%"))
    return _TRANSFORMS.sub("", name)


def _done_with(module: Module, callee: Computation, place: int) -> set[str]:
    """What is done with what a function takes in, also by one that it is handed on to."""
    found: set[str] = set()
    stack = [callee.parameters[place]]
    while stack:
        i = stack.pop()
        for user in module.users[i]:
            opcode = module.opcodes[user]
            if opcode in ("broadcast", "convert", "reshape"):
                stack.append(user)
            elif opcode == "call":
                inner = module.computations[module.callees[user][0]].parameters
                places = enumerate(module.operands[user])
                stack += [inner[k] for k, operand in places if operand == i]
            else:
                found.add(opcode)
    return found
