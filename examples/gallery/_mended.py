"""What the programs of the gallery share: the device, and whether to run as mended."""

from __future__ import annotations

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

MENDED = os.environ.get("MENDED", "0") == "1"
"""The program runs with the fix that its page describes."""
