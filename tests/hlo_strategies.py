"""Hypothesis strategies that write HLO modules: valid ones in any dialect, and broken ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

VECTOR, SCALAR = "f32[4]{0}", "f32[]"
UNARY = ("negate", "abs", "cosine", "exponential")
BINARY = ("add", "multiply", "maximum", "subtract")
NAMES = st.from_regex(r"[A-Za-z][A-Za-z]{0,3}_[a-z0-9]{0,3}(\.[0-9]{1,3})?", fullmatch=True)
"""With an underscore, so that no name is a keyword or a type of XLA's."""
STRINGS = st.text(st.sampled_from("ab{}()[],= /*%\\\"'\n"), max_size=8)


@dataclass(slots=True)
class Instruction:
    """One instruction; operands are positions in its computation."""

    name: str
    opcode: str
    shape: str
    operands: tuple[int, ...] = ()
    payload: str | None = None
    attributes: tuple[str, ...] = ()
    callees: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Computation:
    """A computation, before it is written in a dialect."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of_shape(self, shape: str) -> list[int]:
        """Positions of the instructions with a shape."""
        return [at for at, item in enumerate(self.instructions) if item.shape == shape]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a module is written."""

    sigils: bool = True
    operand_shapes: bool = True
    signatures: bool = True
    comments: bool = False
    line_end: str = "\n"
    header: bool = True
    indent: str = "  "


DIALECTS = st.builds(
    Dialect,
    sigils=st.booleans(),
    operand_shapes=st.booleans(),
    signatures=st.booleans(),
    comments=st.booleans(),
    line_end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    indent=st.sampled_from(["", "  ", "\t"]),
)


@st.composite
def computations(
    draw: st.DrawFn, *, max_instructions: int = 10, runnable: bool = False
) -> list[Computation]:
    """The computations of a module, callees first, the entry last.

    `runnable` ones have no custom calls.
    """
    names = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    made = [_reducer(names[0])]
    for name in names[1:]:
        made.append(_computation(draw, name, made, max_instructions, runnable=runnable))
    return made


@st.composite
def modules(draw: st.DrawFn, *, max_instructions: int = 10) -> str:
    """The text of a valid module in any dialect."""
    return write(draw(computations(max_instructions=max_instructions)), draw(DIALECTS))


@st.composite
def broken_modules(draw: st.DrawFn) -> str:
    """The text of a module after a few random edits; mostly not valid any more."""
    text = draw(modules(max_instructions=5))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 8)))
        piece = draw(st.text(st.sampled_from("{}()[],=%\"'/*#<> \n0aR.-"), max_size=4))
        text = text[:start] + piece + text[stop:]
    return text


def write(made: list[Computation], dialect: Dialect) -> str:
    """A module in a dialect."""
    lines = ["HloModule written", ""] if dialect.header else []
    for computation in made:
        entry = "ENTRY " if computation is made[-1] else ""
        lines += [f"{entry}{_head(computation, dialect)} {{"]
        for at, instruction in enumerate(computation.instructions):
            root = "ROOT " if at == len(computation.instructions) - 1 else ""
            text = _written(computation, instruction, made, dialect)
            lines.append(f"{dialect.indent}{root}{text}")
        lines += ["} // " + computation.name if dialect.comments else "}", ""]
    return dialect.line_end.join(lines)


def _head(computation: Computation, dialect: Dialect) -> str:
    name = ("%" if dialect.sigils else "") + computation.name
    if not dialect.signatures:
        return name
    taken = [i for i in computation.instructions if i.opcode == "parameter"]
    taken.sort(key=lambda item: int(item.payload or 0))
    parameters = ", ".join(f"{item.name}: {item.shape.removesuffix('{0}')}" for item in taken)
    return f"{name} ({parameters}) -> {computation.instructions[-1].shape}"


def _written(
    computation: Computation, item: Instruction, made: list[Computation], dialect: Dialect
) -> str:
    sigil = "%" if dialect.sigils else ""
    arguments = item.payload
    if arguments is None:
        parts = []
        for at, operand in enumerate(item.operands):
            used = computation.instructions[operand]
            shape = f"{used.shape} " if dialect.operand_shapes else ""
            comment = f"/*index={at}*/" if dialect.comments and at else ""
            parts.append(f"{comment}{shape}{sigil}{used.name}")
        arguments = ", ".join(parts)
    calls = tuple(f"{key}={sigil}{made[callee].name}" for key, callee in item.callees)
    attributes = "".join(f", {text}" for text in (*item.attributes, *calls))
    return f"{sigil}{item.name} = {item.shape} {item.opcode}({arguments}){attributes}"


def _reducer(name: str) -> Computation:
    parameters = [Instruction(f"x{at}", "parameter", SCALAR, (), str(at)) for at in range(2)]
    return Computation(name, [*parameters, Instruction("sum", "add", SCALAR, (0, 1))])


def _computation(
    draw: st.DrawFn, name: str, made: list[Computation], max_instructions: int, *, runnable: bool
) -> Computation:
    """One vector parameter at least, so that every later computation can call it."""
    computation = Computation(name)
    count = draw(st.integers(1, max_instructions))
    names = st.lists(
        NAMES,
        min_size=count + 2,
        max_size=count + 2,
        unique=True,
    )
    parameter, *rest, last = draw(names)
    computation.instructions.append(Instruction(parameter, "parameter", VECTOR, (), "0"))
    for instruction_name in rest:
        instruction = _instruction(draw, instruction_name, computation, made, runnable=runnable)
        computation.instructions.append(instruction)
    source = draw(st.sampled_from(computation.of_shape(VECTOR)))
    computation.instructions.append(Instruction(last, "negate", VECTOR, (source,)))
    return computation


def _instruction(
    draw: st.DrawFn,
    name: str,
    computation: Computation,
    made: list[Computation],
    *,
    runnable: bool,
) -> Instruction:
    vectors, scalars = computation.of_shape(VECTOR), computation.of_shape(SCALAR)
    vector = draw(st.sampled_from(vectors))
    kinds = ["unary", "binary", "constant", "vector"]
    kinds += [] if runnable else ["custom-call"]
    kinds += ["reduce", "broadcast"] if scalars else []
    kinds += ["call"] if len(made) > 1 else []
    kind = draw(st.sampled_from(kinds))
    if kind == "unary":
        return Instruction(name, draw(st.sampled_from(UNARY)), VECTOR, (vector,))
    if kind == "binary":
        other = draw(st.sampled_from(vectors))
        return Instruction(name, draw(st.sampled_from(BINARY)), VECTOR, (vector, other))
    if kind == "constant":
        value = draw(st.sampled_from(["0", "1", "-1.5", "inf", "1e-05", "nan"]))
        return Instruction(name, "constant", SCALAR, (), value)
    if kind == "vector":
        return Instruction(name, "constant", VECTOR, (), "{1, 2, 3, 4}")
    if kind == "reduce":
        zero = draw(st.sampled_from(scalars))
        attributes = ("dimensions={0}",)
        return Instruction(
            name, "reduce", SCALAR, (vector, zero), None, attributes, (("to_apply", 0),)
        )
    if kind == "broadcast":
        scalar = draw(st.sampled_from(scalars))
        return Instruction(name, "broadcast", VECTOR, (scalar,), None, ("dimensions={}",))
    if kind == "call":
        callee = draw(st.integers(1, len(made) - 1))
        return Instruction(name, "call", VECTOR, (vector,), None, (), (("to_apply", callee),))
    target = draw(STRINGS).replace("\\", "\\\\").replace('"', '\\"')
    attributes = ('custom_call_target="x"', f'backend_config="{target}"')
    metadata = draw(st.sampled_from([(), ('metadata={op_name="a/b" source_line=3}',)]))
    return Instruction(name, "custom-call", VECTOR, (vector,), None, attributes + metadata)
