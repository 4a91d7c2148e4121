"""What acts on the world: XLA's list, opcode by opcode, and what XLA's compiler keeps."""

from __future__ import annotations

import pytest
from xla_oracle import Oracle

from xlagraph.canon.live import live_instructions
from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module

COMPUTATIONS = """
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
wrapped {
  w = f32[4] parameter(0)
  ROOT n = f32[4] negate(w)
}
"""
CALL = 'custom-call(p), custom_call_target="c"'
# Whether ``HloInstruction::HasSideEffect`` (openxla/xla, xla/hlo/ir/hlo_instruction.cc) holds for
# a line, channels taken to carry meaning; ``{}`` stands for the start that a line ends.
REFERENCE = {
    "s = (f32[4], u32[], token[]) send(p, t), channel_id=1": True,
    "s = (f32[4], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true": True,
    "r = (f32[4], u32[], token[]) recv(t), channel_id=1": True,
    "g = f32[4] rng(k, k), distribution=rng_uniform": True,
    "g = u64[2] rng-get-and-update-state(), delta=4096": True,
    "i = (f32[4], token[]) infeed(t)": True,
    "o = token[] outfeed(p, t)": True,
    "b = f32[4] collective-broadcast(p), replica_groups={{0}}": True,
    "a = f32[4] all-reduce-start(p), replica_groups={}, to_apply=sum": True,
    "a = (f32[4], f32[4]) all-gather-start(p), replica_groups={{0}}, dimensions={0}": True,
    "c = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p), "
    "source_target_pairs={{0,0}}": True,
    "a = f32[4] all-reduce(p), replica_groups={}, to_apply=sum": False,
    "a = f32[4] all-reduce(p), replica_groups={}, to_apply=sum, channel_id=1": True,
    "a = f32[4] all-reduce(p), replica_groups={}, to_apply=sum, constrain_layout=true": True,
    "a = f32[4] all-gather(p), replica_groups={{0}}, dimensions={0}": False,
    "a = f32[4] all-gather(p), replica_groups={{0}}, dimensions={0}, channel_id=1": True,
    "a = f32[4] all-gather(p), replica_groups={{0}}, dimensions={0}, constrain_layout=true": True,
    "a = f32[4] all-to-all(p), replica_groups={{0}}, dimensions={0}": False,
    "a = f32[4] all-to-all(p), replica_groups={{0}}, dimensions={0}, channel_id=1": True,
    "a = f32[4] all-to-all(p), replica_groups={{0}}, dimensions={0}, constrain_layout=true": True,
    "a = f32[4] reduce-scatter(p), replica_groups={{0}}, dimensions={0}, to_apply=sum": False,
    "a = f32[4] reduce-scatter(p), replica_groups={{0}}, dimensions={0}, to_apply=sum, "
    "channel_id=1": True,
    "a = f32[4] reduce-scatter(p), replica_groups={{0}}, dimensions={0}, to_apply=sum, "
    "constrain_layout=true": True,
    "c = f32[4] collective-permute(p), source_target_pairs={{0,0}}": False,
    "c = f32[4] collective-permute(p), source_target_pairs={{0,0}}, channel_id=1": True,
    f"c = f32[4] {CALL}": False,
    f"c = f32[4] {CALL}, custom_call_has_side_effect=false": False,
    f"c = f32[4] {CALL}, custom_call_has_side_effect=true": True,
    "g = (u64[2], f32[4]) rng-bit-generator(u), algorithm=rng_default": False,
    "a = token[] after-all()": False,
    "a = token[] add-dependency(t, p)": False,
    "b = f32[4] opt-barrier(p)": False,
    "d = u32[] partition-id()": False,
    "d = u32[] replica-id()": False,
    "c = (f32[4], f32[4], u32[]) copy-start(p)": False,
    "a = ((f32[4]), f32[4], s32[]) async-start(p), calls=wrapped": False,
    "n = f32[4] negate(p)": False,
}
STEPS = {
    "s = (f32[4], u32[], token[]) send(p, t), channel_id=1; d = token[] send-done(s), "
    "channel_id=1": [True, True],
    "r = (f32[4], u32[], token[]) recv(t), channel_id=1; d = (f32[4], token[]) recv-done(r), "
    "channel_id=1": [True, True],
    "a = f32[4] all-reduce-start(p), replica_groups={}, to_apply=sum; "
    "d = f32[4] all-reduce-done(a)": [True, True],
    "a = (f32[4], f32[4]) all-gather-start(p), replica_groups={{0}}, dimensions={0}; "
    "d = f32[4] all-gather-done(a)": [True, True],
    "c = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,0}}; "
    "d = f32[4] collective-permute-done(c)": [True, True],
    "c = (f32[4], f32[4], u32[]) copy-start(p); d = f32[4] copy-done(c)": [False, False],
    "a = ((f32[4]), f32[4], s32[]) async-start(p), calls=wrapped; "
    "b = ((f32[4]), f32[4], s32[]) async-update(a); d = f32[4] async-done(b)": [False] * 3,
}


def module(lines: str, computations: str = COMPUTATIONS) -> str:
    """A module whose result does not need these lines; they are separated by semicolons."""
    body = "\n".join(f"  {line.strip()}" for line in lines.split(";"))
    return (
        f"HloModule m\n{computations}\nENTRY e {{\n  p = f32[4] parameter(0)\n"
        f"  u = u64[2] parameter(1)\n  k = f32[] constant(1)\n  t = token[] after-all()\n{body}\n"
        "  ROOT root = f32[4] add(p, p)\n}\n"
    )


def acting(text: str) -> list[str]:
    """The names of what acts in the entry, in text order."""
    read = read_module(text)
    entry = read.entry_computation
    return [read.names[i] for i in read.effects if entry.start <= i < entry.stop]


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as found:
        yield found


@pytest.mark.parametrize("line", REFERENCE)
def test_opcodes_act_as_xla_has_it(line, oracle):
    text = module(line)
    oracle.printed(text)  # XLA reads it
    name = line.partition(" ")[0]
    assert acting(text) == ([name] if REFERENCE[line] else [])
    assert diff_modules(read_module(text), read_module(module("x = f32[] copy(k)"))).same == (
        not REFERENCE[line]
    )


@pytest.mark.parametrize("lines", STEPS)
def test_later_steps_act_with_the_first(lines, oracle):
    text = module(lines)
    oracle.printed(text)
    names = [line.split()[0] for line in lines.split(";")]
    acts = STEPS[lines]
    assert acting(text) == [name for name, does in zip(names, acts, strict=True) if does]


RUNS_HERE = [line for line in REFERENCE if "outfeed" in line or "side_effect" in line] + [
    "n = f32[4] negate(p)",
    "g = (u64[2], f32[4]) rng-bit-generator(u), algorithm=rng_default",
    "i = (f32[4], token[]) infeed(t)",
    "b = f32[4] opt-barrier(p)",
]


@pytest.mark.parametrize("line", RUNS_HERE)
def test_the_compiler_keeps_what_acts(line, oracle):
    line = line.replace('"c"', '"xla_ffi_python_cpu_callback"')
    if "custom-call" in line:
        line += ", api_version=API_VERSION_TYPED_FFI, backend_config={index = 0 : ui64}"
    assert bool(oracle.acting(module(line))) == bool(acting(module(line)))


OUTFEED = "it = token[] after-all()\n  io = token[] outfeed(i, it)"
INSIDE = f"""
body {{
  i = f32[4] parameter(0)
  {OUTFEED}
  ROOT b = f32[4] negate(i)
}}
forever {{
  f = f32[4] parameter(0)
  ROOT c = pred[] constant(false)
}}
both {{
  a = f32[4] parameter(0)
  ROOT d = f32[4] call(a), to_apply=body
}}
"""
CALLERS = {
    "call": "v = f32[4] call(p), to_apply=body",
    "call of a call": "v = f32[4] call(p), to_apply=both",
    "while": "v = f32[4] while(p), condition=forever, body=body",
    "condition": "v = f32[4] conditional(c, p, p), true_computation=body, "
    "false_computation=wrapped",
    "branch": "v = f32[4] conditional(n, p, p), branch_computations={wrapped, both}",
    "fusion": "v = f32[4] fusion(p), kind=kLoop, calls=body",
    "async": "v = ((f32[4]), f32[4], s32[]) async-start(p), calls=body; w = f32[4] async-done(v)",
    "custom call": 'v = f32[4] custom-call(p), custom_call_target="c", called_computations={body}',
}

NOT_FOR_THE_CPU = ("fusion", "async", "custom call")


@pytest.mark.parametrize("name", CALLERS)
def test_liveness_looks_through_callees(name, oracle):
    extra = "c = pred[] constant(true); n = s32[] constant(1); "
    with_effect = module(extra + CALLERS[name], COMPUTATIONS + INSIDE)
    without = with_effect.replace(OUTFEED, "")
    oracle.printed(with_effect)
    a, b = read_module(with_effect), read_module(without)
    assert not diff_modules(a, b).same
    assert not diff_modules(b, a).same
    plain = read_module(module("x = f32[] copy(k)"))
    assert diff_modules(b, plain).same
    sent = list(a.names).index("io")
    assert live_instructions(a)[sent]
    if name not in NOT_FOR_THE_CPU:
        assert oracle.acting(with_effect) == ["outfeed"]
        assert oracle.acting(without) == []


TIED = """HloModule m
ENTRY e {{
  p = f32[4] parameter(0)
  a = f32[4] negate(p)
  b = f32[4] cosine(p){}
  ROOT r = f32[4] add(p, p)
}}
"""


def test_control_edges_keep_what_they_tie():
    tied = read_module(TIED.format(", control-predecessors={a}"))
    assert [tied.names[i] for i in tied.effects] == ["b"]
    assert sum(live_instructions(tied)) == 4
    free = read_module(TIED.format(""))
    assert free.effects == ()
    assert not diff_modules(tied, free).same


def test_needed_instructions_with_control_edges_do_not_act():
    text = TIED.format(", control-predecessors={a}").replace("add(p, p)", "add(p, b)")
    assert read_module(text).effects == ()


def test_many_computations_in_a_row():
    """Effects are carried up through 20,000 calls, without recursion."""
    text = "HloModule m\nc0 {\n  i = f32[4] parameter(0)\n  it = token[] after-all()\n"
    text += "  io = token[] outfeed(i, it)\n  ROOT r = f32[4] negate(i)\n}\n"
    for k in range(1, 20_000):
        text += f"c{k} {{\n  p = f32[4] parameter(0)\n"
        text += f"  ROOT r = f32[4] call(p), to_apply=c{k - 1}\n}}\n"
    text += "ENTRY e {\n  p = f32[4] parameter(0)\n  v = f32[4] call(p), to_apply=c19999\n"
    text += "  ROOT r = f32[4] negate(p)\n}\n"
    read = read_module(text)
    assert len(read.effects) == 20_001
    assert read.names[read.effects[-1]] == "v"


NOTE = 'custom-call({}), custom_call_target="xla.sdy.FuncResultSharding", '
NOTE += "custom_call_has_side_effect=true"


def test_notes_to_the_partitioner_have_no_order():
    """They act for XLA, so that it keeps them; where they are needed that says enough."""
    lines = [f"  x = f32[4] {NOTE.format('p')}", f"  y = f32[4] {NOTE.format('q')}"]
    text = (
        "HloModule m\nENTRY e {{\n  p = f32[4] parameter(0)\n  q = f32[4] parameter(1)\n{}\n{}\n"
        "  ROOT t = (f32[4], f32[4]) tuple({})\n}}\n"
    )
    one, other = (
        read_module(text.format(*order, "x, y")) for order in (lines, list(reversed(lines)))
    )
    assert one.effects == other.effects == ()
    assert diff_modules(one, other).same
    dead = read_module(text.format(*lines, "p, q"))
    assert len(dead.effects) == 2
    assert sum(live_instructions(dead)) == 5
