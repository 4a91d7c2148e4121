"""The host: threads that start one another, queues, events that are asked if they are done."""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from xlagraph.streams.record.mode import make_mode, push, remove

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Follows what host threads hand on, and what they learn by asking."""
    patches.replace(threading.Thread, "start", lambda start: _start(start, guard, recorder))
    patches.replace(threading.Thread, "join", lambda join: _join(join, guard, recorder))
    patches.replace(queue.Queue, "put", lambda put: _put(put, guard, recorder))
    patches.replace(queue.Queue, "get", lambda get: _get(get, guard, recorder))
    cuda = sys.modules["torch"].cuda
    patches.replace(cuda.Event, "query", lambda query: _event(query, guard, recorder))
    patches.replace(cuda.Stream, "query", lambda query: _stream(query, guard, recorder))


def _start(start: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def started(self: threading.Thread) -> Any:
        if recorder.active:
            guard.run("threads", _follow, self, guard, recorder)
            recorder.tell(id(self))
        return start(self)

    return started


def _follow(thread: threading.Thread, guard: Guard, recorder: Recorder) -> None:
    """Lets a thread that is about to start be recorded too."""
    run = thread.run

    def recorded() -> None:
        thread.__dict__.pop("run", None)  # the class's own is back
        mode = guard.run("threads", _enter, thread, guard, recorder)
        try:
            run()
        finally:
            guard.run("threads", _leave, thread, mode, recorder)

    thread.run = recorded  # type: ignore[method-assign]


def _enter(thread: threading.Thread, guard: Guard, recorder: Recorder) -> Any:
    recorder.hear(id(thread))
    mode = make_mode(recorder, guard)
    push(mode)
    return mode


def _leave(thread: threading.Thread, mode: Any, recorder: Recorder) -> None:
    if mode is not None:
        remove(mode)
    recorder.tell(-id(thread))


def _join(join: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def joined(self: threading.Thread, timeout: float | None = None) -> Any:
        result = join(self, timeout)
        if recorder.active and not self.is_alive():
            guard.run("threads", recorder.hear, -id(self))
        return result

    return joined


def _put(put: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.active:
            guard.run("threads", recorder.tell, id(self))
        return put(self, *args, **kwargs)

    return telling


def _get(get: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def hearing(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = get(self, *args, **kwargs)
        if recorder.active:
            guard.run("threads", recorder.hear, id(self))
        return result

    return hearing


def _event(query: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def asked(self: Any) -> Any:
        done = query(self)
        if done and recorder.active:
            guard.run("query", lambda: recorder.polled("sync_ev", e=self.cuda_event))
        return done

    return asked


def _stream(query: Callable[..., Any], guard: Guard, recorder: Recorder) -> Callable[..., Any]:
    def asked(self: Any) -> Any:
        done = query(self)
        if done and recorder.active:
            raw = self.cuda_stream or -self.device_index
            guard.run("query", lambda: recorder.polled("sync_st", s=raw))
        return done

    return asked
