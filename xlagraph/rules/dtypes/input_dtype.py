"""An input of one type on one side, and of another type, converted at once, on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, statement, where
from xlagraph.facts.pieces.casts import inputs_in_short
from xlagraph.facts.pieces.pieces import open_edges
from xlagraph.facts.program.arguments import argument_name
from xlagraph.facts.program.typed_numbers import typed_cast
from xlagraph.facts.program.written import lines_in_words
from xlagraph.message import Change, Code, Listing, count, join, say
from xlagraph.rules.dtypes.dtype import (
    DTYPE,
    FROM_VALUES,
    brings,
    changes_family,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Message, SourceLine

TORCH = {
    "f64": "torch.float64",
    "f32": "torch.float32",
    "f16": "torch.float16",
    "bf16": "torch.bfloat16",
    "s64": "torch.int64",
    "s32": "torch.int32",
}

STATE_FIX = say(
    "In JAX a Python number has no type of its own and takes that of the array that it meets; the "
    "new value that the step gives back for it has that type, and the next call takes it in. Begin "
    "with an array of the type that is meant, ",
    Code("jnp.asarray(1.0, dtype=jnp.float32)"),
    ", and cast the new value to it: ",
    Code("new.astype(old.dtype)"),
    ".",
)
STATE_SHORT_FIX = say("Begin with an array, jnp.float32(value), in place of a Python number.")


def find(case: Case) -> list[Finding]:
    """Inputs that one side uses as they come and the other only once they are converted."""
    found = []
    for plain, typed in case.both_ways:
        inputs = _inputs(case, plain, typed)
        if inputs:
            found.append(finding_of(case, Converted(plain, typed, inputs)))
    return found


def _inputs(case: Case, plain: SideView, typed: SideView) -> dict[int, int]:
    """For inputs that `typed` does nothing with but convert them, those that `plain` has instead.

    Neither has a partner of its own, nor two names.
    """
    module = typed.module
    found: dict[int, set[int]] = {}
    for edge in open_edges(case):
        one, cast = edge.value(plain), edge.value(typed)
        if module.opcodes[cast] != "convert" or not is_input(plain.module, one):
            continue
        (source,) = module.operands[cast]
        if (
            is_input(module, source)
            and max(plain.partners[one], typed.partners[source], typed.partners[cast]) < 0
            and _dimensions(plain, one) == _dimensions(typed, source)
            and not are_two(plain, one, typed, source)
        ):
            found.setdefault(source, set()).add(one)
    return {
        source: ones.pop()
        for source, ones in found.items()
        if len(ones) == 1
        and all(
            module.opcodes[user] == "convert"
            and bare_shape(module, user) == bare_shape(plain.module, next(iter(ones)))
            for user in module.users[source]
        )
    }


def _dimensions(view: SideView, i: int) -> str:
    return bare_shape(view.module, i).partition("[")[2]


def are_two(plain: SideView, one: int, typed: SideView, source: int) -> bool:
    """Whether the capture tells that they are two tensors."""
    first, second = plain.input_tensor(one), typed.input_tensor(source)
    return first is not None and second is not None and first != second


class Converted(NamedTuple):
    """Inputs that one side converts, and the other takes in as the type that they get."""

    plain: SideView
    typed: SideView
    inputs: Mapping[int, int]
    """The converted inputs of `typed` to those that `plain` has instead."""

    @property
    def casts(self) -> set[int]:
        """The conversions."""
        return {user for source in self.inputs for user in self.typed.module.users[source]}

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """Where the inputs are made, else where they are converted."""
        module = self.typed.module
        own = where(module, self.inputs) or where(self.plain.module, self.inputs.values())
        return own or where(module, self.casts)

    @property
    def claimed(self) -> tuple[frozenset[int], frozenset[int]]:
        """The instructions of A and of B that are accounted for."""
        own = frozenset({*self.inputs, *self.casts})
        return self.plain.ab(frozenset(self.inputs.values()), own)

    @property
    def types(self) -> list[tuple[str, str]]:
        """The types in A and in B, each pair once."""
        pairs = ((dtype_of(self.plain, p), dtype_of(self.typed, q)) for q, p in self.inputs.items())
        return list(dict.fromkeys(self.plain.ab(*pair) for pair in pairs))

    @property
    def words(self) -> Message:
        """Which inputs one side converts, and what the other one takes in."""
        return say(
            self.typed.side,
            " converts ",
            join(parameter_name(self.typed, source) for source in self.inputs),
            ", where ",
            self.plain.side,
            " takes in ",
            join(parameter_name(self.plain, one) for one in self.inputs.values()),
        )

    @property
    def shapes(self) -> list[str]:
        """Those of the inputs as they come in where nothing is converted."""
        return [short_shape(self.plain.module, i) for i in self.inputs.values()]

    @property
    def name(self) -> str:
        """What JAX calls the first of them."""
        return argument_name(self.typed.module, min(self.inputs))

    @property
    def evidence(self) -> Evidence:
        """That both sides do the same with them."""
        is_one = len(self.inputs) == 1
        text = say(
            self.plain.side,
            f" uses {'it' if is_one else 'them'} as ",
            self.typed.side,
            f" uses what it converts; {'both have' if is_one else 'they have'} the same dimensions",
        )
        a, b = self.claimed
        return Evidence(text, tuple(sorted(a)), tuple(sorted(b)), self.lines)

    @property
    def proof(self) -> Message:
        """What undoing does."""
        given = say("the inputs of ", self.typed.side, " were given the types of those of ")
        return say(given, self.plain.side, ", and the conversions left out")

    def undo(self, edit: Editors) -> None:
        """Gives the inputs the types that they are converted to."""
        for source, one in self.inputs.items():
            edit[self.typed.side].shapes[source] = edit[self.plain.side].shapes[one]
        edit[self.typed.side].bypass(self.casts)


def finding_of(case: Case, *groups: Converted, more: tuple[Evidence, ...] = ()) -> Finding:
    """One finding for inputs that are converted on one side, or some here and some there."""
    types = list(dict.fromkeys(pair for group in groups for pair in group.types))
    words = FROM_VALUES if any(map(changes_family, types)) else _cast(groups, case)
    words = _of_state(groups) or words
    number = sum(len(group.inputs) for group in groups)
    shapes = [shape for group in groups for shape in group.shapes]

    def undo(edit: Editors) -> None:
        for group in groups:
            group.undo(edit)

    return Finding(
        kind=DTYPE,
        title=say(
            "an input has" if number == 1 else f"{count(number, 'input')} have",
            " another dtype (",
            join(Change(old, new) for old, new in types),
            "): ",
            join((group.words for group in groups), len(groups), "; "),
            at(groups[0].lines),
        ),
        evidence=(*(group.evidence for group in groups), *more),
        fix=words.fix,
        short=words.short or inputs_in_short(shapes, types, groups[0].name),
        short_fix=words.short_fix,
        proof=join((group.proof for group in groups), len(groups), "; "),
        a=frozenset[int]().union(*(group.claimed[0] for group in groups)),
        b=frozenset[int]().union(*(group.claimed[1] for group in groups)),
        undo=undo,
        brings=brings,
    )


def _wanted(groups: Iterable[Converted]) -> str:
    """The type, as torch writes it, that all are converted to, ``""`` for none or several."""
    types = {dtype_of(group.plain, one) for group in groups for one in group.inputs.values()}
    return TORCH.get(types.pop(), "") if len(types) == 1 else ""


def _of_state(groups: Sequence[Converted]) -> Words | None:
    """What is said of a Python number that a step of JAX's gives back as it has used it."""
    if len(groups) != 1 or len(groups[0].inputs) != 1 or not groups[0].name:
        return None
    group = groups[0]
    ((source, one),) = group.inputs.items()
    module, wanted = group.typed.module, bare_shape(group.plain.module, one)
    given = {bare_shape(module, value) for value in module.outputs}
    taken = {bare_shape(module, p) for p in module.entry_computation.parameters}
    if not wanted.endswith("[]") or wanted not in given - taken:
        return None
    old, new = dtype_of(group.typed, source), dtype_of(group.plain, one)
    short = say(
        "Argument ", Code(group.name), f" comes as {old} in ", group.typed.side,
        f", as a Python number does, and as {new} in ", group.plain.side, ", as the step gives it "
        "back",
    )  # fmt: skip
    return Words(STATE_FIX, short, STATE_SHORT_FIX)


def _cast(groups: Sequence[Converted], case: Case) -> Words:
    """What to change where the values do not decide about the type."""
    wanted = _wanted(groups)
    if not wanted:
        return Words()
    short = say("Convert that input before it is sent: ", Code(f".to({wanted})"))
    line = statement(groups[0].lines)
    if line and sum(len(group.inputs) for group in groups) == 1:
        typed = typed_cast(case.program(line), line.line, wanted)
        if typed:
            where_ = lines_in_words(typed.first, typed.last)
            short = say(f"Replace {where_}, to send it as one dtype:", Listing(typed.code))
    return Words(
        say(
            "Convert what comes in another dtype on the host, before it is sent: ",
            Code(f"x = x.to({wanted})"),
            ", or where numpy makes it (its own floats are float64, and a quotient of whole "
            "numbers is one). Convert that input alone: labels and ids keep their dtype.",
        ),
        short_fix=short,
    )


def dtype_of(view: SideView, i: int) -> str:
    """What the elements of an array are, such as ``f32``."""
    return bare_shape(view.module, i).partition("[")[0]


RULE = Rule(
    name="input-dtype",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("dtype",),
    rematches=True,
)
