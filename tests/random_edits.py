"""Random small changes of real modules, with and without meaning; nobody says which is which.

What each did is for XLA to find out (`xla_oracle`). Some make modules that XLA refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from module_edits import (
    appended,
    arrange,
    shuffled,
    with_constants_split,
    with_dead_code,
    with_outputs_permuted,
    with_parameters_permuted,
)

from xlagraph.graph import Attributes, Module
from xlagraph.hlo.attributes import make_attributes
from xlagraph.hlo.header_values import read_entry_layout
from xlagraph.hlo.printer import print_module
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

Edit = Callable[[Module, "random.Random"], Module | None]
"""None where there is no place for it."""

UNARY = ("negate", "abs", "exponential", "tanh", "cosine")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "divide")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|%?[A-Za-z_][\w.\-]*|-?\d[\w.]*|\s+|.', re.S)


def attributes_of(pairs: Sequence[tuple[str, str]]) -> Attributes:
    """An attribute list as it would be read."""
    return make_attributes("".join(f", {key}={value}" for key, value in pairs), pairs)


def _pairs(module: Module, i: int) -> list[tuple[str, str]]:
    found = module.attributes[i]
    names = [(key, ", ".join(f"%{n}" for n in names)) for key, names in found.callees]
    names = [
        (key, f"{{{text}}}" if key in ("branch_computations", "called_computations") else text)
        for key, text in names
    ]
    controls = [("control-predecessors", "{" + ", ".join(f"%{n}" for n in found.controls) + "}")]
    return [*found.items, *names, *(controls if found.controls else [])]


def _with(module: Module, i: int, **columns: object) -> Module:
    """The module with other entries for one instruction."""
    changed: dict[str, object] = {}
    for name, value in columns.items():
        column = list(getattr(module, name))
        column[i] = value
        changed[name] = column
    return replace(module, **changed)  # type: ignore[arg-type]


def _pick(chance: random.Random, found: Sequence[int]) -> int | None:
    return chance.choice(found) if found else None


# -- what means nothing, as a rule ----------------------------------------------------------


def renamed(module: Module, chance: random.Random) -> Module | None:
    """Other names, and another text order."""
    return shuffled(module, chance.getrandbits(32))


def computations_moved(module: Module, chance: random.Random) -> Module | None:
    """A copy of a called computation for one of its callers."""
    calling = sorted(module.callees)
    i = _pick(chance, calling)
    if i is None:
        return None
    c = chance.choice(module.callees[i])
    old = module.computations[c]
    size = old.stop - old.start
    start = len(module)

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(n - old.start + start for n in numbers)

    span = range(old.start, old.stop)
    computations = list(module.computations)
    copy = replace(
        old,
        index=len(computations),
        name=f"{old.name}.copy{chance.getrandbits(20)}",
        start=start,
        stop=start + size,
        root=moved([old.root])[0],
        parameters=moved(old.parameters),
        lines=(),
    )
    callees = dict(module.callees)
    callees.update({moved([k])[0]: module.callees[k] for k in span if k in module.callees})
    callees[i] = tuple(copy.index if d == c else d for d in callees[i])
    return replace(
        module,
        computations=(*computations, copy),
        names=[*module.names, *(module.names[k] for k in span)],
        opcodes=[*module.opcodes, *(module.opcodes[k] for k in span)],
        shapes=[*module.shapes, *(module.shapes[k] for k in span)],
        operands=[*module.operands, *(moved(module.operands[k]) for k in span)],
        attributes=[*module.attributes, *(module.attributes[k] for k in span)],
        payloads=dict(module.payloads)
        | {moved([k])[0]: module.payloads[k] for k in span if k in module.payloads},
        callees=callees,
        controls=dict(module.controls)
        | {moved([k])[0]: moved(module.controls[k]) for k in span if k in module.controls},
    )


def attributes_reordered(module: Module, chance: random.Random) -> Module | None:
    """An attribute list in another order, more spaces in it."""
    i = _pick(chance, [k for k, a in enumerate(module.attributes) if len(a.items) > 1])
    if i is None:
        return None
    pairs = [(k, v.replace(",", " , ") if '"' not in v else v) for k, v in _pairs(module, i)]
    chance.shuffle(pairs)
    return _with(module, i, attributes=attributes_of(pairs))


# -- what means something, as a rule ---------------------------------------------------------


def other_operand(module: Module, chance: random.Random) -> Module | None:
    """An operand is another value of the same shape."""
    i = _pick(chance, [k for k, o in enumerate(module.operands) if o])
    if i is None:
        return None
    place = chance.randrange(len(module.operands[i]))
    old = module.operands[i][place]
    start = module.computation_of(i).start
    found = [k for k in range(start, i) if module.shapes[k] == module.shapes[old] and k != old]
    new = _pick(chance, found)
    if new is None:
        return None
    operands = (*module.operands[i][:place], new, *module.operands[i][place + 1 :])
    return _with(module, i, operands=operands)


def operands_swapped(module: Module, chance: random.Random) -> Module | None:
    """Two operands of one shape change places."""
    found = [
        k
        for k, o in enumerate(module.operands)
        if len(o) > 1 and o[0] != o[1] and module.shapes[o[0]] == module.shapes[o[1]]
    ]
    i = _pick(chance, found)
    if i is None:
        return None
    first, second, *rest = module.operands[i]
    return _with(module, i, operands=(second, first, *rest))


def other_opcode(module: Module, chance: random.Random) -> Module | None:
    """An element-wise step is another one."""
    i = _pick(chance, [k for k, o in enumerate(module.opcodes) if o in UNARY or o in BINARY])
    if i is None or not module.shapes[i].startswith("f32"):
        return None
    same = UNARY if module.opcodes[i] in UNARY else BINARY
    return _with(module, i, opcodes=chance.choice([o for o in same if o != module.opcodes[i]]))


def other_number(module: Module, chance: random.Random) -> Module | None:
    """A number in a constant is another one, or is written in another way."""
    i = _pick(chance, [k for k, o in enumerate(module.opcodes) if o == "constant"])
    if i is None:
        return None
    numbers = list(_NUMBER.finditer(module.payloads[i]))
    if not numbers:
        return None
    number = chance.choice(numbers)
    value = float(number[0])
    longer = f"{number[0]}0" if "." in number[0] else f"0{number[0].lstrip('-')}"
    text = chance.choice([longer, str(int(value) + 1), "0", "1", f"{value:e}", f"{number[0]} "])
    payload = module.payloads[i]
    payloads = dict(module.payloads)
    payloads[i] = payload[: number.start()] + text + payload[number.end() :]
    return replace(module, payloads=payloads)


def other_attribute(module: Module, chance: random.Random) -> Module | None:
    """A number, or a word, in an attribute is another one."""
    i = _pick(chance, [k for k, a in enumerate(module.attributes) if a.items])
    if i is None:
        return None
    pairs = _pairs(module, i)
    place = chance.randrange(len(module.attributes[i].items))
    key, value = pairs[place]
    tokens = _TOKEN.findall(value)
    k = chance.randrange(len(tokens))
    if tokens[k].lstrip("-").isdigit():
        tokens[k] = str(int(tokens[k]) + chance.choice([-1, 1]))
    elif tokens[k] in ("true", "false"):
        tokens[k] = "false" if tokens[k] == "true" else "true"
    elif tokens[k].startswith('"'):
        tokens[k] = tokens[k][:-1] + chance.choice([" ", "x", "/**/"]) + '"'
    else:
        tokens[k] = chance.choice(["", " ", tokens[k] + " "])
    pairs[place] = (key, "".join(tokens))
    return _with(module, i, attributes=attributes_of(pairs))


def attribute_left_out(module: Module, chance: random.Random) -> Module | None:
    """An attribute is gone."""
    i = _pick(chance, [k for k, a in enumerate(module.attributes) if a.items])
    if i is None:
        return None
    pairs = _pairs(module, i)
    del pairs[chance.randrange(len(module.attributes[i].items))]
    return _with(module, i, attributes=attributes_of(pairs))


def other_callee(module: Module, chance: random.Random) -> Module | None:
    """A call leads to another computation with the same parameters and result."""
    i = _pick(chance, sorted(module.callees))
    if i is None:
        return None
    place = chance.randrange(len(module.callees[i]))
    signature = _signature(module, module.callees[i][place])
    here = module.computation_of(i).index
    others = [
        c.index
        for c in module.computations
        if c.index < here and _signature(module, c.index) == signature
        if c.index != module.callees[i][place]
    ]
    new = _pick(chance, others)
    if new is None:
        return None
    called = list(module.callees[i])
    called[place] = new
    return replace(module, callees=dict(module.callees) | {i: tuple(called)})


def _signature(module: Module, c: int) -> tuple[str, ...]:
    computation = module.computations[c]
    return tuple(module.shapes[k] for k in (*computation.parameters, computation.root))


def branches_swapped(module: Module, chance: random.Random) -> Module | None:
    """The computations that an instruction calls change places."""
    i = _pick(chance, [k for k, c in module.callees.items() if len(set(c)) > 1])
    if i is None:
        return None
    return replace(module, callees=dict(module.callees) | {i: module.callees[i][::-1]})


def step_inserted(module: Module, chance: random.Random) -> Module | None:
    """A value goes through one more step for one of its users, or for none."""
    entry = module.entry_computation
    if entry.index != len(module.computations) - 1:
        return None
    span = range(entry.start, entry.stop)
    i = _pick(chance, [k for k in span if module.shapes[k].startswith("f32[") and module.users[k]])
    if i is None:
        return None
    more = appended(
        module, [(chance.choice(UNARY), module.shapes[i], None, attributes_of([]), (i,))]
    )
    user = chance.choice(module.users[i])
    if chance.random() < 0.3:
        return more
    place = module.operands[user].index(i)
    new = len(more) - 1
    operands = (*module.operands[user][:place], new, *module.operands[user][place + 1 :])
    edited = _with(more, user, operands=operands)
    orders: list[Sequence[int]] = [range(c.start, c.stop) for c in edited.computations]
    orders[-1] = [*range(entry.start, user), new, *range(user, new)]
    return arrange(edited, orders, edited.names)


def asked_layout(module: Module, chance: random.Random) -> Module | None:
    """The entry is asked to take, or to give, an array in another order in memory."""
    fields = dict(module.header)
    text = fields.get("entry_computation_layout")
    if not text:
        return None
    places = list(re.finditer(r"\{(\d+(?:,\d+)+)\}", text))
    if not places:
        return None
    place = chance.choice(places)
    order = place[1].split(",")
    chance.shuffle(order)
    fields["entry_computation_layout"] = (
        f"{text[: place.start()]}{{{','.join(order)}}}{text[place.end() :]}"
    )
    return replace(module, header=tuple(fields.items()))


def layout_left_out(module: Module, chance: random.Random) -> Module | None:
    """The entry's layout is not written, or a shape is written without its layout."""
    if chance.random() < 0.5:
        kept = tuple(item for item in module.header if item[0] != "entry_computation_layout")
        return replace(module, header=kept)
    i = _pick(chance, [k for k, s in enumerate(module.shapes) if s.endswith("}")])
    if i is None:
        return None
    return _with(module, i, shapes=read_shape(module.shapes[i]).without_layout())


def other_layout(module: Module, chance: random.Random) -> Module | None:
    """A value is kept in another order in memory."""
    found = [k for k, s in enumerate(module.shapes) if re.search(r"\{\d+,[\d,]+\}$", s)]
    i = _pick(chance, found)
    if i is None:
        return None
    head, _, layout = module.shapes[i].rpartition("{")
    order = layout[:-1].split(",")
    chance.shuffle(order)
    return _with(module, i, shapes=f"{head}{{{','.join(order)}}}")


def shares_a_buffer(module: Module, chance: random.Random) -> Module | None:
    """A parameter shares its buffer with an output of its shape, or does not any more."""
    fields = dict(module.header)
    if "input_output_alias" in fields or "entry_computation_layout" not in fields:
        fields.pop("input_output_alias", None)
        return replace(module, header=tuple(fields.items()))
    layout = read_entry_layout(fields["entry_computation_layout"])
    outputs = layout.result.parts if layout.result.is_tuple else (layout.result,)
    pairs = [
        (k, n)
        for k, output in enumerate(outputs)
        for n, parameter in enumerate(layout.parameters)
        if str(output) == str(parameter)
    ]
    if not pairs:
        return None
    k, n = chance.choice(pairs)
    output = f"{{{k}}}" if layout.result.is_tuple else "{}"
    fields["input_output_alias"] = f"{{ {output}: ({n}, {{}}, may-alias) }}"
    return replace(module, header=tuple(fields.items()))


def control_edge(module: Module, chance: random.Random) -> Module | None:
    """An instruction waits for one above it."""
    i = chance.randrange(len(module))
    start = module.computation_of(i).start
    if i == start or i in module.controls:
        return None
    before = chance.randrange(start, i)
    attributes = attributes_of(
        [*_pairs(module, i), ("control-predecessors", f"{{%{module.names[before]}}}")]
    )
    edited = _with(module, i, attributes=attributes)
    return replace(edited, controls=dict(module.controls) | {i: (before,)})


def effect(module: Module, chance: random.Random) -> Module | None:
    """A value is sent to the host, in the entry, where nobody uses what comes of it."""
    entry = module.entry_computation
    if entry.index != len(module.computations) - 1:
        return None
    span = range(entry.start, entry.stop)
    i = _pick(chance, [k for k in span if module.shapes[k].startswith("f32[")])
    if i is None:
        return None
    none = attributes_of([])
    token = len(module)
    return appended(
        module,
        [
            ("after-all", "token[]", None, none, ()),
            ("outfeed", "token[]", None, none, (i, token)),
        ],
    )


def effect_inside(module: Module, chance: random.Random) -> Module | None:
    """A called computation sends a value to the host."""
    found = sorted({c for cs in module.callees.values() for c in cs})
    c = _pick(chance, found)
    if c is None:
        return None
    computation = module.computations[c]
    span = range(computation.start, computation.stop)
    i = _pick(chance, [k for k in span if not module.shapes[k].startswith(("(", "token"))])
    if i is None:
        return None
    at = computation.stop
    none = attributes_of([])

    def moved(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(n + 2 if n >= at else n for n in numbers)

    def put(column: Sequence[object], *new: object) -> list[object]:
        return [*column[:at], *new, *column[at:]]

    computations = [
        d
        if d.index < c
        else replace(d, stop=d.stop + 2, lines=())
        if d.index == c
        else replace(
            d,
            start=d.start + 2,
            stop=d.stop + 2,
            root=d.root + 2,
            parameters=moved(d.parameters),
            lines=(),
        )
        for d in module.computations
    ]
    number = chance.getrandbits(30)
    return replace(
        module,
        computations=tuple(computations),
        names=put(module.names, f"token.{number}", f"sent.{number}"),
        opcodes=put(module.opcodes, "after-all", "outfeed"),
        shapes=put(module.shapes, "token[]", "token[]"),
        operands=put([moved(o) for o in module.operands], (), (i, at)),
        attributes=put(module.attributes, none, none),
        payloads={moved([k])[0]: text for k, text in module.payloads.items()},
        callees={moved([k])[0]: called for k, called in module.callees.items()},
        controls={moved([k])[0]: moved(before) for k, before in module.controls.items()},
    )  # type: ignore[arg-type]


def dead_code(module: Module, chance: random.Random) -> Module | None:
    """Copies that nobody uses."""
    if module.entry != len(module.computations) - 1 or module.controls:
        return None
    return with_dead_code(module, chance.getrandbits(32))


def split_constant(module: Module, chance: random.Random) -> Module | None:
    """A constant of its own for one user."""
    if module.entry != len(module.computations) - 1:
        return None
    return with_constants_split(module, chance.getrandbits(32))


def parameters_permuted(module: Module, chance: random.Random) -> Module | None:
    """Parameters under other numbers; the entry's layout with them."""
    if "input_output_alias" in module.header_fields:
        return None
    edited = with_parameters_permuted(module, chance.getrandbits(32))
    fields = dict(edited.header)
    text = fields.get("entry_computation_layout")
    if text:
        layout = read_entry_layout(text)
        old = {p: k for k, p in enumerate(module.entry_computation.parameters)}
        order = [old[p] for p in edited.entry_computation.parameters]
        taken = ", ".join(str(layout.parameters[k]) for k in order)
        fields["entry_computation_layout"] = f"{{({taken})->{layout.result}}}"
    return replace(edited, header=tuple(fields.items()))


def outputs_permuted(module: Module, chance: random.Random) -> Module | None:
    """Outputs at other places."""
    root = module.entry_computation.root
    if module.opcodes[root] != "tuple" or len(module.operands[root]) < 2:
        return None
    edited = with_outputs_permuted(module, chance.getrandbits(32))
    shape = ", ".join(module.shapes[o] for o in edited.operands[root])
    kept = tuple(item for item in edited.header if item[0] != "entry_computation_layout")
    return replace(_with(edited, root, shapes=f"({shape})"), header=kept)


HARMLESS: tuple[Edit, ...] = (
    renamed,
    computations_moved,
    attributes_reordered,
    dead_code,
    split_constant,
    parameters_permuted,
    layout_left_out,
)
OTHERS: tuple[Edit, ...] = (
    other_operand,
    operands_swapped,
    other_opcode,
    other_number,
    other_attribute,
    attribute_left_out,
    other_callee,
    branches_swapped,
    step_inserted,
    asked_layout,
    other_layout,
    shares_a_buffer,
    control_edge,
    effect,
    effect_inside,
    outputs_permuted,
)


def changed(module: Module, text: str, chance: random.Random) -> tuple[str, str]:
    """A changed text, and what was done to it."""
    if chance.random() < 0.4:
        return edited_text(text, chance), "text"
    number = chance.choice((1, 1, 2, 3))
    edits = [chance.choice(HARMLESS if chance.random() < 0.5 else OTHERS) for _ in range(number)]
    if chance.random() < 0.5:
        edits.append(renamed)
    done = []
    for edit in edits:
        edited = edit(module, chance)
        if edited is not None:
            module = edited
            done.append(edit.__name__)
    return print_module(module), " ".join(done)


def edited_text(text: str, chance: random.Random) -> str:
    """A text with one token changed, doubled, moved or gone."""
    tokens = _TOKEN.findall(text)
    i = chance.randrange(len(tokens))
    choice = chance.random()
    if choice < 0.5:
        found = [k for k, token in enumerate(tokens) if re.match(r'["\d\-]|true|false', token)]
        i = chance.choice(found or [i])
        tokens[i] = _edited_token(tokens[i], chance)
    elif choice < 0.65:
        tokens[i] = chance.choice(["", " ", "/*c*/", tokens[i] + " "])
    elif choice < 0.8:
        j = chance.randrange(len(tokens))
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif choice < 0.9:
        tokens[i] = chance.choice(tokens)
    else:
        del tokens[i : i + chance.randrange(1, 12)]
    return "".join(tokens)


def _edited_token(token: str, chance: random.Random) -> str:
    if token.startswith('"'):
        k = chance.randrange(1, len(token))
        return token[:k] + chance.choice([" ", "x", "//", "/*"]) + token[k:]
    if token in ("true", "false"):
        return "false" if token == "true" else "true"
    digits = token.lstrip("-")
    if digits.isdigit():
        near = [str(int(token) + 1), str(int(token) - 1)]
        return chance.choice([*near, "0", "1", f"0{digits}", f"{token}.0", f"{token}e0"])
    return chance.choice([f"{token}0", f"{token}1", "0", f"{token}e0"])
