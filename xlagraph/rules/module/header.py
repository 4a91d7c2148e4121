"""Differences of the module's header: aliases, donors, replica counts, frontend attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import mark
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.changes import positions
from xlagraph.diff.header import ENTRY_LAYOUT, aliases
from xlagraph.facts.distributed.shardings import mesh_of, without_shardy
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.program.donated import dimensions_of, lost_by_type, retyped_dimensions
from xlagraph.facts.values.copies import lone_copies
from xlagraph.message import EMPTY, A, B, Quoted, count, join, say
from xlagraph.rules.distributed.sharding import SHARDING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.diff import HeaderChange
    from xlagraph.facts.values.copies import Copies
    from xlagraph.graph import Module
    from xlagraph.message import Message

_PROOF = "The comparison leaves the header out."
_FIELD = "The field on both sides."
DONORS = Kind(
    id="donors",
    title="Other parameters give their buffers away",
    section=Section.HEADER,
    meaning="A tensor that is updated in place donates its buffer: the output may be written over "
    "it. Where some steps update in place and others replace the tensor, the instructions are the "
    "same and the donors are not; torch_xla makes them part of the cache key.",
    before="""\
seen = torch.zeros(4, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    out = model(x)
    old = seen
    if step % 4 == 3:
        seen = seen + out.detach().sum(0)  # a new tensor
    else:
        seen += out.detach().sum(0)  # the same one, updated in place
    update(loss_fn(out, y))
""",
    after="""\
seen = torch.zeros(4, device="xla")
torch_xla.sync()
for x, y in loader:
    out = model(x)
    seen += out.detach().sum(0)
    update(loss_fn(out, y))
""",
    evidence="The parameters, by tensor whatever their numbers are, and the copies that keep what "
    "would be overwritten.",
    fix="Update the same tensors in place in every step.",
    proof="The comparison leaves the header out, and copies are bypassed.",
    examples=("donated_buffer", "sharded_and_donated", "donor_without_output"),
    family=Family.HEADER,
)
ALIAS = Kind(
    id="alias",
    title="Other parameters share a buffer with an output",
    section=Section.HEADER,
    meaning="What a donor is after its output is known: the parameter and the output are one "
    "buffer. As for donors, updating in place in some steps only changes it.",
    before="""\
step = jax.jit(update, donate_argnums=(0,))
if save:
    step = jax.jit(update)  # keeps the old state
""",
    after="""\
step = jax.jit(update, donate_argnums=(0,))
if save:
    saved = jax.tree.map(jnp.copy, state)
""",
    evidence="The parameters, and the outputs that take their buffers.",
    fix="Update the same tensors in place in every step.",
    proof="The comparison leaves the header out, and copies are bypassed.",
    examples=("donated",),
    family=Family.HEADER,
)
REPLICA_COUNT = Kind(
    id="replica-count",
    title="The number of replicas differs",
    section=Section.HEADER,
    meaning="The module is compiled for another number of processes.",
    before="""\
train = jax.pmap(step, devices=jax.devices()[:2])  # and jax.devices()[:4] later
""",
    after="""\
train = jax.pmap(step, devices=jax.devices())
""",
    evidence="Both numbers.",
    fix="Run every step with the same world size.",
    proof=_PROOF,
    examples=("replica_count",),
)
PARTITIONS = Kind(
    id="partitions",
    title="The number of partitions differs",
    section=Section.HEADER,
    meaning="The module is compiled for another number of devices in the mesh.",
    before="""\
mesh = jax.make_mesh((2,), ("x",))  # and (4,) later
""",
    after="""\
MESH = jax.make_mesh((4,), ("x",))
""",
    evidence="Both numbers.",
    fix="Keep the mesh the same in every step.",
    proof=_PROOF,
    examples=("partitions_one.after",),
)
FRONTEND_ATTRIBUTES = Kind(
    id="frontend-attributes",
    title="The module's frontend attributes differ",
    section=Section.HEADER,
    meaning="Annotations that the frontend hands through to the compiler for the whole module.",
    before="",
    after="",
    evidence=_FIELD,
    fix="Keep compiler options and annotations the same in every step.",
    proof=_PROOF,
    examples=(),
)
HEADER = Kind(
    id="header",
    title="Another field of the header differs",
    section=Section.HEADER,
    meaning="A field for which there is no kind of its own.",
    before="",
    after="",
    evidence=_FIELD,
    fix="Keep it the same.",
    proof=_PROOF,
    examples=(),
)
BUFFER_FIELDS: dict[str, tuple[Kind, str]] = {
    "buffer_donor": (
        DONORS,
        "other parameters are donated (their buffers may be reused for outputs)",
    ),
    "input_output_alias": (ALIAS, "other parameters share a buffer with an output"),
}
FIELDS: dict[str, tuple[Kind, str]] = {
    "replica_count": (REPLICA_COUNT, "the number of replicas differs"),
    "num_partitions": (PARTITIONS, "the number of partitions differs"),
    "frontend_attributes": (FRONTEND_ATTRIBUTES, "the module's frontend attributes differ"),
}
JAX_FIX = say(
    "Donate the same arguments in every call: give jax.jit the same donate_argnums (or "
    "donate_argnames), and wrap the function once rather than once with and once without."
)
JAX_SHORT = say("Give jax.jit the same donate_argnums everywhere.")
_NUMBER = re.compile(r"\((\d+)\s*,")
"""A parameter's number in a field about buffers."""


def find(case: Case) -> list[Finding]:
    """Header fields that differ, where no other cause brings the difference along.

    Donors and aliases follow the live tensors: a parameter whose new value comes or goes as
    an output is donated, or not, as a consequence. A value that is read takes nobody's buffer.
    """
    findings = []
    kinds = {
        view.context.sync_kind == "value" for view in (case.a, case.b) if view.context.sync_kind
    }
    for change in case.diff.header:
        if change.field in BUFFER_FIELDS:
            findings += _buffer_findings(case, change) if len(kinds) < 2 else []
        elif change.field != ENTRY_LAYOUT and not _follows_mesh(case, change):
            findings.append(_field_finding(change))
    return findings


def _field_finding(change: HeaderChange) -> Finding:
    kind, title = FIELDS.get(change.field, (HEADER, f"the header field {change.field} differs"))
    return Finding(
        kind=SHARDING if "sharding" in change.field else kind,
        title=say(title),
        evidence=(Evidence(_both(change)),),
        proof=say("the comparison leaves the header out"),
    )


def _buffer_findings(case: Case, change: HeaderChange) -> list[Finding]:
    """Other parameters that give their buffers away, else others to which they give them."""
    kind, title = BUFFER_FIELDS[change.field]
    only_a = _other_parameters(case, case.a, case.b, change.field)
    only_b = _other_parameters(case, case.b, case.a, change.field)
    names = [_named_parameter(case.a, case.b, p) for p in only_a]
    names += [_named_parameter(case.b, case.a, q) for q in only_b]
    if not names:
        title = "parameters share their buffers with outputs in another way"
        names = _other_outputs(case, change) if kind is ALIAS else []
    if not names:
        return []
    a, b = case.diff.a, case.diff.b
    lines = where(a, [u for p in only_a for u in a.users[p]])
    lines = lines or where(b, [u for p in only_b for u in b.users[p]])
    copies = lone_copies(case)
    is_lost = lost_by_type(case.diff, [*only_a, *(case.b.partners[q] for q in only_b)])
    lost = say(
        f"{title}: ", join(names), ", as inputs of their dimensions come in another type, and no "
        "output of theirs is left for them"
    )  # fmt: skip
    return [
        Finding(
            kind=kind,
            title=say(f"{title}: ", join(names), at(lines)),
            evidence=(
                Evidence(lost if is_lost else _both(change), tuple(only_a), tuple(only_b), lines),
                *_copies_evidence(copies),
            ),
            fix=JAX_FIX if is_jitted(a) else say(),
            short=_donated(kind, len(only_a), len(only_b)) if is_jitted(a) else say(),
            short_fix=JAX_SHORT if is_jitted(a) else say(),
            proof=say(
                "the comparison leaves the header out",
                ", and copies were bypassed" if copies else "",
            ),
            a=copies.claimed_a,
            b=copies.claimed_b,
            undo=copies.skip,
        )
    ]


def _donated(kind: Kind, in_a: int, in_b: int) -> Message:
    """How many arguments of a jitted function one side alone donates."""
    if kind is ALIAS or bool(in_a) == bool(in_b):
        return EMPTY
    number = in_a or in_b
    are = "argument is" if number == 1 else "arguments are"
    return say(f"{number} {are} donated in ", A if in_a else B, " only")


def _both(change: HeaderChange) -> Message:
    old, new = (Quoted(text or "absent") for text in (change.a, change.b))
    return say(f"{change.field}: ", old, " -> ", new)


def _named_parameter(one: SideView, other: SideView, parameter: int) -> Message:
    """A parameter that only one side names, with its other number where it was moved."""
    number = other.module.payloads[one.partners[parameter]]
    moved = say(", which is ", other.side, f"'s {number}")
    is_moved = number != one.module.payloads[parameter]
    return say(
        parameter_name(one, parameter), " in ", one.side, " only", moved if is_moved else say()
    )


def _other_outputs(case: Case, change: HeaderChange) -> list[Message]:
    """Parameters that share a buffer on both sides, and with another output or in another way.

    Outputs of one side only may shift the others: nothing is said then. Nor where inputs of the
    same dimensions come in another type, whose new values take the buffers of others.
    """
    if _moving(case, case.a) or _moving(case, case.b):
        return []
    parameters, own = positions(case.diff.parameters)
    outputs, own_outputs = positions(case.diff.outputs)
    before = {b: a for a, b in outputs.items()}
    old = {(n, i): (out, kind) for out, n, i, kind in aliases(change.a, parameters, outputs)}
    new = {(n, i): (out, kind) for out, n, i, kind in aliases(change.b, own, own_outputs)}
    entry = case.diff.b.entry_computation
    retyped = retyped_dimensions(case.diff)
    found = []
    for key in sorted(old.keys() & new.keys()):
        if dimensions_of(bare_shape(case.diff.b, entry.parameters[key[0]])) in retyped:
            continue
        (place, kind), (new_place, new_kind) = old[key], new[key]
        if old[key] != new[key]:
            number = before[place[0]] if place else 0
            found.append(
                say(
                    parameter_name(case.b, entry.parameters[key[0]]),
                    f" with output {number} ({kind}) in ",
                    A,
                    f" and output {new_place[0] if new_place else 0} ({new_kind}) in ",
                    B,
                )
            )
    return found


def _copies_evidence(copies: Copies) -> tuple[Evidence, ...]:
    """The copies that keep a value from being overwritten in its buffer, if there are any."""
    if not copies:
        return ()
    text = f"{count(len(copies), 'copy', 'copies')} on one side only, to keep what is overwritten"
    return (Evidence(say(text), copies.a, copies.b),)


def _follows_mesh(case: Case, change: HeaderChange) -> bool:
    """Whether a field differs because the mesh does, which is a finding of its own."""
    old, new = mesh_of(case.diff.a), mesh_of(case.diff.b)
    if change.field == "num_partitions":
        return bool(old and new and old != new)
    is_frontend = change.field == "frontend_attributes"
    return is_frontend and without_shardy(change.a) == without_shardy(change.b)


def _other_parameters(case: Case, one: SideView, other: SideView, field: str) -> list[int]:
    """The parameters that this field names on one side and not for their partner.

    Not those whose new value is an output of one side only: of another type, it leaves a buffer
    without an output that is given away all the same.
    """
    named = _named(one.module, field)
    others = _named(other.module, field)
    only = [p for p in named if one.partners[p] >= 0 and one.partners[p] not in others]
    moving, theirs = (_updates(v.module, _moving(case, v)) if only else {} for v in (one, other))
    given = set(_named(other.module, "buffer_donor") + _named(other.module, "input_output_alias"))
    only = [p for p in only if not _is_updated(one.module, p, moving)]
    pairs = [(p, one.partners[p]) for p in only]
    return [p for p, q in pairs if q not in given or not _is_updated(other.module, q, theirs)]


def _updates(module: Module, values: Collection[int]) -> dict[str, bytearray]:
    """For each shape among `values`, what these values are computed from."""
    found: dict[str, bytearray] = {}
    for value in sorted(values):
        needed = found.setdefault(bare_shape(module, value), bytearray(len(module)))
        mark(module, needed, [value])
    return found


def _is_updated(module: Module, parameter: int, updates: Mapping[str, bytearray]) -> bool:
    """Whether one of the values may be the parameter's next one: it has its shape, and uses it."""
    needed = updates.get(bare_shape(module, parameter))
    return bool(needed and needed[parameter])


def _moving(case: Case, view: SideView) -> set[int]:
    """Values that are outputs of one side only, or were set aside with another cause."""
    return {view.module.outputs[k] for k in (*case.unpaired_outputs(view), *view.dropped)}


def _named(module: Module, field: str) -> list[int]:
    parameters = module.entry_computation.parameters
    numbers = {int(n) for n in _NUMBER.findall(module.header_fields.get(field, ""))}
    return [p for n, p in enumerate(parameters) if n in numbers]


RULE = Rule(
    name="header",
    kinds=(DONORS, ALIAS, REPLICA_COUNT, PARTITIONS, FRONTEND_ATTRIBUTES, HEADER),
    find=find,
    after=("second-input",),
    first_round_only=True,
    closes_round=True,
)
