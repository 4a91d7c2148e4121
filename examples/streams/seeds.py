"""The three mistakes that the stream analysis was built for, each wrong and mended.

- ``stages``: memory handed from stream to stream and dropped, without ``record_stream``
  (pytorch/pytorch issue 33909).
- ``bucket``: gradients copied into one bucket on two streams, reduced after a wait for one of
  them (DeepSpeed issue 8061).
- ``gradient``: ``backward`` called on one stream with an initial gradient filled on another
  (pytorch/pytorch pull request 45787, and "Stream semantics of backward passes" in its notes).

Each program is a function that runs once; kernels are long enough for the mistake to show in
results too. Run them twice and look at the second time: the first loads kernels, which hides it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

CYCLES_PER_MS = 1_500_000
N = 1 << 20


def sleep(milliseconds: float) -> None:
    """Keeps the current stream busy."""
    torch.cuda._sleep(int(milliseconds * CYCLES_PER_MS))


class SlowBackward(torch.autograd.Function):
    """The identity, with a backward that takes its time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, milliseconds: float) -> torch.Tensor:
        ctx.milliseconds = milliseconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if ctx.milliseconds:
            sleep(ctx.milliseconds)
        return gradient * 1.0, None


# ---- memory handed from stream to stream


def handed_over(*, recorded: bool) -> None:
    """One tensor, used on a second stream and dropped before that is done."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        x = torch.full((N,), 1.0, device="cuda")
    second.wait_stream(first)
    with torch.cuda.stream(second):
        sleep(20)
        y = x * 2
        if recorded:
            x.record_stream(second)
    del x
    with torch.cuda.stream(first):
        z = torch.full((N,), 7.0, device="cuda")
    torch.cuda.synchronize()
    del y, z


def pipeline(*, recorded: bool, stages: int = 4, micro: int = 5, width: int = 512) -> None:
    """Pipeline stages on a stream each; activations and gradients go from stage to stage."""
    layers = [nn.Linear(width, width).cuda() for _ in range(stages)]
    batches = [torch.randn(64, width, device="cuda") for _ in range(micro)]
    streams = [torch.cuda.Stream() for _ in range(stages)]
    torch.cuda.synchronize()
    kept = []
    for batch in batches:
        x, done, chain = batch, None, []
        for layer, stream in zip(layers, streams, strict=True):
            if done is not None:
                stream.wait_event(done)
            with torch.cuda.stream(stream):
                entry = x.detach().mul(1.0).requires_grad_()
                if recorded and x is not batch:
                    x.record_stream(stream)
                sleep(0.3)
                result = torch.tanh(layer(entry))
                x = result.detach().clone()  # handed over; this stage lets go of it
                done = torch.cuda.Event()
                done.record(stream)
            chain.append((entry, result))
        kept.append((chain, done))
    for chain, done in kept:
        gradient = None
        for (entry, result), stream in zip(reversed(chain), reversed(streams), strict=True):
            stream.wait_event(done)
            with torch.cuda.stream(stream):
                if gradient is None:
                    first = result.detach() * 2e-3
                else:
                    first = gradient.mul(1.0)
                    if recorded:
                        gradient.record_stream(stream)
                result.backward(gradient=first)
                gradient, entry.grad = entry.grad, None
                done = torch.cuda.Event()
                done.record(stream)
    torch.cuda.synchronize()


# ---- a bucket filled on two streams


def bucket(*, all_producers: bool, slow_first: bool = False, compiled: bool = False) -> None:
    """Gradient hooks fill a bucket on the streams of their parameters; a third one reduces it."""
    size = 1 << 16
    a, b, reduction = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
    plan = [(b, 30.0), (a, 0.0)] if slow_first else [(a, 0.0), (b, 30.0), (a, 0.0)]
    weights = [nn.Parameter(torch.full((size,), 1.0, device="cuda")) for _ in plan]
    buffer, reduced = (torch.zeros(4 * size, device="cuda") for _ in range(2))
    copied: list[Any] = []
    producers: set[Any] = set()
    torch.cuda.synchronize()

    def reduce() -> None:
        current = torch.cuda.current_stream()
        for stream in producers if all_producers else {current}:
            reduction.wait_stream(stream)
        current.wait_stream(reduction)
        with torch.cuda.stream(reduction):
            filled = len(copied) * size
            reduced.narrow(0, 0, filled).copy_(buffer.narrow(0, 0, filled))

    def hook(weight: Any) -> None:
        part = buffer.narrow(0, len(copied) * size, size)
        part.copy_(weight.grad.view(-1))
        weight.grad.data = part.view_as(weight.grad)
        producers.add(torch.cuda.current_stream())
        copied.append(weight)
        if len(copied) == len(plan):
            reduce()

    def tail(x: torch.Tensor) -> torch.Tensor:
        return (x * 3.0).sum()

    run = torch.compile(tail) if compiled else tail
    for weight in weights:
        weight.register_post_accumulate_grad_hook(hook)
    parts = []
    for weight, (stream, milliseconds) in reversed(list(zip(weights, plan, strict=True))):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            parts.append(run(SlowBackward.apply(weight, milliseconds)))
    for stream in (a, b):
        torch.cuda.current_stream().wait_stream(stream)
    sum(parts[1:], parts[0]).backward()
    torch.cuda.synchronize()


# ---- an initial gradient filled elsewhere


def gradient(form: str) -> None:
    """The forms of ``backward(gradient=...)``, safe and unsafe, by their letter."""
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    weight = torch.ones(N, device="cuda", requires_grad=True)
    filled = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    if form in ("C1", "E"):
        loss = weight * 2.0
    else:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = weight * 2.0
    torch.cuda.synchronize()
    _FORMS[form](loss, filled, side, other)
    torch.cuda.synchronize()


def _implicit(loss: Any, _filled: Any, side: Any, _other: Any) -> None:
    with torch.cuda.stream(side):
        loss.sum().backward()


def _same_stream(loss: Any, filled: Any, side: Any, _other: Any) -> None:
    with torch.cuda.stream(side):
        sleep(10)
        filled.fill_(1.0)
        loss.backward(gradient=filled)


def _no_wait(loss: Any, filled: Any, side: Any, _other: Any) -> None:
    sleep(20)
    filled.fill_(1.0)
    with torch.cuda.stream(side):
        loss.backward(gradient=filled)


def _no_wait_ones(loss: Any, _filled: Any, side: Any, _other: Any) -> None:
    sleep(20)
    ones = torch.ones_like(loss)
    with torch.cuda.stream(side):
        loss.backward(gradient=ones)


def _with_wait(loss: Any, filled: Any, side: Any, _other: Any) -> None:
    sleep(20)
    filled.fill_(1.0)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        filled.record_stream(side)
        loss.backward(gradient=filled)


def _called_elsewhere(loss: Any, filled: Any, side: Any, _other: Any) -> None:
    with torch.cuda.stream(side):
        sleep(20)
        filled.fill_(1.0)
    loss.backward(gradient=filled)


def _three_streams(loss: Any, filled: Any, _side: Any, other: Any) -> None:
    with torch.cuda.stream(other):
        sleep(20)
        filled.fill_(1.0)
    loss.backward(gradient=filled)


def _three_streams_ones(loss: Any, _filled: Any, _side: Any, other: Any) -> None:
    with torch.cuda.stream(other):
        sleep(20)
        ones = torch.ones_like(loss)
    loss.backward(gradient=ones)


_FORMS: dict[str, Callable[[Any, Any, Any, Any], None]] = {
    "A": _implicit,
    "B": _same_stream,
    "C": _no_wait,
    "Cones": _no_wait_ones,
    "C1": _no_wait,
    "D": _with_wait,
    "E": _same_stream,
    "F": _called_elsewhere,
    "G": _three_streams,
    "Gones": _three_streams_ones,
}

PROGRAMS: dict[str, tuple[Callable[[], None], str]] = {
    "stages_min_wrong": (partial(handed_over, recorded=False), "reuse"),
    "stages_min_mended": (partial(handed_over, recorded=True), ""),
    "stages_wrong": (partial(pipeline, recorded=False), "reuse"),
    "stages_mended": (partial(pipeline, recorded=True), ""),
    "bucket_wrong": (partial(bucket, all_producers=False), "bucket-race"),
    "bucket_mended": (partial(bucket, all_producers=True), ""),
    "bucket_base_wrong": (partial(bucket, all_producers=False, slow_first=True), "bucket-race"),
    "bucket_base_mended": (partial(bucket, all_producers=True, slow_first=True), ""),
    "bucket_compiled_wrong": (partial(bucket, all_producers=False, compiled=True), "bucket-race"),
    "bucket_compiled_mended": (partial(bucket, all_producers=True, compiled=True), ""),
    **{
        f"gradient_{form}": (
            partial(gradient, form),
            "initial-gradient" if form in ("C", "Cones", "G", "Gones") else "",
        )
        for form in _FORMS
    },
}
"""Each program, and the kind that is to be found in it; ``""`` for none."""
