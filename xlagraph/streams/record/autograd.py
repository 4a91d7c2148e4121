"""Backward passes: marks where they begin and end, and a hook before every node."""

# ruff: noqa: SLF001 - what a recorder reads of torch has private names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xlagraph.streams.record.recorder import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder

ACCUMULATE = "AccumulateGrad"


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Wraps the one function that starts the engine from Python."""
    torch = sys.modules["torch"]

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        def backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return run(outputs, *args, **kwargs)
            handles: list[Any] = []
            guard.run("backward", _begin, recorder, guard, outputs, args, handles)
            try:
                return run(outputs, *args, **kwargs)
            finally:
                guard.run("backward", _end, recorder, handles)

        return backward

    # torch.autograd has imported the name: both are called.
    patches.replace(torch.autograd.graph, "_engine_run_backward", wrap)
    patches.replace(torch.autograd, "_engine_run_backward", wrap)


def _begin(
    recorder: Recorder, guard: Guard, outputs: Any, args: tuple[Any, ...], handles: list[Any]
) -> None:
    given = args[0] if args else ()
    gradients = given if isinstance(given, (list, tuple)) else (given,)
    recorder.replicas.backward_begins()
    nodes = list(_nodes(outputs))
    recorder.know(node.variable for node in nodes if node.name().endswith(ACCUMULATE))
    recorder.mark("backward_begin", [one for one in gradients if one is not None])
    for node in nodes:
        handles.append(node.register_prehook(_hook(recorder, guard, node)))  # noqa: PERF401 - kept if one fails


def _end(recorder: Recorder, handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
    recorder.mark("backward_end")


def _hook(recorder: Recorder, guard: Guard, node: Any) -> Callable[[Any], None]:
    """What is called before a node runs; it holds the node's name and not the node."""
    name, sequence = node.name(), node._sequence_nr()
    parameter, owner = "", None
    if name.endswith(ACCUMULATE):
        parameter = recorder.names.get(id(node.variable), "")
        owner = recorder.replicas.owner(node.variable)
    known = Node(name, sequence, parameter, owner)

    def before(gradients: Any) -> None:
        if recorder.active:
            guard.run("node", recorder.enter_node, known, gradients, None)

    return before


def _nodes(outputs: Any) -> Iterator[Any]:
    """Every node that the engine may run, each once."""
    seen: set[Any] = set()
    waiting = list(_roots(outputs))
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def _roots(outputs: Any) -> Iterable[Any]:
    graph = sys.modules["torch"].autograd.graph
    for one in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
        edge = getattr(graph, "GradientEdge", None)
        if edge is not None and isinstance(one, edge):
            yield one.node
        elif getattr(one, "grad_fn", None) is not None:
            yield one.grad_fn
        elif getattr(one, "requires_grad", False):
            yield graph.get_gradient_edge(one).node
