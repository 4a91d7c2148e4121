"""DistributedDataParallel's buckets by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streams.record.fake import Recorded

from xlagraph.streams.analyze import analyze
from xlagraph.streams.log import Log
from xlagraph.streams.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture(autouse=True)
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def replica(*, width: int = 64, layers: int = 4, **options: object) -> nn.Module:
    """Buckets of two weights each; the first pass sends them as one, and sorts them."""
    net = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
    size = 2 * 4 * width * width / 2**20
    replica = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=size, **options)
    for _ in range(3):
        backward(replica, width)
    return replica


def backward(net: nn.Module, width: int = 64) -> None:
    net(torch.ones(3, width)).sum().backward()


def buckets(recorded: Recorded) -> list[str | None]:
    """What each collective reduces."""
    return [one.get("bucket") for one in recorded.of("op") if "allreduce" in one["op"]]


@pytest.mark.parametrize("views", [False, True])
def test_collectives_have_the_numbers_of_their_buckets(tmp_path: Path, *, views: bool) -> None:
    net = replica(gradient_as_bucket_view=views)
    with Recorded(tmp_path / "log") as recorded:
        for _ in range(2):
            backward(net)
            net.zero_grad()
    sizes = [one["r"][0][2] for one in recorded.of("op") if "allreduce" in one["op"]]
    assert sizes == [2 * 4 * 64 * 64] * 4
    assert buckets(recorded) == [f"DDP bucket {k} of Sequential" for k in (0, 1, 0, 1)]


def test_without_synchronization_nothing_is_counted(tmp_path: Path) -> None:
    net = replica()
    with Recorded(tmp_path / "log") as recorded:
        with net.no_sync():
            backward(net)
        backward(net)
    assert buckets(recorded) == [f"DDP bucket {k} of Sequential" for k in (0, 1)]


def test_two_replicas_count_for_themselves(tmp_path: Path) -> None:
    first, second = replica(), replica(layers=2)
    with Recorded(tmp_path / "log") as recorded:
        (first(torch.ones(3, 64)).sum() + second(torch.ones(3, 64)).sum()).backward()
    numbers = sorted(str(one).split()[2] for one in buckets(recorded))
    assert numbers == ["0", "0", "1"]


def test_a_backward_within_another_does_not_begin_again(tmp_path: Path) -> None:
    class Within(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_ctx: object, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            with torch.enable_grad():
                torch.ones(2, requires_grad=True).sum().backward()
            return grad

    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)),
        bucket_cap_mb=4 * 64 * 64 / 2**20,
    )

    def run() -> None:
        first, second = net.module

        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return second(Within.apply(first(x)))

        net.module.forward = Net().forward
        backward(net)

    for _ in range(3):
        run()
    with Recorded(tmp_path / "log") as recorded:
        run()
    assert buckets(recorded) == [f"DDP bucket {k} of Sequential" for k in (0, 1)]


def test_which_parameters_were_used_is_no_bucket(tmp_path: Path) -> None:
    net = replica(find_unused_parameters=True)
    with Recorded(tmp_path / "log") as recorded:
        backward(net)
    assert buckets(recorded)[:2] == [f"DDP bucket {k} of Sequential" for k in (0, 1)]
    assert not any(buckets(recorded)[2:])


def test_other_collectives_and_those_of_a_hook_have_no_bucket(tmp_path: Path) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    net = replica()
    net.register_comm_hook(None, allreduce_hook)
    with Recorded(tmp_path / "log") as recorded:
        backward(net)
        torch.distributed.all_reduce(torch.ones(3))
    assert buckets(recorded) == [None, None, None]


def test_a_race_in_a_bucket_has_its_name(tmp_path: Path) -> None:
    """One gradient is changed on a side stream, and the bucket is sent without waiting for it."""
    net = replica(gradient_as_bucket_view=True)
    last = list(net.parameters())[-1]
    with Recorded(tmp_path / "log") as recorded:

        def clip(parameter: torch.Tensor) -> None:
            with recorded.device.on(7):
                assert parameter.grad is not None
                parameter.grad.clamp_(-1, 1)

        handle = last.register_post_accumulate_grad_hook(clip)
        backward(net)
        handle.remove()
    analysis = analyze(Log.open(str(tmp_path / "log")))
    found = [one.bucket.name for one in analysis.findings if one.bucket is not None]
    assert found == ["DDP bucket 0 of Sequential"]
    assert {one.kind for one in analysis.findings} <= {Kind.BUCKET_RACE, Kind.RACE}


def test_a_model_made_while_recording_is_known_from_its_first_backward_on(tmp_path: Path) -> None:
    with Recorded(tmp_path / "log") as recorded:
        net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4, bias=False)))
        backward(net, 4)
    (sent,) = (one for one in recorded.of("op") if "allreduce" in one["op"])
    assert (sent["bucket"], sent["param"]) == ("DDP bucket 0 of Sequential", "module.0.weight")
