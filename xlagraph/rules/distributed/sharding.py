"""Tensors sharded in another way: annotations, constraints, the mesh itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.spelling import split_list
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import differing_keys, parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.distributed.shardings import mesh_of, sharding_text, without_shardy
from xlagraph.facts.training.updates import elementwise, formula, updates
from xlagraph.message import A, B, HloName, Quoted, count, join, say
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Attributes, Module
    from xlagraph.message import Message, SourceLine

SHARDING = Kind(
    id="sharding",
    title="Tensors are sharded in another way",
    section=Section.COLLECTIVES,
    meaning="Under SPMD every tensor may say how it is divided over the mesh. An annotation that "
    "comes, goes or changes is part of the graph, and XLA then inserts other collectives.",
    before="""\
for p in model.parameters():
    xs.mark_sharding(p, mesh, (None,) * p.dim())
for step, (x, y) in enumerate(loader):
    hidden = torch.relu(model[0](x))
    xs.mark_sharding(hidden, mesh, ("data", None) if step % 4 != 3 else (None, "model"))
    update(model[2](hidden).pow(2).mean())
""",
    after="""\
for p in model.parameters():
    xs.mark_sharding(p, mesh, (None,) * p.dim())
for x, y in loader:
    hidden = torch.relu(model[0](x))
    xs.mark_sharding(hidden, mesh, ("data", None))
    update(model[2](hidden).pow(2).mean())
""",
    evidence="The tensors with both shardings, by the names of the mesh's axes if these are known.",
    fix="Give the tensors the same sharding in every step.",
    proof="A's tensors get B's shardings; constraints that one side alone has are bypassed.",
    examples=("sharding_toggle", "sharding_in", "sharding_constraint", "sharding_dropped"),
)
MESH = Kind(
    id="mesh",
    title="The device mesh is another one",
    section=Section.COLLECTIVES,
    meaning="The tensors are sharded over axes of the same names, but the mesh behind the names "
    "has another shape or order of axes, so that every tensor is divided otherwise.",
    before="""\
mesh = jax.make_mesh((2, 2), ("data", "model"))
...
mesh = jax.make_mesh((4, 1), ("data", "model"))  # made again, for the second phase
""",
    after="""\
MESH = jax.make_mesh((2, 2), ("data", "model"))  # made once
""",
    evidence="Both meshes, and the tensors that are sharded over them.",
    fix="Make the mesh once, and keep its shape and the names of its axes in every step.",
    proof="A's tensors get B's shardings; the comparison leaves the header out.",
    examples=("mesh_axis_order", "partitions"),
    short_fix="Make the device mesh once, and keep its shape.",
)
KEPT_FIX = say(
    "Expected once under SPMD, in the second step: the tensors that the first one updated have got "
    "shardings from XLA. To save the compile, give the parameters theirs (mark_sharding) and call "
    "torch_xla.sync() before the loop."
)
LOST_FIX = say(
    "A tensor keeps its annotation only as long as it is the same one: call xs.mark_sharding again "
    "wherever new data is put into a parameter (p.data = ..., a head that is reset, weights that "
    "are loaded). Which line did that stands in no graph; it ran before this step."
)
_WHOLE = ("not sharded", "{replicated}")
"""A tensor of which every device has all."""
_KEYS = frozenset({"sharding", "frontend_attributes"})
_COMMENT = re.compile(r"/\*.*?\*/")


def find(case: Case) -> list[Finding]:
    """Tensors sharded in another way; a mesh that differs comes first and takes what follows."""
    pairs = {
        x: y
        for x, y in case.changed_alone("attributes")
        if _differ_in_sharding(*_attributes(case, x, y))
    }
    old, new = mesh_of(case.diff.a), mesh_of(case.diff.b)
    findings = []
    if old and new and old != new:
        follows = {x: y for x, y in pairs.items() if _follows_mesh(*_attributes(case, x, y))}
        findings.append(_mesh_finding(case, old, new, follows))
        pairs = {x: y for x, y in pairs.items() if x not in follows}
    if pairs:
        findings.append(_annotation_finding(case, pairs))
    return findings + [f for view in (case.a, case.b) for f in _constraints(view)]


def _attributes(case: Case, x: int, y: int) -> tuple[Attributes, Attributes]:
    return case.diff.a.attributes[x], case.diff.b.attributes[y]


def _differ_in_sharding(first: Attributes, second: Attributes) -> bool:
    keys = differing_keys(first, second)
    rest = [without_shardy(one.get("frontend_attributes") or "") for one in (first, second)]
    return bool(keys) and keys <= _KEYS and rest[0] == rest[1]


def _follows_mesh(first: Attributes, second: Attributes) -> bool:
    """Whether the axes are named alike, so that only the mesh behind the names differs."""
    return first.get("frontend_attributes") == second.get("frontend_attributes") is not None


def _with_sharding(first: Attributes, second: Attributes) -> Attributes:
    kept = tuple((k, v) for k, v in first.items if k not in _KEYS)
    return replace(first, items=kept + tuple((k, v) for k, v in second.items if k in _KEYS))


def _named(case: Case, x: int, y: int) -> Message:
    old, new = (sharding_text(attributes) for attributes in _attributes(case, x, y))
    b = case.diff.b
    if y in b.entry_computation.parameters:
        name = parameter_name(case.b, y)
    else:
        name = say(HloName(b.names[y], b.opcodes[y]), f" ({short_shape(b, y)})")
    return say(name, " ", Quoted(old), " -> ", Quoted(new))


def _lines(module: Module, instructions: Mapping[int, int]) -> tuple[SourceLine, ...]:
    """Where annotated values are made, or, for parameters without a line, used."""
    found = instructions.values()
    return where(module, found) or where(module, [u for i in found for u in module.users[i]])


def _mesh_finding(case: Case, old: str, new: str, pairs: Mapping[int, int]) -> Finding:
    lines = _lines(case.diff.b, pairs)
    return Finding(
        kind=MESH,
        title=say(
            "the device mesh is another one: (",
            Quoted(old),
            ") became (",
            Quoted(new),
            ")",
            at(lines),
        ),
        evidence=(
            Evidence(say("mesh in the header: (", Quoted(old), ") -> (", Quoted(new), ")")),
            Evidence(
                say(f"{count(len(pairs), 'tensor')} sharded over axes of the same names"),
                tuple(pairs),
                tuple(pairs.values()),
                lines,
            ),
        ),
        proof=say(
            A, "'s tensors were given ", B, "'s shardings; the comparison leaves the header out"
        ),
        a=frozenset(pairs),
        b=frozenset(pairs.values()),
        undo=_undo(pairs),
    )


def _annotation_finding(case: Case, pairs: Mapping[int, int]) -> Finding:
    renewed = updates(case.diff.a)
    first = {x: y for x, y in pairs.items() if _is_divided_in_both(case, x, y)}
    follow = {x: y for x, y in pairs.items() if x not in first} if first else {}
    told = first or pairs
    inputs = {x: y for x, y in told.items() if is_input(case.diff.a, x)}
    lines = _lines(case.diff.b, inputs or told)
    changes = [_named(case, x, y) for x, y in (*told.items(), *follow.items())]
    is_xlas_choice = all(
        is_input(case.diff.a, x)
        and x in renewed
        and case.diff.a.attributes[x].get("sharding") == "{replicated}"
        for x in pairs
    )
    is_lost = all(_is_lost(case, x, y) for x, y in pairs.items())
    number = count(len(told), "tensor")
    how = "of the model no longer sharded" if is_lost else "sharded in another way"
    listed = join(changes[: len(told)], 2)
    short = say("A weight has lost its sharding") if is_lost else say()
    short = _in_short(case, told) if follow else short
    return Finding(
        kind=SHARDING,
        title=say(f"{number} {how}: ", listed, at(lines), _may_follow(len(follow))),
        evidence=(Evidence(join(changes, 8), tuple(pairs), tuple(pairs.values()), lines),),
        fix=KEPT_FIX if is_xlas_choice else LOST_FIX if is_lost else say(),
        short=short,
        short_fix=say("Call xs.mark_sharding again where the weight is replaced.")
        if is_lost
        else say(),
        expected=is_xlas_choice,
        proof=say(A, "'s tensors were given ", B, "'s shardings"),
        a=frozenset(pairs),
        b=frozenset(pairs.values()),
        undo=_undo(pairs),
    )


def _is_divided_in_both(case: Case, x: int, y: int) -> bool:
    """Whether both sides divide a tensor over devices: somebody has, where the other is XLA's."""
    return not any(sharding_text(one) in _WHOLE for one in _attributes(case, x, y))


def _may_follow(number: int) -> Message:
    """What is said of tensors that one side leaves whole, beside others that both divide."""
    if not number:
        return say()
    return say(
        f"; {number:,} more {'is' if number == 1 else 'are'} whole on one side and divided on the "
        "other, as XLA may choose where no annotation is given"
    )


def _in_short(case: Case, pairs: Mapping[int, int]) -> Message:
    """From what to what, where that is the same of all of these; empty where it is not."""
    texts = {tuple(map(sharding_text, _attributes(case, x, y))) for x, y in pairs.items()}
    if len(texts) != 1:
        return say()
    ((old, new),) = texts
    return say(f"{SHARDING.title}: ", Quoted(old), " became ", Quoted(new))


def _is_lost(case: Case, x: int, y: int) -> bool:
    """Whether a weight that was divided over devices no longer is."""
    old, new = (sharding_text(attributes) for attributes in _attributes(case, x, y))
    is_weight = _is_weight(case.a, x) or _is_weight(case.b, y)
    return is_weight and old not in _WHOLE and new in _WHOLE


def _is_weight(view: SideView, i: int) -> bool:
    """Whether an input is known for a parameter of the model, or is one that the graph updates."""
    tensor = view.input_tensor(i) if is_input(view.module, i) else None
    return i in updates(view.module) or (tensor is not None and tensor.role is Role.PARAMETER)


def _undo(pairs: Mapping[int, int]) -> Callable[[Editors], None]:
    """Gives A's tensors B's shardings, and the tuple of outputs, where it lists those of them."""

    def undo(edit: Editors) -> None:
        listed = _root_pair(edit.a.module, edit.b.module, pairs)
        for x, y in (*pairs.items(), *listed):
            edit.a.attributes[x] = _with_sharding(edit.a.attributes[x], edit.b.attributes[y])

    return undo


def _root_pair(a: Module, b: Module, pairs: Mapping[int, int]) -> list[tuple[int, int]]:
    """The tuples of outputs, if the shardings they list differ for outputs among `pairs` alone."""
    x, y = a.entry_computation.root, b.entry_computation.root
    if not (a.gives_tuple and b.gives_tuple):
        return []
    old, new = (_listed(one.attributes[i]) for one, i in ((a, x), (b, y)))
    if old == new or not len(old) == len(new) == len(a.outputs) == len(b.outputs):
        return []
    rows = zip(a.outputs, b.outputs, old, new, strict=True)
    return [(x, y)] if all(s == t or pairs.get(i) == j for i, j, s, t in rows) else []


def _listed(attributes: Attributes) -> list[str]:
    """The shardings of a tuple's elements: ``{{replicated}, {devices=[2,1]0,1}}``."""
    text = _COMMENT.sub("", attributes.get("sharding") or "")
    return [one.strip() for one in split_list(text[1:-1], ",")]


def _constraints(view: SideView) -> list[Finding]:
    """Sharding constraints that stand on one side only, on what both have."""
    module, partners, side = view.module, view.partners, view.side
    root = module.entry_computation.root
    found = [
        i
        for i in view.open_lone()
        if _is_constraint(module, i)
        and any(partners[n] >= 0 for n in (*module.operands[i], *module.users[i]) if n != root)
    ]
    if not found:
        return []
    lines = where(module, found)
    names = join(
        say(f"{short_shape(module, i)} ", Quoted(sharding_text(module.attributes[i])))
        for i in found
    )
    cited_a, cited_b = view.ab(tuple(found), ())

    def undo(edit: Editors) -> None:
        edit[side].bypass(found)

    kept = not view.is_a and all(_keeps_sharding(module, i) for i in found)
    return [
        Finding(
            kind=SHARDING,
            title=say(
                f"{count(len(found), 'sharding constraint')} in ", side, " only: ", names, at(lines)
            ),
            evidence=(Evidence(say(side, " pins ", names), cited_a, cited_b, lines),),
            fix=KEPT_FIX if kept else say(),
            expected=kept,
            proof=say("the constraints of ", side, " were bypassed"),
            a=frozenset(cited_a),
            b=frozenset(cited_b),
            undo=undo,
        )
    ]


def _keeps_sharding(module: Module, i: int) -> bool:
    """Whether a constraint gives a tensor's new value the sharding that the tensor came with.

    Once XLA has sharded a tensor, torch_xla pins what each later operation in place makes of it.
    """
    sharding = module.attributes[i].get("sharding")
    return any(
        is_input(module, p)
        and module.shapes[p] == module.shapes[i]
        and module.attributes[p].get("sharding") == sharding
        for p in formula(module, i, _past_constraints)
    )


def _past_constraints(module: Module, i: int) -> Sequence[int]:
    return module.operands[i] if _is_constraint(module, i) else elementwise(module, i)


def _is_constraint(module: Module, i: int) -> bool:
    target = module.attributes[i].get("custom_call_target")
    return module.opcodes[i] == "custom-call" and target == '"Sharding"'


RULE = Rule(
    name="sharding",
    kinds=(SHARDING, MESH),
    find=find,
    after=("loop-carry",),
    first_round_only=True,
    rematches=True,
)
