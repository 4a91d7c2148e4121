"""Reduce-scatter buckets keep gradients over the end of the step (pytorch/xla issue 4160).

Kind: bucket-carry
Line: none
"""

import os
import runpy
from pathlib import Path

os.environ.setdefault("STEPS", "8")
runpy.run_path(str(Path(__file__).parent.parent / "fsdp_bucket_carry.py"), run_name="__main__")
