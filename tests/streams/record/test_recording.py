"""A recording changes nothing, holds nothing, breaks nothing, and misses nothing it can see."""

from __future__ import annotations

import gc
import queue
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from streams.record.fake import Recorded

from xlagraph.streams.analyze import analyze
from xlagraph.streams.log import Log
from xlagraph.streams.model import Kind
from xlagraph.streams.record.device import Allocation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch")
nn = torch.nn


def training(steps: int = 3) -> Callable[[], list[float]]:
    """A small training loop; the same losses each time it is called."""

    def run() -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4)
        )
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
        losses = []
        for _ in range(steps):
            loss = net(torch.randn(5, 8)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return run


def test_losses_are_bit_equal(tmp_path: Path) -> None:
    plain = training()()
    with Recorded(tmp_path / "log") as recorded:
        assert training()() == plain
    assert training()() == plain
    assert len(recorded.of("op")) > 100


def test_everything_is_as_before_afterwards(tmp_path: Path) -> None:
    def patched() -> list[Any]:
        return [
            torch.autograd._engine_run_backward,
            torch.autograd.graph._engine_run_backward,
            torch.cuda.Event.query,
            torch.cuda.Stream.query,
            torch.cuda.CUDAGraph.replay,
            torch.cuda.CUDAGraph.capture_begin,
            torch.cuda.CUDAGraph.capture_end,
            threading.Thread.start,
            threading.Thread.join,
            queue.Queue.put,
            queue.Queue.get,
            torch._C._len_torch_dispatch_stack(),
        ]

    before = patched()
    with Recorded(tmp_path / "log") as recorded:
        assert patched() != before
    assert patched() == before
    assert recorded.device.callbacks == {}
    assert recorded.device.ended == 1


def test_no_tensor_is_kept_alive(tmp_path: Path) -> None:
    gc.disable()
    try:
        with Recorded(tmp_path / "log"):
            x = torch.randn(4, 4, requires_grad=True)
            y = (x @ x).sum()
            y.backward()
            dead = [weakref.ref(x), weakref.ref(y), weakref.ref(x.grad)]
            del x, y
            assert [one() for one in dead] == [None] * 3
    finally:
        gc.enable()


def test_an_operator_that_raises_raises_and_runs_once(tmp_path: Path) -> None:
    with (
        Recorded(tmp_path / "log") as recorded,
        pytest.raises(RuntimeError, match="must match"),
    ):
        torch.ones(3) + torch.ones(4)
    assert "add" in recorded.operators()


def test_a_hook_that_fails_is_switched_off_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = training()()
    recorded = Recorded(tmp_path / "log")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("broken hook")

    monkeypatch.setattr(recorded.recording.recorder, "begin", broken)
    monkeypatch.setattr(recorded.recording.recorder, "enter_node", broken)
    with recorded:
        assert training()() == plain
    assert capsys.readouterr().err.count("broken hook") >= 2
    (coverage,) = recorded.of("coverage")
    assert "operator: the hook failed and was switched off" in coverage["unseen"]


def test_a_log_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("mine")
    with pytest.raises(FileExistsError):
        Recorded(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "mine"


def test_what_was_flushed_outlives_a_kill(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "log")
    recorded.recording.start()
    torch.ones(3).add_(1)
    recorded.recording.step()
    analysis = analyze(Log.open(str(tmp_path / "log")))  # nothing was closed
    assert analysis.coverage.operators >= 2
    assert not analysis.coverage.stated
    recorded.recording.stop()


def test_the_size_of_a_log_is_bounded(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "log")
    recorded.recording._journal._left = 2000
    with recorded:
        for _ in range(100):
            torch.ones(3).add_(1)
            recorded.recording.recorder.flush()
    assert (tmp_path / "log").stat().st_size < 3000
    (coverage,) = recorded.of("coverage")
    assert "what came after the log had reached its largest size" in coverage["unseen"]


def test_nodes_have_their_forward_line_and_parameter(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    with Recorded(tmp_path / "log") as recorded:
        recorded.recording.step()
        net(torch.ones(1, 3)).sum().backward()
    records = recorded.of("op")
    (product,) = [one for one in records if one.get("node") == "AddmmBackward0"][:1]
    assert product["fwd_at"].endswith("test_nodes_have_their_forward_line_and_parameter")
    assert "/" not in product["fwd_at"].split(":")[0].removeprefix("tests/streams/record/")
    accumulated = [one for one in recorded.of("node") if one["name"].endswith("AccumulateGrad")]
    assert sorted(one["param"] for one in accumulated) == ["bias", "weight"]
    named = {one["tensor"] for one in recorded.of("mark") if one["name"] == "name"}
    assert {"weight", "bias"} <= named


def test_backward_has_its_initial_gradient_marked(tmp_path: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    gradient = torch.full((3,), 2.0)
    with Recorded(tmp_path / "log") as recorded:
        (x * 2).backward(gradient)
        torch.autograd.grad((x * 3).sum(), x)
    begins = [one for one in recorded.of("mark") if one["name"] == "backward_begin"]
    assert begins[0]["r"] == [[-1, gradient.data_ptr(), 12]]
    assert len(begins) == len([o for o in recorded.of("mark") if o["name"] == "backward_end"]) == 2


def test_a_graph_that_is_kept_is_hooked_once_a_backward(tmp_path: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    with Recorded(tmp_path / "log") as recorded:
        y = (x * 2).sum()
        y.backward(retain_graph=True)
        first = len(recorded.recording._journal._waiting)
        y.backward()
        second = len(recorded.recording._journal._waiting) - first
    names = [one["name"] for one in recorded.of("node")]
    assert names.count("MulBackward0") == 2
    assert second > 0


def test_tensors_that_stand_for_others_are_seen_by_their_parts(tmp_path: Path) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    a, b = torch.ones(4), torch.full((4,), 2.0)
    with Recorded(tmp_path / "log") as recorded:
        result = TwoTensor(a, b) * 3
    assert result.a.tolist() == [3.0] * 4
    reads = [item[1] for one in recorded.of("op") for item in one["r"]]
    assert a.data_ptr() in reads
    assert b.data_ptr() in reads


def test_fake_tensors_are_passed_over(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with Recorded(tmp_path / "log") as recorded:
        with FakeTensorMode():
            torch.add(torch.ones(3), 1)
        real = torch.ones(5) + 1
    made = [item for one in recorded.of("out") for item in one["w"]]
    assert [-1, real.data_ptr(), 20] in made
    assert all(item[1] for item in made)


# torch 2.11's own modules use its deprecated decorators when torch.compile loads them
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_compiled_function_stays_compiled(tmp_path: Path) -> None:
    calls: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        calls.append(len(graph.graph.nodes))
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2 + 1).relu(), backend=backend)
    with Recorded(tmp_path / "first") as recorded:
        before = compiled(torch.ones(4))
        again = compiled(torch.ones(4))
    assert len(calls) == 1  # compiled while recording, and once
    assert torch.equal(before, again)
    assert recorded.operators().count("relu") == 2
    with Recorded(tmp_path / "second"):
        compiled(torch.ones(4))
    compiled(torch.ones(4))
    assert len(calls) == 1
    torch._dynamo.reset()


def test_a_mode_of_the_programs_own_keeps_its_place(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            Counting.seen += 1
            return func(*args, **(kwargs or {}))

    recorded = Recorded(tmp_path / "log")
    with Counting():
        recorded.recording.start()  # begins within the program's block ...
        torch.ones(2)
    torch.zeros(2)
    assert Counting.seen == 1
    with Counting():
        recorded.recording.stop()  # ... and ends within another
        torch.ones(2)
    assert Counting.seen == 2
    assert torch._C._len_torch_dispatch_stack() == 0
    assert recorded.operators() == ["ones", "zeros"]


def test_higher_order_operators_pass(tmp_path: Path) -> None:
    from torch._higher_order_ops.wrap import wrap

    with Recorded(tmp_path / "log") as recorded:
        assert wrap(lambda x: x + 1, torch.ones(2)).tolist() == [2.0, 2.0]
    assert "add" in recorded.operators()


def test_threads_that_start_meanwhile_are_seen(tmp_path: Path) -> None:
    with Recorded(tmp_path / "log") as recorded:
        waiting: queue.Queue[Any] = queue.Queue()
        thread = threading.Thread(target=lambda: waiting.put(torch.ones(7).cumsum(0)))
        thread.start()
        waiting.get()
        thread.join()
        assert "run" not in thread.__dict__
    kinds = [one["k"] for one in recorded.records if one["k"] in ("tell", "hear", "op")]
    assert kinds[:2] == ["tell", "hear"]
    assert kinds.count("tell") == kinds.count("hear") == 3
    assert len({one["t"] for one in recorded.of("op")}) == 1
    assert "cumsum" in recorded.operators()


def test_allocations_get_their_sizes_by_address_and_order(tmp_path: Path) -> None:
    with Recorded(tmp_path / "log") as recorded:
        calls = recorded.device.callbacks
        for _ in range(2):
            calls["alloc"](512)
            calls["free"](512)
        calls["alloc"](1024)
        calls["alloc"](4096)
        recorded.device.made = [
            Allocation(512, 100, 5), Allocation(1024, 300, 6), Allocation(512, 200, 7),
        ]  # fmt: skip
    found = [(one["p"], one["n"], one["s"]) for one in recorded.of("alloc")]
    assert found == [(512, 100, 5), (512, 200, 7), (1024, 300, 6), (4096, 0, 0)]
    (coverage,) = recorded.of("coverage")
    assert coverage["unseen"]["allocations without a size"] == 1


def test_callbacks_become_records_in_order(tmp_path: Path) -> None:
    with Recorded(tmp_path / "log") as recorded:
        calls = recorded.device.callbacks
        calls["record"](7, 11)
        calls["wait"](7, 12)
        calls["sync_st"](11)
        calls["sync_ev"](7)
        calls["sync_dev"]()
        calls["ev_del"](7)
    found = [one for one in recorded.records if one["k"] not in ("mark", "coverage")]
    assert [one["k"] for one in found] == [
        "record", "wait", "sync_st", "sync_ev", "sync_dev", "ev_del",
    ]  # fmt: skip
    assert (found[1]["e"], found[1]["s"]) == (7, 12)


def test_a_torch_without_event_callbacks_leaves_order_unknown(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "log")
    recorded.device.absent = ["wait"]
    x = torch.ones(64)
    with recorded:
        with recorded.device.on(11):
            x.add_(1)
        with recorded.device.on(12):
            x.mul_(2)
    analysis = analyze(Log.open(str(tmp_path / "log")))
    assert [finding.doubt for finding in analysis.findings] == ["edges"]


def test_a_bucket_is_found_in_a_recording_with_its_parameters(tmp_path: Path) -> None:
    """The whole way: hooks on two streams fill a bucket, a third reduces it after one wait."""
    net = nn.ModuleDict({"first": nn.Linear(4, 4, bias=False), "second": nn.Linear(4, 4)})
    bucket, total = torch.zeros(48), torch.zeros(48)
    recorded = Recorded(tmp_path / "log")
    at = {"first.weight": (0, 21), "second.weight": (16, 22), "second.bias": (32, 21)}

    def hook(name: str) -> Callable[[Any], None]:
        def copy(parameter: Any) -> None:
            start, stream = at[name]
            with recorded.device.on(stream):
                bucket[start : start + parameter.numel()].copy_(parameter.grad.view(-1))

        return copy

    for name, parameter in net.named_parameters():
        parameter.register_post_accumulate_grad_hook(hook(name))
    with recorded:
        calls = recorded.device.callbacks
        net["second"](net["first"](torch.ones(2, 4))).sum().backward()
        calls["record"](5, 21)
        calls["wait"](5, 23)
        with recorded.device.on(23):
            total.copy_(bucket)
    analysis = analyze(Log.open(str(tmp_path / "log")))
    buckets = [one for one in analysis.findings if one.kind is Kind.BUCKET_RACE]
    assert len(buckets) == 1
    assert [one.parameter for one in buckets[0].earlier] == ["second.weight"]
    assert buckets[0].proof is not None
    assert buckets[0].proof.proved


class FakeGraph:
    """Has the three methods that a CUDA graph is recorded by."""

    def capture_begin(self) -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        pass


def test_a_graph_is_accessed_where_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    x, y = torch.ones(4), torch.ones(4)
    with Recorded(tmp_path / "log") as recorded:
        graph = FakeGraph()
        graph.capture_begin()
        y.copy_(x)
        y.add_(1)
        recorded.device.callbacks["record"](5, 21)
        recorded.device.callbacks["alloc"](4096)
        graph.capture_end()
        with recorded.device.on(31):
            graph.replay()
        FakeGraph().replay()
    operators = recorded.of("op")
    assert [one["op"] for one in operators] == ["cuda_graph_replay(2 operators)"]
    assert operators[0]["s"] == 31
    assert operators[0]["r"] == [[-1, x.data_ptr(), 16]]
    assert operators[0]["w"] == [[-1, y.data_ptr(), 16]]
    assert recorded.of("record") == []
    assert recorded.of("alloc")[0]["graph"] == 1
    (coverage,) = recorded.of("coverage")
    assert coverage["unseen"]["replays of CUDA graphs captured before recording"] == 1


def test_a_tensor_that_stays_where_it_is_is_named_once(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    with Recorded(tmp_path / "log") as recorded:
        recorded.recording.step()
        net.bias.data = torch.zeros(2)
        recorded.recording.step()
    named = [one["tensor"] for one in recorded.of("mark") if one["name"] == "name"]
    assert named.count("weight") == 1
    assert named.count("bias") == 2


class Doubled(torch.autograd.Function):
    """A function of the program's own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:  # noqa: ARG004
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ARG004
        return gradient * 2


@pytest.mark.filterwarnings("ignore:.torch.cpu.amp.autocast:FutureWarning")  # torch 2.4 itself
def test_functions_of_the_programs_own_and_backwards_within_backwards(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    def run() -> Any:
        x = torch.ones(3, requires_grad=True)
        y = checkpoint(lambda t: Doubled.apply(t).exp(), x, use_reentrant=True)
        checkpoint(torch.sin, y, use_reentrant=False).sum().backward()
        return x.grad

    plain = run()
    with Recorded(tmp_path / "log") as recorded:
        assert torch.equal(run(), plain)
    nodes = [one["name"] for one in recorded.of("node")]
    assert "DoubledBackward" in nodes
    assert "CheckpointFunctionBackward" in nodes
    begins = [one["name"] for one in recorded.of("mark") if one["name"].startswith("backward")]
    assert begins == ["backward_begin", "backward_begin", "backward_end", "backward_end"]
    (product,) = [one for one in recorded.of("op") if one.get("node") == "DoubledBackward"]
    assert product["at"].endswith(" backward")
