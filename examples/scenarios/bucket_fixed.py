"""The same program with its flush at the end of backward: stable after warm-up.

Kind: none
"""

import os
import runpy
from pathlib import Path

os.environ.setdefault("STEPS", "6")
os.environ["MODE"] = "fixed"
runpy.run_path(str(Path(__file__).parent.parent / "fsdp_bucket_carry.py"), run_name="__main__")
