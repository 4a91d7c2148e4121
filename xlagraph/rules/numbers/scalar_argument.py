"""Numbers that are a parameter on one side and constants on the other."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.editor import NO_ATTRIBUTES, is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.program.typed_scalars import sent_scalar
from xlagraph.facts.training.optimizers import is_optimizer_line
from xlagraph.facts.values.scalars import is_scalar_input
from xlagraph.message import Quoted, count, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

SPECIAL = frozenset({"0", "-0", "1", "-1"})
"""The Python numbers of which torch_xla makes constants (``IsSpecialScalar`` in its
``torch_xla/csrc/tensor_util.cpp``, seen with 2.9)."""
SPECIAL_SCALAR = Kind(
    id="special-scalar",
    title="A Python number is exactly 0, 1 or -1",
    section=Section.VALUES,
    meaning="torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others as "
    "parameters (pytorch/xla issue 4994). A learning rate that warms up to 1, a weight that decays "
    "to 0: the step in which it gets there has a graph of its own.",
    before="""\
for step, (x, y) in enumerate(loader):
    for group in optimizer.param_groups:
        group["lr"] = min(1.0, (step + 1) / 4)  # exactly 1 from step 3 on
    update(loss_fn(model(x), y))
""",
    after="""\
for step, (x, y) in enumerate(loader):
    for group in optimizer.param_groups:
        group["lr"] = min(0.9999999, (step + 1) / 4)
    update(loss_fn(model(x), y))
""",
    evidence="The parameter, the constants, and who uses them.",
    fix="Send the number in a tensor of one element, torch.tensor([value]).to(device)[0]: that is "
    "a parameter whatever its value. A tensor without dimensions, torch.tensor(value), is lowered "
    "like a number. Or keep the number away from exactly 0, 1 and -1 (a learning rate: clamp it a "
    "little above 0 and below 1).",
    proof="The constants become one parameter again.",
    examples=("lr_hits_one", "decay_hits_zero"),
    short="A Python number is 0, 1 or -1",
    short_fix="Send it in one element: torch.tensor([value]).to(device)[0].",
)
ZEROS = frozenset({"0", "-0"})
STATIC_ARGUMENT = Kind(
    id="static-argument",
    title="A number is an argument on one side and baked in on the other",
    section=Section.VALUES,
    meaning="The same number is traced in some calls and a Python number in others: "
    "static_argnums, a number closed over, a value fetched with .item() and used again. So is an "
    "array (a table of positions, a mask) that a jitted function takes in here and closes over "
    "there.",
    before="""\
step = jax.jit(train_step)
fast = jax.jit(train_step, static_argnames="scale")
""",
    after="""\
step = jax.jit(train_step)  # scale is an array in every call
""",
    evidence="The parameter, the constants, and who uses them.",
    fix="Give the number in the same way in every step: as a tensor (an argument that is traced) "
    "rather than as a Python number (static_argnums, a number closed over, .item()).",
    proof="The constants become one parameter again.",
    examples=("static_number",),
    short="A number is baked into one graph only",
    short_fix="Pass the number as a tensor in every step.",
)
_RATE = Words(
    say(
        "A number that an optimizer is given stays a Python number: keep a learning rate a little "
        "away from exactly 0, 1 and -1, such as between 1e-5 and 0.9999. Numbers computed from it "
        "count, too: one minus rate times weight decay must not round to 1."
    ),
    short_fix=say("Keep a learning rate a little off 0, 1 and -1."),
)
RATE_OF_ZERO = "A number of the optimizer (the learning rate, most likely) is 0 in "
DECAY_OF_ONE = "1 - lr * weight_decay rounds to 1 in some steps"
_ENDED = Words(
    say(
        "A learning rate of 0 changes no weight, and is a constant of the graph. Where it is 0 for "
        "good, the schedule has fewer steps than the loop (a number of steps that is divided by "
        "the accumulation, say): give it as many. Where a warm-up begins or a schedule ends, let "
        "it do so a little above 0 (start_factor, eta_min)."
    ),
    short_fix=say("Give the schedule as many steps as the loop, and end it above 0."),
)
_DECAY = Words(
    say(
        "The optimizer multiplies its weights by 1 - lr * weight_decay, which rounds to 1 where "
        "the learning rate comes near to 0, as at the end of a schedule. Let the schedule end a "
        "little higher (eta_min, a lower final_div_factor), or send the rate as a tensor."
    ),
    say(DECAY_OF_ONE),
    say("End the schedule a little above 0, or give the learning rate as a tensor."),
)
_MODULE = "torch/nn/modules/module.py"
_COUNT = Words(
    say(
        "An optimizer counts here, and a count is 0 or 1 but once: expected as it begins. A tensor "
        "without dimensions that is on the host is lowered like a Python number, too."
    ),
    say("An optimizer's count is 0 or 1 as it begins"),
    say("Expected once; nothing to change where it only counts up."),
)
_WEIGHT = Words(
    say(
        "A weight without dimensions is lowered like a Python number when it is sent, and as data "
        "once it is trained: expected in the first steps. To save the compile, call "
        "torch_xla.sync() behind model.to(device)."
    ),
    say("A weight without dimensions begins as 0 or 1"),
    say("Expected once; torch_xla.sync() behind model.to(device) saves it."),
)
_CORRECTION = Words(
    say(
        "The optimizer divides by a correction for its first steps that rounds to 1 at last, and "
        "stays so: one compile, and nothing is wrong. With capturable=True, and the learning rate "
        "as a tensor on the device, it is computed there."
    ),
    say("Adam's correction of its first steps rounds to 1"),
    say("None needed: it stays 1. With capturable=True the device computes it."),
)


def special_words(
    case: Case, lines: Sequence[SourceLine], users: Sequence[tuple[int, int]]
) -> Words:
    """What to do about numbers that are special now and then, in the program's own statement.

    Args:
        case: the two modules.
        lines: where the numbers are used.
        users: the instructions of both modules that take them.
    """
    module = case.diff.a
    if not lines and all(_corrects(module, user) for x, _ in users for user in _applied(module, x)):
        return _CORRECTION
    if lines and is_optimizer_line(lines[0]):
        used = {user for x, _ in users for user in _applied(module, x)}
        if any(_scales_weight(module, i) for i in used):
            return _DECAY
        divides = all(module.opcodes[i] == "divide" for i in used)
        return _CORRECTION if divides and _is_adam(lines[0]) else _RATE
    typed = sent_scalar(case, lines, [y for _, y in users])
    if typed is None:
        return Words()
    return Words(say(typed, "Or keep the number away from exactly 0, 1 and -1."), short_fix=typed)


def _applied(module: Module, i: int) -> Iterator[int]:
    """What computes with a number that an instruction takes in: itself, or what it is spread to."""
    front = [i]
    for one in front:  # grows while it is read
        if module.opcodes[one] in ("broadcast", "convert", "reshape"):
            front += module.users[one]
        else:
            yield one


def _scales_weight(module: Module, i: int) -> bool:
    """Whether an input is multiplied as it is, as weights are that decay on their own."""
    return module.opcodes[i] == "multiply" and any(
        is_input(module, o) and not module.shapes[o].endswith("[]") for o in module.operands[i]
    )


def _corrects(module: Module, i: int) -> bool:
    """Whether the root of an average is divided by a number, as Adam's is in its first steps.

    The average is given back as well: it is the optimizer's state.
    """
    if module.opcodes[i] != "divide":
        return False
    root = module.operands[i][0]
    return module.opcodes[root] == "sqrt" and module.operands[root][0] in module.outputs


def _is_adam(line: SourceLine) -> bool:
    return any("adam" in one.file for one in (line, line.called) if one)


def find(case: Case) -> list[Finding]:
    """A number is a parameter on one side and constants on the other.

    torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others as parameters;
    any other value was baked in by the program.
    """
    return _findings(case, case.a, case.b) or _findings(case, case.b, case.a)


def _findings(case: Case, taker: SideView, baked: SideView) -> list[Finding]:
    """`taker` has the parameter, `baked` the constants."""
    uses: dict[tuple[int, str], set[int]] = defaultdict(set)
    changed: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    a, b = case.diff.a, case.diff.b
    for pair in case.changed_alone("operands"):
        below_a, below_b = a.operands[pair[0]], b.operands[pair[1]]
        if len(below_a) != len(below_b):
            continue
        for operands in zip(below_a, below_b, strict=True):
            scalar, literal = taker.mine(operands), baked.mine(operands)
            if (
                is_scalar_input(taker.module, scalar)
                and baked.module.opcodes[literal] == "constant"
                and taker.module.shapes[scalar] == baked.module.shapes[literal]
            ):
                key = (scalar, baked.module.payloads[literal])
                uses[key].add(literal)
                changed[key].append(pair)
    return [
        _finding(case, taker, key[0], literals, changed[key])
        for key, literals in sorted(uses.items())
    ]


def _finding(
    case: Case,
    taker: SideView,
    scalar: int,
    literals: set[int],
    changed: list[tuple[int, int]],
) -> Finding:
    baked = case.b if taker.is_a else case.a
    value = baked.module.payloads[min(literals)]
    users = {j for i in literals for j in baked.module.users[i]}
    lines = where(baked.module, literals) or where(baked.module, users)
    name = parameter_name(taker, scalar)
    is_float = not taker.module.shapes[scalar].startswith(("s", "u", "pred"))
    if is_float and lines and is_optimizer_line(lines[0]):
        name = say(name, " (a number of the optimizer, most often the learning rate)")
    became = (
        say(name, " became the constant ", Quoted(value))
        if taker.is_a
        else say("the constant ", Quoted(value), " became ", name)
    )
    used, is_special = f", used by {count(len(changed), 'instruction')}", value in SPECIAL
    numbers_a, numbers_b = taker.ab({scalar}, literals)
    is_count = not is_float and bool(lines) and is_optimizer_line(lines[0])
    words = special_words(case, lines, changed) if is_special else Words()
    is_weight = is_special and baked.is_a and any(map(_sends_a_module, lines))
    if is_special and (is_count or is_weight):
        words = _WEIGHT if is_weight else _COUNT
    if words is _RATE and value in ZEROS:
        words = _ENDED._replace(short=say(RATE_OF_ZERO, baked.side, ", whose step trains nothing"))
    own_a = frozenset({x for x, _ in changed} | numbers_a)
    own_b = frozenset({y for _, y in changed} | numbers_b)

    def undo(edit: Editors) -> None:
        edit[taker.side].attributes[scalar] = NO_ATTRIBUTES  # a sharding: a constant has none
        edit[baked.side].become_parameter(literals, taker.module.shapes[scalar])

    return Finding(
        kind=SPECIAL_SCALAR if is_special else STATIC_ARGUMENT,
        title=say(
            "a Python number took a special value: "
            if is_special
            else "a number is an argument on one side and baked in on the other: ",
            became,
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    "torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others "
                    "as parameters; here "
                    if is_special
                    else "",
                    became,
                    used,
                ),
                tuple(own_a),
                tuple(own_b),
                lines,
            ),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        proof=say("the constants were turned back into one parameter"),
        a=own_a,
        b=own_b,
        undo=undo,
        expected=is_special and baked.is_a and (not is_float or is_weight),
    )


def _sends_a_module(line: SourceLine) -> bool:
    """Whether ``module.to(device)`` is called there."""
    called = line.called
    return called is not None and called.function == "convert" and _MODULE in called.file


RULE = Rule(
    name="scalar-argument",
    kinds=(SPECIAL_SCALAR, STATIC_ARGUMENT),
    find=find,
    after=("initial-state",),
)
