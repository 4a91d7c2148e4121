"""Makes fixtures/big: the FSDP example with 64 blocks, as XLA_SAVE_TENSORS_FILE wrote it.

Needs the capture extra and about ten minutes::

    python benchmarks/make_big.py

The training graphs have 34,000 to 45,000 instructions. They are cut out of the file as
``fsdp64_1.hlo``, ``fsdp64_2.hlo``, ...; none is committed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from xlagraph.hlo.containers import open_entries

ROOT = Path(__file__).resolve().parents[1]
BIG = ROOT / "fixtures" / "big"
TRAINING_BYTES = 1_000_000
"""Entries above this size are training steps; those below set the model up."""


def main() -> None:
    """Runs the example and cuts the training graphs out."""
    BIG.mkdir(parents=True, exist_ok=True)
    saved = BIG / "saved.hlo"
    for old in BIG.glob("saved.hlo*"):
        old.unlink()
    settings = {
        "PJRT_DEVICE": "CPU",
        "BLOCKS": "64",
        "STEPS": "3",
        "XLA_SAVE_TENSORS_FILE": str(saved),
        "XLA_SAVE_TENSORS_FMT": "hlo",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }
    subprocess.run(
        [sys.executable, "examples/fsdp_bucket_carry.py"],
        check=True,
        cwd=ROOT,
        env=os.environ | settings,
    )
    written = next(BIG.glob("saved.hlo*"))
    text = written.read_bytes()
    steps = [
        entry
        for entry in open_entries(str(written)).entries
        if entry.stop - entry.start > TRAINING_BYTES
    ]
    for number, entry in enumerate(steps, 1):
        (BIG / f"fsdp64_{number}.hlo").write_bytes(text[entry.start : entry.stop])
        print(f"fsdp64_{number}.hlo: {entry.module}, {entry.stop - entry.start:,} bytes")


if __name__ == "__main__":
    main()
