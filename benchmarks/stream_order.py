"""Records a second of the stream analysis: ``python benchmarks/stream_order.py [RECORDS ...]``.

The log is written here, with the mix of records that real ones have: training steps of a model
whose layers take turns at two streams, forward and backward, gradients copied into a bucket and
reduced on a third stream, an optimizer over all parameters, and an allocator that hands memory
out again. Each size is measured in a process of its own: best of three for the time, which is the
processor's, so that other work beside it matters less; resident memory added for the peak.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SIZES = (25_000, 100_000, 400_000, 1_600_000)
LAYERS = 24
SIDE, REDUCE = 388155712, 213421184
MAIN, ENGINE = 139996237451584, 139982158603968
PARAMETER = 1 << 20
RUNS = 3


class Program:
    """Writes a training program's records."""

    def __init__(self, out: Any, records: int) -> None:
        self._out = out
        self._left = records
        self._number = 0
        self._top = 139983383953408
        self._free: dict[tuple[int, int], list[int]] = {}
        self._random = random.Random(0)
        self.kinds: Counter[str] = Counter()

    def add(self, kind: str, **fields: object) -> None:
        """One record."""
        self.kinds[kind] += 1
        self._left -= 1
        self._out.write(json.dumps({"k": kind, **fields}) + "\n")

    def take(self, size: int, stream: int, thread: int, at: str | None) -> list[int]:
        """An allocation: what was freed last of that size on that stream, else new memory."""
        free = self._free.setdefault((stream, size), [])
        pointer = free.pop() if free else self._top
        if pointer == self._top:
            self._top += -(-size // 512) * 512
        self.add("alloc", t=thread, p=pointer, s=stream, at=at, n=size)
        return [0, pointer, size]

    def drop(self, item: list[int], stream: int, thread: int, at: str | None) -> None:
        """A free."""
        self._free[stream, item[2]].append(item[1])
        self.add("free", t=thread, p=item[1], s=stream, at=at)

    def op(self, name: str, stream: int, reads: Any, size: int = 0, **fields: Any) -> list[int]:
        """An operator, with a fresh output of `size` bytes."""
        self._number += 1
        fields = {"t": MAIN, "at": "train.py:41 forward", "w": [], **fields}
        self.add("op", i=self._number, s=stream, op=name, r=reads, **fields)
        if not size:
            return []
        made = self.take(size, stream, fields["t"], fields["at"])
        self.add("out", i=self._number, t=fields["t"], s=stream, w=[made])
        return made

    def wait(self, source: int, target: int, thread: int) -> None:
        """``target.wait_stream(source)``."""
        event = self._random.randrange(1 << 20)
        self.add("record", t=thread, e=event, s=source)
        self.add("wait", t=thread, e=event, s=target)
        self.add("ev_del", t=thread, e=event)

    def run(self) -> None:
        """Training steps until there are records enough."""
        self.add("meta", v=1, torch="2.11.0+cu130")
        parameters = [self.take(PARAMETER, 0, MAIN, "train.py:5 net") for _ in range(LAYERS)]
        biases = [self.take(2048, 0, MAIN, "train.py:5 net") for _ in range(LAYERS)]
        bucket = self.take(PARAMETER * LAYERS, 0, MAIN, "train.py:9 bucket")
        while self._left > 0:
            self.add("mark", name="step", t=MAIN)
            self._step(parameters, biases, bucket)

    def _step(
        self, parameters: list[list[int]], biases: list[list[int]], bucket: list[int]
    ) -> None:
        values, kept = [self.op("aten.randn.default", 0, [], 65536)], []
        for layer, (weight, bias) in enumerate(zip(parameters, biases, strict=True)):
            stream, before = _streams(layer)
            if stream != before:
                self.wait(before, stream, MAIN)
            hidden = self.op("aten.addmm.default", stream, [bias, values[-1], weight], 131072)
            kept.append(hidden)
            values.append(self.op("aten.gelu.default", stream, [hidden], 131072))
        self.wait(SIDE, 0, MAIN)
        self._backward(parameters, values, kept, bucket)
        for stream in (SIDE, REDUCE):
            self.wait(stream, 0, MAIN)
        self.op("aten._foreach_add_.List", 0, [bucket], w=parameters, at="train.py:60 step")
        self.add("sync_dev", t=MAIN)
        for layer, value in enumerate(values[1:]):
            self.drop(value, _streams(layer)[0], MAIN, "train.py:62 step")
        self.drop(values[0], 0, MAIN, "train.py:62 step")

    def _backward(
        self,
        parameters: list[list[int]],
        values: list[list[int]],
        kept: list[list[int]],
        bucket: list[int],
    ) -> None:
        self.add("mark", name="backward_begin", t=MAIN, s=0, r=[values[-1]], at="train.py:50 step")
        gradient = values[-1]
        for layer in reversed(range(LAYERS)):
            stream = _streams(layer)[0]
            place = {"t": ENGINE, "fwd_at": "train.py:41 forward", "at": None}
            if layer < LAYERS - 1 and stream != _streams(layer + 1)[0]:
                self.wait(_streams(layer + 1)[0], stream, ENGINE)
            self.add("node", t=ENGINE, name="AddmmBackward0", q=layer, s=stream, r=[gradient])
            node = {**place, "node": "AddmmBackward0", "q": layer}
            first = self.op(
                "aten.mm.default", stream, [gradient, parameters[layer]], 131072, **node
            )
            weight = self.op(
                "aten.mm.default", stream, [gradient, values[layer]], PARAMETER, **node
            )
            self.drop(kept[layer], stream, ENGINE, None)
            self.add("node", t=ENGINE, name="AccumulateGrad", q=0, s=stream, r=[weight])
            part = [0, bucket[1] + layer * PARAMETER, PARAMETER]
            hook = {**place, "node": "AccumulateGrad", "at": "train.py:30 hook", "w": [part]}
            self.op("aten.copy_.default", stream, [weight], **hook)
            self.drop(weight, stream, ENGINE, None)
            gradient = self.op("aten.gelu_backward.default", stream, [first], 131072, **node)
            self.drop(first, stream, ENGINE, None)
            self.drop(gradient, stream, ENGINE, None)
        for stream in (0, SIDE):
            self.wait(stream, REDUCE, ENGINE)
        self.op("aten.mul_.Scalar", REDUCE, [], t=ENGINE, w=[bucket], at="train.py:33 reduce")
        self.add("mark", name="backward_end", t=MAIN, s=0)


def _streams(layer: int) -> tuple[int, int]:
    """The stream of a layer, and that of the one before."""
    return (SIDE if layer % 8 >= 4 else 0), (SIDE if (layer - 1) % 8 >= 4 and layer else 0)


def measure(path: str) -> dict[str, float]:
    """Seconds to read, to follow, to analyse a log, and megabytes added."""
    from xlagraph.streams.analyze import analyze, follow
    from xlagraph.streams.log import Log

    gc.disable()  # as the command does
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: dict[str, float] = {}
    for _ in range(RUNS):
        for name, run in (
            ("read", lambda log: sum(1 for _ in log.records())),
            ("follow", follow),
            ("analyze", analyze),
        ):
            log = Log.open(path)
            start = time.process_time()
            result = run(log)
            seconds = time.process_time() - start
            times[name] = min(seconds, times.get(name, seconds))
    assert not result.findings, result.findings[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**times, "megabytes": (peak - before) / 1024}


def main() -> None:
    """Prints a table, one row a size."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    names = ("read/s", "follow/s", "analyze/s", "added MB")
    print(f"{'records':>10} {'MB':>7} " + " ".join(f"{name:>10}" for name in names))
    for size in [int(a) for a in sys.argv[1:]] or SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.jsonl"
            with path.open("w") as out:
                program = Program(out, size)
                program.run()
            count = program.kinds.total()
            command = [sys.executable, __file__, "--measure", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            rates = " ".join(f"{count / found[n]:>10,.0f}" for n in ("read", "follow", "analyze"))
            megabytes = path.stat().st_size / 1e6
            print(f"{count:>10,} {megabytes:>7.1f} {rates} {found['megabytes']:>10.0f}")
    print("mix:", ", ".join(f"{k} {n / count:.0%}" for k, n in program.kinds.most_common(8)))


if __name__ == "__main__":
    main()
