"""What a captured run says of real programs: kinds, call sites, names, buckets."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from xlagraph.run.reader import read_run
from xlagraph.tensors import Role, Tensor

pytestmark = pytest.mark.torch_xla

EXAMPLE = Path(__file__).parents[2] / "examples" / "fsdp_bucket_carry.py"


def only_process(folder):
    (process,) = read_run(folder).processes
    return process


def line_of(program, text):
    return next(n for n, line in enumerate(program.splitlines(), 1) if text in line)


def test_bucket_example_names_what_it_carries(run_program, tmp_path):
    done = run_program(EXAMPLE, XLAGRAPH="1", STEPS="4", BLOCKS="1", BUCKET="0.1")
    assert "xlagraph: " in done.stderr
    assert "xlagraph explain" in done.stderr
    process = only_process(tmp_path / "xlagraph-run")
    carried = [sync for sync in process.syncs if sync.buckets]
    assert carried
    names = {str(one) for sync in carried for bucket in sync.buckets for one in bucket.tensors}
    assert "root: head.weight shard" in names
    assert "blocks.0.inner: weight shard" in names
    assert all(bucket.callbacks == len(bucket.tensors) for s in carried for bucket in s.buckets)
    assert {flush.emptied for flush in process.flushes} == {True, False}
    later = process.graphs[-1]
    outputs = [one for one in later.outputs if one and one.role is Role.WAITING]
    assert outputs
    inputs = [one.tensor for one in later.parameters if one.tensor.role is Role.WAITING]
    assert inputs


def test_fixed_example_is_stable(run_program, tmp_path):
    run_program(EXAMPLE, XLAGRAPH="1", STEPS="5", BLOCKS="1", MODE="fixed")
    process = only_process(tmp_path / "xlagraph-run")
    assert not any(sync.buckets for sync in process.syncs)
    assert [sync.outcome for sync in process.syncs[-3:]] == ["hit"] * 3
    assert len({sync.graphs for sync in process.syncs[-3:]}) == 1


def test_names_of_parameters_and_optimizer_state(run_program, programs, tmp_path):
    run_program(programs / "scenarios.py", SCENARIO="momentum", XLAGRAPH="1")
    graph = only_process(tmp_path / "xlagraph-run").graphs[-1]
    momentum = Tensor("2", "bias", Role.STATE, "SGD", "momentum_buffer")
    assert {Tensor("0", "weight", Role.PARAMETER), momentum} <= set(graph.outputs)
    known = {one.tensor for one in graph.parameters}
    assert Tensor("0", "weight", Role.PARAMETER) in known
    assert momentum in known
    assert dict(graph.key)["live_tensors_agree"] == "True"


BUSY_DATA = """
import torch, torch_xla
def refuse(tensors):
    raise RuntimeError("Check failed: HasValue()")
torch_xla._XLAC._get_tensors_xla_device_data_node = refuse
for step in range(3):
    x = torch.ones(3 + step, device="xla") * 2
    torch_xla.sync()
"""


def test_data_that_is_still_computed_has_no_names_yet(run_program, tmp_path):
    """torch_xla 2.5 refuses to say which data a graph reads while that is being computed."""
    run_program(BUSY_DATA, XLAGRAPH="1")
    process = only_process(tmp_path / "xlagraph-run")
    assert process.notes == ()
    assert len(process.graphs) == 3
    assert all("root_hashes" in dict(graph.key) for graph in process.graphs)


KINDS = """
import torch, torch_xla, torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
model = torch.nn.Linear(4, 4).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4, device="xla")
torch_xla.sync()
def region(x):
    return model(x).sum()
torch_xla.compile(region)(x)  # region
model(x).sum().backward()
xm.optimizer_step(optimizer, barrier=True)  # optimizer
held = []
for batch in pl.MpDeviceLoader([torch.ones(2, 4)] * 2, torch_xla.device()):  # loader
    held.append(model(batch) * 3)
(x * 2).sum().item()  # item
if (x * 5).sum() > 3:  # branch
    pass
(x * 7).cpu()  # cpu
(x - 11).sum(0).to("cpu")  # to
class Sync(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        torch_xla.sync()  # backward
        return grad * 2
Sync.apply(model(x) * 13).sum().backward()  # outer
@torch.compile(backend="openxla")
def compiled(a):
    return torch.sin(a) + 17
with torch.no_grad():
    for _ in range(3):
        compiled(x)  # dynamo
"""


def test_every_way_in_is_seen_with_its_call_site(run_program, tmp_path):
    program = tmp_path / "kinds.py"
    program.write_text(KINDS)
    run_program(program, XLAGRAPH="1")
    process = only_process(tmp_path / "xlagraph-run")
    seen = {}
    for sync in process.syncs:
        if sync.outcome != "empty":
            line = sync.call_site[0].line if sync.call_site else 0
            seen.setdefault(line, []).append((sync.kind, sync.entry))
    expected = {
        "# region": ("compile", "compile"),
        "# optimizer": ("step", "optimizer_step"),
        "# loader": ("step", "parallel_loader"),
        "# item": ("value", "item"),
        "# branch": ("value", "__bool__"),
        "# cpu": ("value", "cpu"),
        "# to": ("value", "unseen"),
        "# backward": ("step", "sync"),
    }
    for mark, kind in expected.items():
        assert kind in seen[line_of(KINDS, mark)], mark
    (outer,) = [s for s in process.syncs if s.call_site and s.call_site[0].function == "backward"]
    assert outer.call_site[1].line == line_of(KINDS, "# outer")
    runs = [sync for sync in process.syncs if sync.entry == "run_cached"]
    assert len(runs) == 3
    (warm,) = [sync for sync in process.syncs if sync.entry == "warm_up"]
    assert {run.graphs for run in runs} == {warm.graphs}
    assert not process.notes


def test_level_two_tells_live_tensors_and_holders(run_program, programs, tmp_path):
    program = tmp_path / "leak.py"
    program.write_text(
        (programs / "scenarios.py")
        .read_text()
        .replace("    history, losses = [], []", "    global history\n    history, losses = [], []")
    )
    run_program(
        program,
        SCENARIO="running_loss",
        STEPS="3",
        XLAGRAPH="2",
        XLAGRAPH_HOLDERS="1",
        XLAGRAPH_STEPS="2-3",
    )
    process = only_process(tmp_path / "xlagraph-run")
    last = [sync for sync in process.syncs if sync.kind == "step"][-1]
    assert last.live_tensors
    leaked = [
        (one, holder)
        for one in last.live_tensors
        for holder in one.holders
        if (holder.via, holder.owner) == ("list", "__main__")
    ]
    assert leaked
    assert leaked[0][1].name.startswith("history[")
    assert leaked[0][0].created[0].file == "leak.py"
    assert {one.output for one in last.live_tensors} == set(range(len(last.live_tensors)))


def test_a_users_own_dump_folder_is_read_and_left_alone(run_program, programs, tmp_path):
    theirs = tmp_path / "theirs"
    run_program(
        programs / "scenarios.py",
        SCENARIO="momentum",
        STEPS="3",
        XLAGRAPH="1",
        XLA_FLAGS=f"--xla_dump_to={theirs}",
    )
    run = read_run(tmp_path / "xlagraph-run")
    texts = {path.read_text() for path in theirs.glob("*.before_optimizations.txt")}
    graphs = run.processes[0].graphs
    assert {run.graph_text(graph.digest) for graph in graphs} == texts
    assert list(theirs.glob("*.o"))


def test_late_context_says_what_it_cannot_see(run_program, tmp_path):
    code = """
import torch, torch_xla, xlagraph
model = torch.nn.Linear(4, 4).to("xla")
torch_xla.sync()
with xlagraph.capture("late"):
    for _ in range(3):
        y = model(torch.ones(2, 4).to("xla"))
        torch_xla.sync()
"""
    run_program(code)
    run = read_run(tmp_path / "late")
    (process,) = run.processes
    assert [note.what for note in process.notes] == ["late"]
    assert process.graphs
    assert run.graph_text(process.graphs[0].digest).startswith("HloModule")


def test_two_captures_at_once(run_program, tmp_path):
    code = """
import torch, xlagraph
with xlagraph.capture("outer"):
    import torch_xla
    x = torch.ones(2, 4, device="xla")
    torch_xla.sync()
    with xlagraph.capture("inner"):
        y = x * 2
        torch_xla.sync()
    z = x * 3 + y
    torch_xla.sync()
"""
    run_program(code, XLAGRAPH="1")
    counts = [
        len(only_process(tmp_path / name).syncs) for name in ("xlagraph-run", "outer", "inner")
    ]
    assert counts == [3, 3, 1]


def test_same_numbers_from_run_command(run_program, programs, tmp_path):
    code = "import sys; from xlagraph.cli import main; sys.argv[0] = 'xlagraph'; main()"
    done = run_program(
        code, "run", "-o", "folder", str(programs / "scenarios.py"), SCENARIO="momentum", STEPS="3"
    )
    assert json.loads(done.stdout.splitlines()[-1])["UncachedCompile"] == 2
    assert len(only_process(tmp_path / "folder").graphs) == 2
    failing = run_program(code, "run", "-m", "no_such_module", check=False)
    assert failing.returncode == 1


WAITING = """
import torch, torch_xla
from torch_xla.distributed.fsdp.utils import BucketizedReduceScatter
bucket = BucketizedReduceScatter(1, 1, None, True)
def step(left):
    bucket.bucket.clear(), bucket.callbacks.clear()
    bucket.bucket_watermark = 0
    for number in range(left):
        gradient = torch.ones(4, device="xla") * 3
        def done(result):
            pass
        bucket(gradient, [].append if number else done)
    torch_xla.sync()
for left in [1] * 24 + [2] * 24 + [1, 2]:
    step(left)
"""


def test_tensors_that_wait_in_every_step_are_recorded_briefly(run_program, tmp_path):
    run_program(WAITING, XLAGRAPH="1")
    folder = tmp_path / "xlagraph-run"
    steps = [sync for sync in only_process(folder).syncs if sync.kind == "step"]
    waiting = [len(sync.buckets[0].tensors) for sync in steps]
    assert waiting == [1] * 24 + [2] * 24 + [1, 2]
    assert {sync.buckets[0].callbacks for sync in steps} == {1, 2}
    lines = "".join(path.read_text() for path in folder.glob("records-*.jsonl"))
    assert lines.count('"record":"again"') >= 20


ALTERNATING = """
import torch, torch_xla
w = torch.ones(8, device="xla")
torch_xla.sync()
for step in range(40):
    x = w * 2
    x = x.sin().add_(1) if step % 2 else x.cos().sqrt().abs_()  # as many tensors, other graphs
    torch_xla.sync()
"""


def test_graphs_that_alternate_at_one_line_are_told_apart(run_program, tmp_path):
    run_program(ALTERNATING, XLAGRAPH="1")
    hits = [s for s in only_process(tmp_path / "xlagraph-run").syncs if s.outcome == "hit"]
    assert len(hits) == 38
    assert len({sync.graphs for sync in hits}) == 2
    assert all(one.graphs != other.graphs for one, other in pairwise(hits))


UNDER_GRAD = """
import torch, torch_xla
x = torch.ones((), device="xla")
torch_xla.sync()
def loss(y):
    z = y * 2
    return z.sin() if z > 0 else z  # read
for step in range(3):
    gradient = torch.func.grad(loss)(x)
    torch_xla.sync()
"""


def test_reads_under_torch_func_have_their_line(run_program, tmp_path):
    run_program(UNDER_GRAD, XLAGRAPH="1")
    reads = [s for s in only_process(tmp_path / "xlagraph-run").syncs if s.kind == "value"]
    assert [read.entry for read in reads] == ["__bool__"] * 3
    assert {read.call_site[0].line for read in reads} == {
        UNDER_GRAD.splitlines().index("    return z.sin() if z > 0 else z  # read") + 1
    }
