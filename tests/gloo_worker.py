"""One process of several that run modules together: real XLA on the CPU, with Gloo between them.

    python gloo_worker.py NODE NODES PORT FILE

FILE holds, as JSON, ``grid`` (replicas, partitions) and for each node the texts of the modules that
it runs one after the other. Prints a line of JSON for each module and one at the end. The modules
take no arguments; what they give back is printed. Nothing but jaxlib is needed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from jaxlib import _hlo, _jax

BEAT = 100
MINUTE = 60_000


def main() -> None:
    """Joins the others, runs, and waits for them."""
    node, nodes, port = map(int, sys.argv[1:4])
    task = json.loads(Path(sys.argv[4]).read_text())
    if node == 0:
        service = _jax.get_distributed_runtime_service(
            f"[::]:{port}", nodes, heartbeat_timeout=BEAT, shutdown_timeout=1
        )
        assert service
    client = _jax.get_distributed_runtime_client(
        f"127.0.0.1:{port}",
        node,
        init_timeout=BEAT,
        heartbeat_timeout=BEAT,
        shutdown_timeout=1,
        use_compression=True,
    )
    client.connect()
    cpu = _jax.get_tfrt_cpu_client(
        asynchronous=False,
        distributed_client=client,
        node_id=node,
        num_nodes=nodes,
        collectives=_jax.make_gloo_tcp_collectives(distributed_client=client),
        num_devices=1,
    )
    programs = [compiled(cpu, text, task["grid"]) for text in task["modules"][node]]
    client.wait_at_barrier("compiled", MINUTE)
    tell({"at": "start"})
    for program in programs:
        try:
            results = program.execute_sharded([]).disassemble_into_single_device_arrays()
            tell({"values": [one_value(result[0]) for result in results]})
        except Exception as error:  # noqa: BLE001 - whatever XLA says goes to the one who asked
            tell({"error": " ".join(str(error).split())[:300]})
            break
    else:
        tell({"at": "end"})
    client.wait_at_barrier("end", MINUTE)
    os._exit(0)


def compiled(cpu: Any, text: str, grid: list[int]) -> Any:
    """A module, compiled for the devices of all processes."""
    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    devices = sorted(cpu.devices(), key=lambda device: device.process_index)
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = grid
    options.executable_build_options.num_replicas = grid[0]
    options.executable_build_options.num_partitions = grid[1]
    options.executable_build_options.use_spmd_partitioning = grid[1] > 1
    placed = np.array([device.id for device in devices]).reshape(grid)
    options.device_assignment = _jax.DeviceAssignment.create(placed)
    program = _jax.mlir.xla_computation_to_mlir_module(computation)
    return cpu.compile_and_load(program, _jax.DeviceList(tuple(devices)), options)


def one_value(array: Any) -> list[float]:
    """The numbers of an array of this process."""
    found = np.array(array._single_device_array_to_np_array_did_copy()[0])
    return [float(x) for x in found.ravel()]


def tell(what: dict[str, object]) -> None:
    """One line to the one who asked."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
