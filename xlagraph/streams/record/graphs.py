"""CUDA graphs: what was captured is accessed when, and where, the graph is replayed."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from xlagraph.streams.record.recorder import Captured
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder


class Graphs:
    """The graphs that were captured while recording."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._captured: weakref.WeakKeyDictionary[Any, Captured] = weakref.WeakKeyDictionary()

    def begin(self) -> None:
        """A capture begins: what follows does not run yet."""
        self._recorder.captured = Captured()

    def end(self, graph: Any) -> None:
        """A capture has ended."""
        captured, self._recorder.captured = self._recorder.captured, None
        if captured is not None:
            self._captured[graph] = captured

    def replay(self, graph: Any) -> None:
        """A graph is about to be replayed on the current stream."""
        captured = self._captured.get(graph)
        if captured is None:
            self._recorder.unseen[Unseen.EARLIER_GRAPHS] += 1
            return
        self._recorder.launched(
            f"cuda_graph_replay({captured.operators} operators)",
            [list(item) for item in captured.reads],
            [list(item) for item in captured.writes],
        )


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Wraps capture and replay."""
    graph = sys.modules["torch"].cuda.CUDAGraph
    graphs = Graphs(recorder)

    def wrap_begin(begin: Callable[..., Any]) -> Callable[..., Any]:
        def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin(self, *args, **kwargs)
            if recorder.active:
                guard.run("graphs", graphs.begin)
            return result

        return capture_begin

    def wrap_end(end: Callable[..., Any]) -> Callable[..., Any]:
        def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return end(self, *args, **kwargs)
            finally:
                guard.run("graphs", graphs.end, self)

        return capture_end

    def wrap_replay(replay: Callable[..., Any]) -> Callable[..., Any]:
        def replayed(self: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder.active:
                guard.run("graphs", graphs.replay, self)
            return replay(self, *args, **kwargs)

        return replayed

    patches.replace(graph, "capture_begin", wrap_begin)
    patches.replace(graph, "capture_end", wrap_end)
    patches.replace(graph, "replay", wrap_replay)
