"""Reads of values: seen on plain XLA tensors, and nobody else notices."""

import json

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

# The example of PyTorch's documentation ("Extending PyTorch"), and what it logs.
LOGGING = """
import copy, json, pickle, torch, torch_xla
logged = []
class LoggingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # It calls Tensor.__repr__, so that cannot be logged without infinite recursion.
        if func is not torch.Tensor.__repr__:
            logged.append(f"func: {func.__name__}, args: {args!r} and kwargs: {kwargs!r}")
        return super().__torch_function__(func, types, args, kwargs or {})
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        logged.append(f"mode: {func.__name__}")
        return func(*args, **(kwargs or {}))
def read(tensor):
    tensor.item(), bool(tensor), int(tensor), float(tensor), tensor.tolist(), repr(tensor)
    f"{tensor}", tensor.cpu(), 3.0 in tensor.reshape(1)
read(LoggingTensor([3.0]).sum())
with Mode():
    read(torch.tensor(3.0))
    read(torch.nn.Parameter(torch.tensor(3.0)).detach())
read(torch.ones((), device="xla").as_subclass(LoggingTensor) * 3)
for name in ("item", "tolist", "__bool__", "__repr__", "__deepcopy__"):
    method = getattr(torch.Tensor, name)
    assert pickle.loads(pickle.dumps(method)) is method
    assert copy.deepcopy(method) is method
print(pickle.dumps([torch.Tensor.item, torch.Tensor.__repr__]).hex())
print(json.dumps(logged))
"""


def test_subclasses_and_modes_are_asked_what_they_always_were(run_program):
    off, on = (run_program(LOGGING, XLAGRAPH=level) for level in ("0", "1"))
    (_, before), (methods, after) = off.stdout.splitlines(), on.stdout.splitlines()
    assert len(json.loads(before)) > 40
    assert json.loads(after) == json.loads(before)
    # What was pickled under capture is read where there is none.
    read = f"import pickle, torch; print(pickle.loads(bytes.fromhex({methods!r})))"
    item, _ = run_program(read).stdout.split(" of ")
    assert item == "[<method 'item'"


SHARDED = """
import numpy, torch, torch_xla
import torch_xla.runtime
torch_xla.runtime.use_spmd()
from torch_xla.distributed.spmd import Mesh, mark_sharding
count = torch_xla.runtime.global_runtime_device_count()
mesh = Mesh(numpy.arange(count), (count,), ("x",))
x = mark_sharding(torch.ones(8, device="xla"), mesh, ("x",))
torch_xla.sync()
print(type(x).__name__)
y = (x + 1).sum()
y.item()  # read
"""


def test_reads_under_spmd_have_their_line(run_program, tmp_path):
    assert run_program(SHARDED, XLAGRAPH="1").stdout == "XLAShardedTensor\n"
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    (read,) = [sync for sync in process.syncs if sync.kind == "value"]
    assert read.call_site[0].line == len(SHARDED.splitlines())


WARNED = """
import warnings, torch, torch_xla
def read(tensor):
    return float(tensor)  # line 4
for kind in ("cpu", "xla"):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        loss = torch.ones((), device=kind, requires_grad=True) * 2
        torch.set_warn_always(True)
        for _ in range(3):
            read(loss)
        float(loss)  # line 12
        float(loss + 1)  # line 13
        warnings.filterwarnings("error", module="__main__")
        try:
            float(loss + 2)
        except UserWarning:
            print("raised")
    for one in seen:
        print(one.filename.rpartition("/")[2], one.lineno, one.category.__name__)
"""


def test_warnings_are_shown_at_the_programs_line(run_program):
    off, on = (run_program(WARNED, XLAGRAPH=level).stdout for level in ("0", "1"))
    if not off:
        pytest.skip("this torch does not warn of a read that has a gradient")
    assert "12 UserWarning" in off
    assert on == off
