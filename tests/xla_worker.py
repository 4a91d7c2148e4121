"""XLA in a process of its own: reads, compiles and runs modules for `xla_oracle`.

A line of JSON in, a line of JSON out. XLA's parser ends the process where a check of its own
fails, and a program may run for ever: whoever asks has to wait with a limit, and start anew.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from jaxlib import _hlo, _jax

TOLERANCE = 1e-3
"""Of results, relative to the largest: fusions are chosen by names and order, too."""
ACTING = re.compile(
    r" (custom-call|infeed|outfeed|rng|rng-get-and-update-state|all-reduce|all-gather|all-to-all|"
    r"reduce-scatter|collective-permute|collective-broadcast|send|recv)(?:-start)?\("
)
WAITING = frozenset({"infeed", "outfeed", "recv", "send"})
_CLIENT = _jax.get_tfrt_cpu_client(asynchronous=False)
_DEVICE = _CLIENT.local_devices()[0]
_DEVICES = _jax.DeviceList((_DEVICE,))


class _Placed(_jax.SingleDeviceSharding):  # type: ignore[misc]
    """What jax would add to put an array on the one device."""

    memory_kind = None
    device_set = frozenset({_DEVICE})
    _internal_device_list = _DEVICES

    def _to_xla_hlo_sharding(self, _: int) -> Any:
        return _hlo.HloSharding.replicate()


@lru_cache(maxsize=8)
def printed(text: str) -> str:
    """XLA's own print of what it reads: names, numbering and metadata left out, values kept."""
    module = _hlo.hlo_module_from_text(text)
    options = _hlo.HloPrintOptions.canonical()
    options.print_large_constants = True
    options.print_backend_config = True
    options.print_control_dependencies = True
    options.canonicalize_computations = True
    options.print_ids = False
    return str(module.to_string(options))


@lru_cache(maxsize=8)
def compiled(text: str) -> tuple[Any, Any]:
    """The program, and the shapes that it takes and gives."""
    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    program = _jax.mlir.xla_computation_to_mlir_module(computation)
    executable = _CLIENT.compile_and_load(program, _DEVICES, _jax.CompileOptions())
    return executable, computation.program_shape()


def acting(text: str) -> list[str]:
    """The opcodes that XLA leaves in the compiled program although nobody may use them, sorted."""
    executable, _ = compiled(text)
    optimized = executable.hlo_modules()[0].to_string()
    return sorted(ACTING.findall(optimized))


def inputs(text: str, seed: int) -> list[np.ndarray]:
    """Random arguments for a module."""
    chance = np.random.default_rng(seed)
    _, shape = compiled(text)
    return [_random(chance, one) for one in shape.parameter_shapes()]


def _random(chance: np.random.Generator, shape: Any) -> np.ndarray:
    kind, sizes = np.dtype(shape.numpy_dtype()), shape.dimensions()
    if kind == np.bool_:
        return np.asarray(chance.integers(0, 2, sizes).astype(np.bool_))
    if np.issubdtype(kind, np.integer):
        return np.asarray(chance.integers(0, 7, sizes).astype(kind))
    return np.asarray(chance.normal(size=sizes).astype(kind))


def run(text: str, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """What a module gives back."""
    executable, _ = compiled(text)
    placed = [
        _jax.batched_device_put(
            SimpleNamespace(shape=x.shape, dtype=x.dtype, weak_type=False, ndim=x.ndim),
            _Placed(_DEVICE),
            [x],
            [_DEVICE],
            enable_x64=True,
        )
        for x in arguments
    ]
    results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [np.array(one[0]._single_device_array_to_np_array_did_copy()[0]) for one in results]


def values(text: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Random arguments for a module and what it gives back, as JSON has them."""
    given = inputs(text, seed)
    return [_told(x) for x in given], [_told(x) for x in run(text, given)]


def _told(x: np.ndarray) -> Any:
    """Type, sizes and numbers of an array."""
    if np.issubdtype(x.dtype, np.complexfloating):
        return str(x.dtype), x.shape, [(one.real, one.imag) for one in x.ravel().tolist()]
    is_known = x.dtype.kind in "biuf" and x.dtype.itemsize > 1
    kind = str(x.dtype) if is_known or x.dtype.kind in "biu" else "float64"
    return kind, x.shape, x.astype(kind).ravel().tolist()


def agree(a: str, b: str, parameters: list[list[int]], outputs: list[list[int]], seed: int) -> str:
    """``""`` if two modules do the same with the same random arguments, else what differs.

    `parameters` and `outputs` are positions in A and in B that belong together; without
    `outputs` all results stand where they stood.
    """
    if acting(a) != acting(b):
        return f"XLA keeps {acting(a)} and {acting(b)}"
    if not WAITING.isdisjoint(acting(a)):
        raise ValueError("it would wait for the host")
    given = inputs(a, seed)
    moved = {there: given[here] for here, there in parameters}
    wanted = inputs(b, seed)
    if [x.shape for x in wanted] != [moved[k].shape for k in range(len(wanted))]:
        return "parameters have other shapes"
    mine, theirs = run(a, given), run(b, [moved[k] for k in range(len(wanted))])
    outputs = [[k, k] for k in range(len(mine))] if outputs is None else outputs
    if not len(mine) == len(theirs) == len(outputs):
        return f"{len(mine)} and {len(theirs)} results for {len(outputs)} pairs"
    for here, there in outputs:
        if not _equal(mine[here], theirs[there]):
            return f"output {here} differs"
    return ""


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype == np.bool_ or np.issubdtype(x.dtype, np.integer):
        return bool(np.array_equal(x, y))
    one, other = x.astype(np.complex128), y.astype(np.complex128)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    size = max(1.0, float(np.abs(one[finite]).max(initial=0.0)))
    return bool(np.allclose(one[finite], other[finite], rtol=TOLERANCE, atol=TOLERANCE * size))


def main() -> None:
    """Answers until the input ends; XLA's own log is not for anybody."""
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    questions = {"printed": printed, "acting": acting, "agree": agree, "values": values}
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": questions[name](*arguments)}
        except Exception as error:  # noqa: BLE001 - whatever XLA says goes to the one who asked
            answer = {"error": " ".join(str(error).split())[:500] or type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
