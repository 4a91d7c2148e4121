"""More mistakes with streams, beside those of `seeds`: each breaks a correct program once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

from seeds import N, sleep


def prefetch_without_wait() -> None:
    """A batch is copied on a side stream and used before the copy is done."""
    side = torch.cuda.Stream()
    host = torch.ones(N).pin_memory()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        sleep(10)
        batch = host.to("cuda", non_blocking=True)
    result = batch * 2
    torch.cuda.synchronize()
    del result


def prefetch_without_record() -> None:
    """Batches come from a side stream, and are dropped while the main stream still reads them."""
    side = torch.cuda.Stream()
    host = torch.ones(N).pin_memory()
    torch.cuda.synchronize()
    for _ in range(3):
        with torch.cuda.stream(side):
            batch = host.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        sleep(5)
        batch.mul_(2)
        del batch
    torch.cuda.synchronize()


def buffer_filled_again() -> None:
    """One buffer for all steps: it is filled for the next while the last is still sent."""
    send = torch.cuda.Stream()
    buffer = torch.zeros(N, device="cuda")
    sent = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    for step in range(3):
        buffer.fill_(float(step))
        send.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(send):
            sleep(5)
            sent.copy_(buffer)
    torch.cuda.synchronize()


def update_on_a_side_stream() -> None:
    """Weights are updated on a side stream; the next forward does not wait for it."""
    side = torch.cuda.Stream()
    weight = torch.randn(512, 512, device="cuda")
    gradient = torch.randn(512, 512, device="cuda")
    x = torch.randn(64, 512, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        sleep(5)
        weight.sub_(gradient)
    y = x @ weight
    torch.cuda.synchronize()
    del y


def replay_without_wait() -> None:
    """A graph's input is filled on one stream and the graph replayed on another."""
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    y = torch.empty_like(x)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y.copy_(x * 2)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x * 2)
    torch.cuda.synchronize()
    sleep(10)
    x.fill_(3.0)
    with torch.cuda.stream(side):
        graph.replay()
    torch.cuda.synchronize()


def event_recorded_too_early() -> None:
    """The event is recorded before the work that it is to stand for."""
    side = torch.cuda.Stream()
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    with torch.cuda.stream(side):
        done.record()
        sleep(10)
        x.fill_(1.0)
    torch.cuda.current_stream().wait_event(done)
    y = x + 1
    torch.cuda.synchronize()
    del y


def column_written_elsewhere() -> None:
    """Two streams write the columns of one matrix; one of them one column too far."""
    side = torch.cuda.Stream()
    x = torch.zeros(1024, 1024, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        sleep(5)
        x[:, :513].fill_(1.0)
    x[:, 512:].fill_(2.0)
    torch.cuda.synchronize()


def new_memory_without_wait() -> None:
    """Memory from the main stream's pool is filled on a side stream at once."""
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(2):
        x = torch.ones(N, device="cuda")
        sleep(5)
        y = x * 2
        del x
        fresh = torch.empty(N, device="cuda")
        with torch.cuda.stream(side):
            fresh.fill_(5.0)
        torch.cuda.current_stream().wait_stream(side)
        del y, fresh
    torch.cuda.synchronize()


def result_of_a_collective() -> None:
    """The result of an asynchronous all-reduce is used without ``work.wait()``."""
    from distributed import group

    with group():
        x = torch.ones(N, device="cuda")
        torch.cuda.synchronize()
        work = torch.distributed.all_reduce(x, async_op=True)
        y = x * 2
        work.wait()
        torch.cuda.synchronize()
        del y


def replica_with_hooks_on_two_streams() -> None:
    """A view of each weight, kept from before, makes its gradient's hook run on its stream.

    DistributedDataParallel's reducer waits for the stream of the hook that completes a bucket.
    """
    from distributed import Branches, group

    with group():
        net = Branches().cuda()
        kept = []
        for stream, layer in zip(net.streams, net.layers, strict=True):
            with torch.cuda.stream(stream):
                kept.append(layer.weight.view(-1))
        replica = torch.nn.parallel.DistributedDataParallel(net)
        x = torch.randn(64, 256, device="cuda")
        for _ in range(3):
            replica(x).backward()
            torch.cuda.synchronize()
        del kept


PROGRAMS: dict[str, tuple[Callable[[], None], str]] = {
    "prefetch_without_wait": (prefetch_without_wait, "race"),
    "prefetch_without_record": (prefetch_without_record, "reuse"),
    "buffer_filled_again": (buffer_filled_again, "race"),
    "update_on_a_side_stream": (update_on_a_side_stream, "race"),
    "replay_without_wait": (replay_without_wait, "race"),
    "event_recorded_too_early": (event_recorded_too_early, "race"),
    "column_written_elsewhere": (column_written_elsewhere, "race"),
    "new_memory_without_wait": (new_memory_without_wait, "reuse"),
    "result_of_a_collective": (result_of_a_collective, "race"),
    "replica_with_hooks_on_two_streams": (replica_with_hooks_on_two_streams, "bucket-race"),
}
"""Each program, and the kind that is to be found in it."""
