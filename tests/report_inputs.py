"""Inputs for the report's tests: committed runs, a wide run made of one, hostile modules."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from real_modules import RUNS, explained_run, graph

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.run.reader import Run, read_run
from xlagraph.run.records import Frame, NoteRecord
from xlagraph.runs.explain import explain_run
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from xlagraph.cause.model import Explanation
    from xlagraph.graph import Module
    from xlagraph.runs.model import RunExplanation

BIDI = "\u202egnol\u2066"
SCRIPT = "</script><script>window.owned = 1</script>"
IMAGE = "<img src=x onerror='window.owned = 1'>"
QUOTES = "\"'`&amp;${window.owned = 1}"
LONG = "x" * 1_000_000

SMALL = """HloModule small, entry_computation_layout={(f32[4])->(f32[4])}

add_two {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

ENTRY main {
  p0 = f32[4]{0} parameter(0)
  c = f32[] constant(1)
  b = f32[4]{0} broadcast(c), dimensions={}
  scaled = f32[4]{0} multiply(p0, b), metadata={op_type="mul" op_name="n" source_file="/src/app/t.py" source_line=3}
  zero = f32[] constant(0)
  total = f32[] reduce(scaled, zero), dimensions={0}, to_apply=add_two
  spread = f32[4]{0} broadcast(total), dimensions={}
  out = f32[4]{0} subtract(scaled, spread)
  ROOT r = (f32[4]{0}) tuple(out)
}
"""  # noqa: E501 - as XLA prints it


def explained(name: str) -> RunExplanation:
    """A committed run, explained."""
    return explained_run(RUNS / name)


@lru_cache
def explained_pair(a: str, b: str) -> Explanation:
    """Two graphs of the committed runs, explained."""
    return explain_modules(graph(a), graph(b))


def small_pair() -> Explanation:
    """Two modules of a screenful: a constant differs, and one instruction is new."""
    changed = SMALL.replace("constant(1)", "constant(2)").replace(
        "ROOT r = (f32[4]{0}) tuple(out)",
        "extra = f32[4]{0} negate(out)\n  ROOT r = (f32[4]{0}, f32[4]{0}) tuple(out, extra)",
    )
    return explain_modules(read_module(SMALL, "a.hlo"), read_module(changed, "b.hlo"))


def wide_run(ranks: int, steps: int) -> RunExplanation:
    """The carry run, its last steps repeated, on many ranks."""
    run = read_run(RUNS / "carry")
    (process,) = run.processes
    start, body = process.syncs[:8], process.syncs[8:]
    syncs = list(start)
    while len(syncs) < steps:
        turn = (len(syncs) - 8) // len(body)
        for sync in body[: steps - len(syncs)]:
            outcome = sync.outcome if turn % 8 == 0 else "hit"
            index = len(syncs)
            syncs.append(replace(sync, index=index, step=index, outcome=outcome))
    processes = tuple(
        replace(
            process,
            record=replace(process.record, rank=rank, world_size=ranks),
            syncs=tuple(replace(sync, rank=rank) for sync in syncs),
        )
        for rank in range(ranks)
    )
    return explain_run(Run(run.name, run.path, processes))


def hostile_run() -> RunExplanation:
    """The carry run with records that try to leave their place."""
    run = read_run(RUNS / "carry")
    (process,) = run.processes
    frame = Frame(f"{SCRIPT}/{IMAGE}.py", 3, QUOTES)
    tensor = Tensor(SCRIPT, IMAGE + BIDI)
    hostile = replace(
        process,
        record=replace(process.record, argv=(SCRIPT,)),
        syncs=tuple(replace(sync, call_site=(frame,)) for sync in process.syncs),
        graphs=tuple(replace(g, outputs=(tensor,) * len(g.outputs)) for g in process.graphs),
        notes=(NoteRecord(0, SCRIPT, IMAGE + BIDI),),
    )
    return explain_run(Run(run.name, run.path, (hostile,)))


def hostile_module(*, long: bool) -> Module:
    """A module whose every free text tries to leave its place."""
    module = read_module(SMALL, "hostile.hlo")
    names = [f"{name}{text}" for name, text in zip(module.names, _hostile(), strict=False)]
    attributes = list(module.attributes)
    place = next(i for i, a in enumerate(attributes) if a.metadata)
    metadata = f'op_type="{SCRIPT}" op_name="{BIDI}{IMAGE}" source_file="{SCRIPT}" source_line=3'
    attributes[place] = replace(
        attributes[place], metadata=metadata, text=f", metadata={{{metadata}}}"
    )
    last = next(i for i, opcode in enumerate(module.opcodes) if opcode == "subtract")
    text = f'backend_config="{LONG if long else IMAGE}"'
    attributes[last] = replace(
        attributes[last], items=(("backend_config", text.partition("=")[2]),), text=", " + text
    )
    return replace(
        module,
        name=SCRIPT,
        header=(("frontend_attributes", f'{{a="{SCRIPT}"}}'),),
        names=names,
        attributes=attributes,
        computations=tuple(replace(c, name=c.name + IMAGE) for c in module.computations),
    )


def _hostile() -> list[str]:
    return [SCRIPT, IMAGE, QUOTES, BIDI, "\x00\n\x1b[31m", "]]>", "{{ 7*7 }}", "\ud800", "%s"] * 2


def hostile_pair() -> Explanation:
    """Two hostile modules, one with an attribute of a megabyte."""
    return explain_modules(hostile_module(long=False), hostile_module(long=True))
