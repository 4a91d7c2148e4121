"""A tensor that is carried from step to step and grows by a concatenation each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.facts.shapes.fed_sizes import sizes_of
from xlagraph.message import join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.case import Case
    from xlagraph.graph import Module

GROWING_INPUT = Kind(
    id="growing-input",
    title="A carried tensor grows with every step",
    section=Section.INPUTS,
    meaning="The keys and values of a cache, the tokens generated so far, a history: torch.cat "
    "puts a new piece behind what was there, and the next step takes in the result. Every length "
    "is a shape of its own, so every step compiles.",
    before="""\
seen = torch.zeros(1, 4).to("xla")
for x, y in loader:
    out = model(x)
    seen = torch.cat([seen, out.detach().mean(0, keepdim=True)])  # one row longer each time
    update(loss_fn(out, y) + 0.01 * seen.mean())
""",
    after="""\
seen, row = torch.zeros(16, 4).to("xla"), torch.zeros(1, dtype=torch.long).to("xla")
torch_xla.sync()
for x, y in loader:
    out = model(x)
    seen.index_copy_(0, row, out.detach().mean(0, keepdim=True))
    row += 1
    update(loss_fn(out, y) + 0.01 * seen.mean())
""",
    evidence="The input, what it is joined with, and that the result is given back.",
    fix="Make the tensor as long as it will ever be before the loop, write into it with "
    "index_copy_ at a position that is a tensor on the device, and mask what is not filled yet. "
    'In transformers that is cache_implementation="static".',
    proof="B's dimensions are put into A at the input and where they spread to.",
    examples=("growing_cache", "growing_tokens", "growing_scores"),
    short_fix="Make it full-size before the loop, and write with index_copy_.",
)
KINDS = (GROWING_INPUT,)


def growing(case: Case, starts: Mapping[int, int]) -> Mapping[int, int]:
    """The inputs of A that have in B the shape that A's concatenation gives back for them.

    The other ones have to go with them, as the masks of an attention over what is carried; else
    nothing is said to grow.
    """
    found = {x: y for x, y in starts.items() if _grows(case, x, y)}
    sizes = {one for x, y in found.items() for one in _sizes_with(case, x, y)}
    others = [(x, y) for x, y in starts.items() if x not in found]
    return found if all(sizes_of(case, {x: y}) <= sizes for x, y in others) else {}


def following(case: Case, starts: Mapping[int, int], grows: Mapping[int, int]) -> list[Evidence]:
    """That inputs have other sizes since some of them grow; nothing if there are no others."""
    inputs = {x: y for x, y in starts.items() if x not in grows}
    if not inputs:
        return []
    sizes = sorted({one for x, y in inputs.items() for one in sizes_of(case, {x: y})})
    text = say(
        "sizes of other inputs go with it: ",
        join(parameter_name(case.a, x) for x in sorted(inputs)),
        " (",
        join(say(f"{old} -> {new}") for old, new in sizes),
        ")",
    )
    return [Evidence(text, tuple(inputs), tuple(inputs.values()))]


def _sizes_with(case: Case, x: int, y: int) -> frozenset[tuple[int, int]]:
    """The sizes of what grows on both sides, and those of what it is made into."""
    sizes = sizes_of(case, {x: y})
    return sizes | {(new, 2 * new - old) for old, new in sizes}


def growers(module: Module, inputs: Iterable[int]) -> list[int]:
    """The concatenations that inputs come into and that are given back: what makes them grow.

    Others may only join an input with what it is computed with, as an attention does. A slice may
    take all of it, as where the oldest rows are to be dropped once there are too many.
    """
    outputs = set(module.outputs)
    return [
        user
        for i in inputs
        for form in (i, *_slices_of_all(module, i))
        for user in module.users[form]
        if module.opcodes[user] == "concatenate" and user in outputs
    ]


def _slices_of_all(module: Module, i: int) -> list[int]:
    shape = bare_shape(module, i)
    users = (user for user in module.users[i] if module.opcodes[user] == "slice")
    return [user for user in users if bare_shape(module, user) == shape]


def _grows(case: Case, x: int, y: int) -> bool:
    a, shape = case.diff.a, bare_shape(case.diff.b, y)
    return is_input(a, x) and any(bare_shape(a, one) == shape for one in growers(a, [x]))
