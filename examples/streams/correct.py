"""Twenty correct programs with streams: an analysis must find nothing in any of them."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import torch
from seeds import N, SlowBackward, sleep
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable


def _net(width: int = 128) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, width)
    ).cuda()


def _steps(net: nn.Module, batches: Any, **options: Any) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, **options)
    for batch in batches:
        loss = net(batch).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    loss.item()


def plain() -> None:
    """Training on the default stream."""
    _steps(_net(), (torch.randn(64, 128, device="cuda") for _ in range(3)))


def fused_optimizer() -> None:
    """The same with the fused optimizer and gradients clipped."""
    net = _net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    for _ in range(2):
        net(torch.randn(64, 128, device="cuda")).pow(2).mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def mixed_precision() -> None:
    """Autocast and a gradient scaler."""
    net, scaler = _net(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(64, 128, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def whole_step_on_a_side_stream() -> None:
    """Everything on one side stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _steps(_net(), (torch.randn(64, 128, device="cuda") for _ in range(2)))
    torch.cuda.current_stream().wait_stream(side)


def prefetch() -> None:
    """The next batch is copied on a side stream while this one is used."""
    side, net = torch.cuda.Stream(), _net()
    hosts = [torch.randn(64, 128).pin_memory() for _ in range(4)]

    def load(host: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(side):
            return host.to("cuda", non_blocking=True)

    following = load(hosts[0])
    for host in [*hosts[1:], None]:
        torch.cuda.current_stream().wait_stream(side)
        batch = following
        batch.record_stream(torch.cuda.current_stream())
        if host is not None:
            following = load(host)
        net(batch).pow(2).mean().backward()
    torch.cuda.synchronize()


def prefetch_thread() -> None:
    """A thread copies batches on its stream and hands them over with an event each."""
    ready: queue.Queue[Any] = queue.Queue(2)

    def load() -> None:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                batch = torch.randn(64, 128).pin_memory().to("cuda", non_blocking=True)
                done = torch.cuda.Event()
                done.record(side)
                side.synchronize()  # before the pinned memory goes
                ready.put((batch, done))
        ready.put(None)

    thread, net = threading.Thread(target=load), _net()
    thread.start()
    while (item := ready.get()) is not None:
        batch, done = item
        done.wait()
        batch.record_stream(torch.cuda.current_stream())
        net(batch).sum().backward()
    thread.join()


def two_branches() -> None:
    """Two branches of a model on two streams, joined before the loss."""
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    left, right = _net(), _net()
    x = torch.randn(64, 128, device="cuda")
    for _ in range(2):
        current, parts = torch.cuda.current_stream(), []
        for stream, net in ((a, left), (b, right)):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                part = net(x)
                part.record_stream(current)
                parts.append(part)
        for stream in (a, b):
            current.wait_stream(stream)
        (parts[0] * parts[1]).sum().backward()
        torch.cuda.synchronize()


def bucket_of_all_producers() -> None:
    """A bucket filled by hooks on two streams and reduced when both are done, for three steps."""
    size = 1 << 14
    a, b, reduction = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
    weights = [nn.Parameter(torch.ones(size, device="cuda")) for _ in range(4)]
    buffer, total = (torch.zeros(4 * size, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    producers: set[Any] = set()

    def hook(place: int) -> Callable[[Any], None]:
        def copy(weight: Any) -> None:
            buffer.narrow(0, place * size, size).copy_(weight.grad)
            weight.grad = None
            producers.add(torch.cuda.current_stream())

        return copy

    for place, weight in enumerate(weights):
        weight.register_post_accumulate_grad_hook(hook(place))
    current = torch.cuda.current_stream()
    for _ in range(3):
        producers.clear()
        parts = []
        for place, weight in enumerate(weights):
            stream = (a, b)[place % 2]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                part = (SlowBackward.apply(weight, place) * 2).sum()
                part.record_stream(current)
                parts.append(part)
        for stream in (a, b):
            current.wait_stream(stream)
        sum(parts[1:], parts[0]).backward()
        for stream in {*producers, current}:
            reduction.wait_stream(stream)
        with torch.cuda.stream(reduction):
            total.copy_(buffer)
        current.wait_stream(reduction)


def two_buffers() -> None:
    """Two buffers in turns: each is filled again when it has been sent."""
    send = torch.cuda.Stream()
    buffers = [torch.zeros(N, device="cuda") for _ in range(2)]
    sent = [torch.zeros(N, device="cuda") for _ in range(2)]
    done: list[Any] = [None, None]
    torch.cuda.synchronize()
    for step in range(6):
        turn = step % 2
        if done[turn] is not None:
            torch.cuda.current_stream().wait_event(done[turn])
        buffers[turn].fill_(float(step))
        send.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(send):
            sent[turn].copy_(buffers[turn])
            done[turn] = torch.cuda.Event()
            done[turn].record(send)
    torch.cuda.synchronize()


def polled_event() -> None:
    """The host asks an event until it is done."""
    side = torch.cuda.Stream()
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        sleep(5)
        x.fill_(1.0)
        done = torch.cuda.Event()
        done.record()
    while not done.query():
        pass
    (x + 1).sum().item()


def host_waits() -> None:
    """The host waits for a stream, an event and the device in turn."""
    side = torch.cuda.Stream()
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    for wait in (side.synchronize, torch.cuda.synchronize, None):
        with torch.cuda.stream(side):
            x.add_(1)
            done = torch.cuda.Event()
            done.record()
        (wait or done.synchronize)()
        x.mul_(2)
        torch.cuda.synchronize()


def copy_to_host() -> None:
    """Results go to pinned memory on a side stream; the host waits before it reads them."""
    side = torch.cuda.Stream()
    host = torch.empty(N, pin_memory=True)
    for _ in range(2):
        x = torch.randn(N, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host.copy_(x, non_blocking=True)
            x.record_stream(side)
        side.synchronize()
        float(host[0])


def columns() -> None:
    """Two streams write the two halves of a matrix's columns."""
    side = torch.cuda.Stream()
    x = torch.zeros(1024, 1024, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x[:, :512].fill_(1.0)
    x[:, 512:].fill_(2.0)
    torch.cuda.current_stream().wait_stream(side)
    x.sum().item()


def graph() -> None:
    """Training captured as a graph, replayed on the default stream."""
    net, side = _net(), torch.cuda.Stream()
    x = torch.randn(64, 128, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            net(x).pow(2).mean().backward()
    torch.cuda.current_stream().wait_stream(side)
    net.zero_grad(set_to_none=True)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = net(x).pow(2).mean()
        loss.backward()
    for _ in range(3):
        x.copy_(torch.randn(64, 128, device="cuda"))
        captured.replay()
        loss.item()


def graph_on_a_side_stream() -> None:
    """A graph replayed on a side stream that waits for its input, and is waited for."""
    side = torch.cuda.Stream()
    x, y = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y.copy_(x * 2)
    for step in range(3):
        x.fill_(float(step))
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            captured.replay()
        torch.cuda.current_stream().wait_stream(side)
        y.sum().item()


def checkpointed() -> None:
    """Activation checkpointing: a backward within the backward."""
    from torch.utils.checkpoint import checkpoint

    net = _net()
    x = torch.randn(64, 128, device="cuda", requires_grad=True)
    for _ in range(2):
        checkpoint(net, x, use_reentrant=True).sum().backward()
        checkpoint(net, x, use_reentrant=False).sum().backward()


def compiled() -> None:
    """A compiled model with its optimizer."""
    net = torch.compile(_net())
    _steps(net, (torch.randn(64, 128, device="cuda") for _ in range(3)))


def convolution() -> None:
    """A small image model: cuDNN, batch norm, dropout, pooling."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1),
        nn.Conv2d(16, 8, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10),
    ).cuda().to(memory_format=torch.channels_last)  # fmt: skip
    _steps(net, (torch.randn(8, 3, 32, 32, device="cuda") for _ in range(3)), foreach=True)


def collectives() -> None:
    """Gradients reduced as they come, waited for before the update."""
    from distributed import group

    net = _net()
    with group():
        works: list[Any] = []
        for weight in net.parameters():
            weight.register_post_accumulate_grad_hook(
                lambda w: works.append(torch.distributed.all_reduce(w.grad, async_op=True))
            )
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for _ in range(3):
            works.clear()
            net(torch.randn(64, 128, device="cuda")).pow(2).mean().backward()
            for work in works:
                work.wait()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        total = torch.ones(4, device="cuda")
        torch.distributed.all_reduce(total)
        total.sum().item()


def data_parallel() -> None:
    """DistributedDataParallel, with its buckets."""
    from distributed import group

    with group():
        net = nn.parallel.DistributedDataParallel(_net(), bucket_cap_mb=0.1)
        _steps(net, (torch.randn(64, 128, device="cuda") for _ in range(3)))


def data_parallel_on_two_streams() -> None:
    """Its hooks run on one stream, whatever streams the layers ran on."""
    from distributed import Branches, group

    with group():
        net = nn.parallel.DistributedDataParallel(Branches().cuda())
        x = torch.randn(64, 256, device="cuda")
        for _ in range(3):
            net(x).backward()
            torch.cuda.synchronize()


def cache_emptied() -> None:
    """Memory goes back to the driver and comes to another stream."""
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    x.mul_(2)
    del x
    torch.cuda.empty_cache()
    with torch.cuda.stream(side):
        y = torch.ones(N, device="cuda")
        y.mul_(3)
    torch.cuda.current_stream().wait_stream(side)
    y.sum().item()


PROGRAMS: dict[str, tuple[Callable[[], None], str]] = {
    one.__name__: (one, "")
    for one in (
        plain, fused_optimizer, mixed_precision, whole_step_on_a_side_stream, prefetch,
        prefetch_thread, two_branches, bucket_of_all_producers, two_buffers, polled_event,
        host_waits, copy_to_host, columns, graph, graph_on_a_side_stream, checkpointed, compiled,
        convolution, collectives, data_parallel, data_parallel_on_two_streams,
        cache_emptied,
    )
}  # fmt: skip
"""Each program; nothing is to be found in any."""
