"""A list that is read now and then, and grows until the next time: one cause for all its graphs."""

from __future__ import annotations

from written_runs import write

READ, END = 12, 20
STEP = """HloModule step

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} tanh(f32[8]{0} %p)
}
"""


def joined(number, opcodes):
    """What is computed of so many batches, put behind each other."""
    long = f"f32[{4 * number}]{{0}}"
    values = [f"%v{k}" for k in range(len(opcodes) + 1)]
    lines = [
        *(f"%p{k} = f32[4]{{0}} parameter({k})" for k in range(number)),
        f"%v0 = {long} concatenate("
        + ", ".join(f"f32[4]{{0}} %p{k}" for k in range(number))
        + "), dimensions={0}",
        *(
            f"{new} = {long} {opcode}({long} {old})"
            for opcode, old, new in zip(opcodes, values, values[1:], strict=False)
        ),
    ]
    lines[-1] = "ROOT " + lines[-1]
    types = ", ".join(f"p{k}: f32[4]" for k in range(number))
    head = f"HloModule joined\n\nENTRY %main ({types}) -> {long} {{"
    return "\n  ".join([head, *lines]) + "\n}\n"


CURVE = (["sine", "abs", "floor"], ["cosine", "exponential", "sign", "tanh", "ceil"])
"""Two values of one list, at one line of the program, that have little in common."""


OTHER = """HloModule other

ENTRY %main (p: s32[{0}]) -> s32[{0}] {{
  %p = s32[{0}]{{0}} parameter(0)
  %n = s32[{0}]{{0}} negate(s32[{0}]{{0}} %p)
  ROOT %a = s32[{0}]{{0}} abs(s32[{0}]{{0}} %n)
}}
"""


def reports(folder, numbers, other=""):
    """Steps, and after every third a report that reads both values of so many batches."""
    syncs = []
    for number in numbers:
        syncs += [(END, STEP)] * 3
        syncs += [(READ, joined(number, opcodes), "value") for opcodes in CURVE]
        syncs += [(READ, other.format(number), "value")] if other else []
    return write(folder, syncs)


def test_all_graphs_of_a_report_are_of_the_list_that_it_reads(tmp_path):
    run = reports(tmp_path, range(4, 32, 4))
    (problem,) = run.problems
    assert (problem.kind.id, problem.place.line.line) == ("growing-graph", READ)
    assert str(problem.title) == (
        "a list of tensors grows: each read takes in 4 tensors more (4 x f32[4]) than the one "
        "before at train.py:12 in main(), 14 graphs in steps 3 to 21"
    )
    assert problem.compiles == 14


def test_lists_of_no_order_are_no_growth(tmp_path):
    run = reports(tmp_path, (4, 9, 6, 14, 5, 11, 7))
    assert run.problems
    assert not any(group.kind.id == "growing-graph" for group in run.problems)


def test_a_list_that_is_emptied_compiles_once(tmp_path):
    (first,) = reports(tmp_path, [4] * 7).problems
    assert (first.kind.id, first.compiles) == ("early-execution", 2)


def test_what_takes_in_nothing_of_the_list_is_another_cause(tmp_path):
    run = reports(tmp_path, range(4, 32, 4), OTHER)
    kinds = {group.kind.id: group.compiles for group in run.problems}
    assert kinds.pop("growing-graph") == 14
    assert kinds == {"input-shape": 6}  # each with the one before


def wide(number):
    """A step that has all that a long list takes in."""
    values = [f"%a{k} = f32[4]{{0}} tanh(f32[4]{{0}} %p{k})" for k in range(number)]
    lines = [*(f"%p{k} = f32[4]{{0}} parameter({k})" for k in range(number)), *values]
    outputs = ", ".join(f"f32[4]{{0}} %a{k}" for k in range(number))
    types = ", ".join(["f32[4]{0}"] * number)
    lines.append(f"ROOT %t = ({types}) tuple({outputs})")
    given = ", ".join(f"p{k}: f32[4]" for k in range(number))
    head = f"HloModule wide\n\nENTRY %main ({given}) -> ({types}) {{"
    return "\n  ".join([head, *lines]) + "\n}\n"


def test_a_read_within_a_step_is_a_part_of_it(tmp_path):
    """A value that cuts steps is compared with the step that holds it."""
    cut = [(READ, joined(10, ["tanh"]), "value"), (READ, joined(30, ["sine"]), "value")]
    run = write(tmp_path, [*[(END, wide(50))] * 3, (READ, wide(2), "value"), *cut, (END, wide(50))])
    (step,) = (node for node in run.graphs if node.sync_kind == "step")
    assert run.graphs[-1].nearest == step.digest


def part(size, *, more):
    """A value read within a step; the second of two computes more of the same."""
    values = f"f32[{size}]{{0}}"
    outputs = f"({values}, {values})" if more else f"({values})"
    given = f"{values} %c, {values} %n" if more else f"{values} %c"
    further = f"  %n = {values} negate({values} %c)\n" if more else ""
    return (
        f"HloModule part\n\nENTRY %main (p: f32[{size}]) -> {outputs} {{\n"
        f"  %p = {values} parameter(0)\n"
        f"  %s = {values} sine({values} %p)\n"
        f"  %c = {values} cosine({values} %s)\n{further}"
        f"  ROOT %t = {outputs} tuple({given})\n}}\n"
    )


def test_a_read_is_compared_with_what_the_same_line_read_in_another_size(tmp_path):
    reads = [[(12, part(size, more=more), "value") for more in (False, True)] for size in (8, 12)]
    run = write(tmp_path, [one for two in reads for one in (*two, (20, STEP))])
    small, smaller, _, large, larger = run.graphs
    assert (large.nearest, larger.nearest) == (small.digest, smaller.digest)
    assert [str(cause.kind.id) for cause in large.explanation.causes] == ["input-shape"]
