"""Run programs of examples/scenarios; one line of JSON for each, equal with and without capture.

NAMES: which, separated by commas. Each line has the program's compile counters, the values of
its loss and parameters at the end.
"""

import gc
import io
import json
import os
import random
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import torch
import torch_xla
import torch_xla.core.xla_model
import torch_xla.debug.metrics as met
import torch_xla.runtime

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
COUNTERS = ("UncachedCompile", "CachedCompile", "ExecuteComputation")


def values(namespace):
    """What the program leaves: its loss and its model's parameters, read on the host."""
    loss, model = namespace.get("loss"), namespace.get("model")
    found = [] if not isinstance(loss, torch.Tensor) else [loss.sum().item()]
    if isinstance(model, torch.nn.Module):
        found += [one.detach().cpu().double().sum().item() for one in model.parameters()]
    return found


def main():
    sys.path.insert(0, str(EXAMPLES))
    for name in os.environ["NAMES"].split(","):
        random.seed(0)
        torch.manual_seed(0)
        before = {one: met.counter_value(one) or 0 for one in COUNTERS}
        with redirect_stdout(io.StringIO()):
            left = values(runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__"))
        torch_xla.runtime._ORDINAL = None
        torch_xla.core.xla_model.wait_device_ops()  # what runs last is counted by its thread
        counted = {one: (met.counter_value(one) or 0) - before[one] for one in COUNTERS}
        print(json.dumps({"name": name, "left": left, **counted}), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
