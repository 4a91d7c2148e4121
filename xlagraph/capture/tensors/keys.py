"""What torch_xla's cache key is made of, as far as it can be asked without a sync.

The key (``XLAGraphExecutor``) combines the hash of each output's expression, the sequence in
which the graph meets its data, the donated buffers, and sharding. ``_get_graph_hash`` of one
tensor gives its root's hash: it walks that expression, syncs nothing, moves no counter and
changes neither the key nor the graph (tests/capture/test_keys.py). It takes 0.2 us for each IR
node below the root, so that many deep roots are asked only up to ``MAX_SECONDS``.
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlagraph.capture.places.lines import VARIABLES
from xlagraph.capture.tensors.tensor_shapes import entry_shapes

MAX_SECONDS = 0.1
"""The thread's time for the root hashes of one sync; 200 roots above 5,000 nodes take as long."""
UNKNOWN = "-"
_DUMPS = re.compile(r"--?xla_dump_")
"""Flags that torch_xla leaves out of its key, too."""
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PendingKey:
    """What is asked of the pending tensors before their sync."""

    graph: str = ""
    """Hash of all that Python can see: tells whether two syncs run one graph."""
    roots: tuple[str, ...] = ()
    """Hash of each tensor's expression, ``-`` where time was up."""
    shardings: tuple[str, ...] = ()
    """Sharding of each tensor as torch_xla prints it, ``""`` for none."""


class KeyReader:
    """Asks torch_xla for hashes; made before ``_get_graph_hash`` is hooked."""

    def __init__(self, xlac: Any) -> None:
        self._hash = xlac._get_graph_hash
        self._shardings = xlac._get_xla_sharding_specs

    def read(self, tensors: list[Any]) -> PendingKey:
        """The key's parts for these pending tensors, which are not synced by it."""
        if not tensors:
            return PendingKey()
        roots: list[str] = []
        end = time.thread_time() + MAX_SECONDS
        for tensor in tensors:
            on_time = time.thread_time() < end
            roots.append(self._hash([tensor]).hex()[:16] if on_time else UNKNOWN)
        return PendingKey(self._hash(tensors).hex(), tuple(roots), tuple(self._shardings(tensors)))


def module_key(text: bytes) -> Key:
    """The parts of the key that a module's header shows, as digests."""
    header = text.split(b"\n", 1)[0]
    donated = _field(header, b"input_output_alias=") + _field(header, b"buffer_donor=")
    return (
        ("parameters", _digest(" ".join(entry_shapes(text)[0]))),
        ("donors", _digest(donated.decode(errors="replace"))),
    )


def process_key(env: Mapping[str, str] = os.environ) -> Key:
    """The parts of the key that are the process's own: its device and XLA's flags."""
    flags = (flag for flag in env.get("XLA_FLAGS", "").split() if not _DUMPS.match(flag))
    device = sys.modules["torch_xla.runtime"].device_type()
    asked = (*sorted(flags), *(env.get(name, "") for name in ("LIBTPU_INIT_ARGS", *VARIABLES)))
    return (("device", str(device)), ("flags", _digest("\n".join(asked))))


def _field(header: bytes, name: bytes) -> bytes:
    """The value in braces of a header field, or ``b""``."""
    start = header.find(name)
    depth = 0
    for at in range(start + len(name), len(header) if start >= 0 else 0):
        depth += {b"{": 1, b"}": -1}.get(header[at : at + 1], 0)
        if depth == 0:
            return header[start : at + 1]
    return b""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest() if text else "none"
