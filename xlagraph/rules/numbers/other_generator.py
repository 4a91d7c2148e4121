"""Random numbers of one use that come from another generator: implementations of JAX's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import called_only_by
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.telling import RANDOM, opcodes_in_words
from xlagraph.message import A, B, HloName, count, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message

KEY = "u32["
"""A key of JAX, as bits: two numbers of threefry, four of rbg."""
THREEFRY = "threefry2x32"
MAX_CITED = 50
OTHER_GENERATOR = Kind(
    id="other-generator",
    title="Random numbers come from another generator",
    section=Section.PIECES,
    meaning="Keys of JAX have an implementation: threefry computes its bits with plain operations "
    "from keys of two numbers, rbg has an operation of XLA draw them from keys of four. It is "
    "chosen by the option jax_default_prng_impl, by a variable of the environment, or where a key "
    "is made. The keys are inputs of another shape, and all that is drawn is computed in another "
    "way; the rest is the same.",
    before="""\
jax.config.update("jax_default_prng_impl", "rbg")  # in one process, or one run, only
key = jax.random.key(0)
state = step(state, batch, key)
""",
    after="""\
key = jax.random.key(0, impl="rbg")  # everywhere, whatever the default is
state = step(state, batch, key)
""",
    evidence="What is drawn from keys alone, on both sides, and what it takes to draw it.",
    fix="Make keys of one implementation everywhere: the same jax_default_prng_impl (its variable "
    "JAX_DEFAULT_PRNG_IMPL too), or the same impl wherever jax.random.key makes one.",
    proof="What the rest takes of values that follow from keys and constants alone is taken for "
    "the same on both sides.",
    examples=("key_width",),
    short_fix="Choose one generator: jax_default_prng_impl, key(impl=...).",
)


def find(case: Case) -> list[Finding]:
    """What both sides draw from keys alone, by generators of which one side has none."""
    a, b = case.a, case.b
    if _random(a) == _random(b):
        return []
    drawn_a, drawn_b = _drawn(a), _drawn(b)
    if not (drawn_a and drawn_b):
        return []
    pairs = _used_alike(case, drawn_a, drawn_b)
    return [_finding(case, pairs, drawn_a, drawn_b)] if pairs else []


def _random(view: SideView) -> frozenset[str]:
    """The operations that draw, in all computations."""
    opcodes, live = view.module.opcodes, view.matched.live
    return RANDOM & {opcode for i, opcode in enumerate(opcodes) if live[i]}


def _drawn(view: SideView) -> set[int]:
    """What the entry computes of keys and constants alone."""
    module, live, closed = view.module, view.matched.live, view.matched.closed
    entry = module.entry_computation
    keys = {p for p in entry.parameters if live[p] and module.shapes[p].startswith(KEY)}
    changed = {p for p in keys if view.partners[p] < 0}
    drawn = changed or keys
    for i in range(entry.start, entry.stop):
        operands = module.operands[i]
        is_drawn = any(o in drawn for o in operands) and all(
            o in drawn or closed[o] for o in operands
        )
        if live[i] and is_drawn and not _is_end(module, i):
            drawn.add(i)
    return drawn


def _is_end(module: Module, i: int) -> bool:
    """Whether an instruction is the tuple of all outputs."""
    return i == module.entry_computation.root and module.gives_tuple


def _uses(view: SideView, drawn: set[int]) -> Iterator[tuple[int, int, int]]:
    """Values that something else uses: the value, its user, and the operand's place there."""
    module, live = view.module, view.matched.live
    for i in sorted(drawn):
        for user in module.users[i]:
            if live[user] and user not in drawn and not _is_end(module, user):
                yield from ((i, user, k) for k, o in enumerate(module.operands[user]) if o == i)


def _used_alike(case: Case, drawn_a: set[int], drawn_b: set[int]) -> list[tuple[int, int]]:
    """What the rest of both modules takes of it: the values of A with those of B, one to one.

    By who uses them; then those of one shape, and new keys, in their order. Empty if any is left.
    """
    partners = {(user, k): i for i, user, k in _uses(case.b, drawn_b)}
    found: dict[int, int] = {}
    for i, user, k in _uses(case.a, drawn_a):
        other = partners.get((case.a.partners[user], k))
        if other is not None and other not in found.values():
            found.setdefault(i, other)
    left_a = _left(case.a, drawn_a, set(found))
    left_b = _left(case.b, drawn_b, set(found.values()))
    if [what for what, _ in left_a] != [what for what, _ in left_b]:
        return []
    found.update((x, y) for (_, x), (_, y) in zip(left_a, left_b, strict=True))
    keys = case.a.module.entry_computation.parameters
    return [] if any(p in found for p in keys) else sorted(found.items())


def _left(view: SideView, drawn: set[int], found: set[int]) -> list[tuple[str, int]]:
    """Values used elsewhere, or given back, that are not paired yet; with what they have to be."""
    values = {i for i, _, _ in _uses(view, drawn)} | (drawn & set(view.module.outputs))
    shapes = ((bare_shape(view.module, i), i) for i in values - found)
    return sorted(("key" if shape.startswith(KEY) else shape, i) for shape, i in shapes)


def _finding(
    case: Case, pairs: list[tuple[int, int]], drawn_a: set[int], drawn_b: set[int]
) -> Finding:
    a, b = case.a.module, case.b.module
    lines = where(b, [y for _, y in pairs]) or where(a, [x for x, _ in pairs])
    inner_a, inner_b = called_only_by(a, drawn_a), called_only_by(b, drawn_b)

    def undo(edit: Editors) -> None:
        for view, drawn in ((case.a, drawn_a), (case.b, drawn_b)):
            for i in drawn:
                if has_effect(view.module, i):
                    edit[view.side].become_undone(i, ())
        for number, (x, y) in enumerate(pairs):
            edit.a.become_undone(x, (), f"drawn {number}")
            edit.b.become_undone(y, (), f"drawn {number}")
            edit.a.shapes[x] = edit.b.shapes[y]

    return Finding(
        kind=OTHER_GENERATOR,
        title=say(
            "random numbers come from another generator",
            at(lines),
            ": ",
            _generator(case.a, drawn_a, case.b),
            " in ",
            A,
            ", ",
            _generator(case.b, drawn_b, case.a),
            " in ",
            B,
        ),
        evidence=(
            Evidence(
                say(f"{count(len(pairs), 'value')} computed of keys alone, and used alike"),
                tuple(x for x, _ in pairs)[:MAX_CITED],
                tuple(y for _, y in pairs)[:MAX_CITED],
                lines,
            ),
            Evidence(
                say(
                    f"{len(drawn_a)} instructions in ", A, f" and {len(drawn_b)} in ", B, " for it"
                ),
                tuple(sorted(drawn_a))[:MAX_CITED],
                tuple(sorted(drawn_b))[:MAX_CITED],
            ),
        ),
        proof=say("what is drawn was taken for the same on both sides"),
        a=frozenset(drawn_a) | frozenset(inner_a),
        b=frozenset(drawn_b) | frozenset(inner_b),
        undo=undo,
    )


def _generator(view: SideView, drawn: set[int], other: SideView) -> Message:
    module = view.module
    random = sorted(_random(view))
    if random:
        return say(", ".join(random))
    called = {module.computations[c].name for cs in module.callees.values() for c in cs}
    if any(THREEFRY in name for name in called):
        return say(HloName(THREEFRY))
    return opcodes_in_words(module, drawn, other.module)


RULE = Rule(
    name="other-generator",
    kinds=(OTHER_GENERATOR,),
    find=find,
    after=("inlined-calls",),
    before=("loop-carry",),
    first_round_only=True,
    rematches=True,
)
