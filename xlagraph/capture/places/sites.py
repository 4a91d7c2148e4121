"""Where in the user's program a sync was asked for, and through which torch_xla function."""

from __future__ import annotations

import sys
import sysconfig
import threading
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType

from xlagraph.capture.places.analysis import Analysis
from xlagraph.run.records import Frame

Site = tuple[Frame, ...]
"""Innermost first; the user's frames only."""
MAX_FRAMES = 8
"""User frames kept for a call site, innermost first."""
FINAL_ENTRY = "compile_begin"
"""The sync of pending work as a compiled region begins: what surrounds it is the region."""
_MAX_WALK = 200
_MAX_INNER = 12
_PACKAGES = ("/torch/", "/torch_xla/", "/xlagraph/capture/", "/_pytest/", "/pluggy/")
_STANDARD = sysconfig.get_path("stdlib")
INSTALLED = ("/site-packages/", "/dist-packages/")
_NOT_THE_USER = ("<frozen ", "<eval_with_key>")

# (file suffix, function) of torch_xla's ways into a sync, outermost wins; "" is any function.
_ENTRIES = {
    ("torch_xla/torch_xla.py", "sync"): "sync",
    ("core/xla_model.py", "mark_step"): "mark_step",
    ("core/xla_model.py", "optimizer_step"): "optimizer_step",
    ("core/xla_model.py", "unlazy"): "unlazy",
    ("core/xla_model.py", "_maybe_convert_to_cpu"): "save",
    ("utils/serialization.py", "_rewrite_data"): "save",
    ("distributed/parallel_loader.py", "next"): "parallel_loader",
    ("distributed/parallel_loader.py", "__next__"): "parallel_loader",
    ("debug/profiler.py", "__exit__"): "profiler_step",
    ("torch_xla/torch_xla.py", "_clear_pending_ops_before_compile"): "compile_begin",
    ("torch_xla/torch_xla.py", "_compile"): "compile",
    ("_dynamo/dynamo_bridge.py", "optimized_mod"): "dynamo_run",
    ("_dynamo/dynamo_bridge.py", ""): "dynamo_extract",
    ("experimental/gradient_accumulation.py", "_gradient_accumulation"): "gradient_accumulation",
}


def _classify(code: CodeType) -> tuple[bool, str]:
    """Whether a frame of ``code`` is the user's, and the entry that it is, or ``""``."""
    file = code.co_filename
    if is_inner(file):
        for (suffix, function), entry in _ENTRIES.items():
            if function in ("", code.co_name) and file.endswith(suffix):
                return False, entry
        return False, ""
    return True, ""


def is_inner(file: str) -> bool:
    """True for torch, torch_xla, this package, test runners and the standard library."""
    if file.startswith(_NOT_THE_USER) or any(part in file for part in _PACKAGES):
        return True
    if file.endswith("/typing_extensions.py"):
        return True  # wraps deprecated functions, mark_step among them
    return file.startswith(_STANDARD) and not any(part in file for part in INSTALLED)


class SiteReader:
    """Reads call sites; remembers those seen, so that a stable step's costs a few lookups.

    Equal sites are one object. Code is known by its identity, for its hash goes through all its
    constants and names; what is known of it is forgotten when it is gone.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Site, str]] = {}
        self._codes: dict[int, tuple[bool, str, object]] = {}
        """Whether it is the user's, the entry that it is, and what tells when it goes."""
        self._sites: dict[Site, Site] = {}
        self._lines: dict[tuple[int, int], Site] = {}
        """The site of each line, by code and instruction; empty if there are several."""

    def _learn(self, code: CodeType) -> tuple[bool, str, object]:
        number = id(code)

        def forget(_: object) -> None:
            del self._codes[number]
            self._known.clear()
            self._lines.clear()

        known = self._codes[number] = (*_classify(code), weakref.ref(code, forget))
        return known

    def _one(self, site: Site) -> Site:
        return self._sites.setdefault(site, site)

    def read(self, frame: FrameType | None) -> tuple[Site, str]:
        """User frames at and above ``frame``, and the outermost torch_xla entry passed."""
        key: list[object] = []
        frames: list[FrameType] = []
        entry = ""
        walked = 0
        codes = self._codes
        while frame is not None and walked < _MAX_WALK and len(frames) < MAX_FRAMES:
            code = frame.f_code
            known_code = codes.get(id(code)) or self._learn(code)
            if known_code[0]:
                frames.append(frame)
                key.append(id(code))
                key.append(frame.f_lasti)
            elif known_code[1] and not frames and entry != FINAL_ENTRY:
                entry = known_code[1]
            frame = frame.f_back
            walked += 1
        if frame is None and threading.get_ident() != threading.main_thread().ident:
            site = (*map(_frame, frames), *_waiting_frames())[:MAX_FRAMES]
            return self._one(site), entry
        key.append(entry)
        known = self._known.get(tuple(key))
        if known is None:
            known = (self._one(tuple(map(_frame, frames))), entry)
            self._known[tuple(key)] = known
        return known

    def line(self, frame: FrameType | None) -> tuple[int, FrameType] | None:
        """The innermost user frame at or above ``frame``, and how far up it is.

        None when it is not known.
        """
        for depth in range(_MAX_INNER):
            if frame is None:
                return None
            known = self._codes.get(id(frame.f_code))
            if known is None:
                return None
            if known[0]:
                return depth, frame
            frame = frame.f_back
        return None

    def is_shared(self, frame: FrameType, site: Site | None = None) -> bool:
        """Whether the line of this frame has had several sites: callers that are not the same.

        ``site``: one that it has now.
        """
        line = id(frame.f_code), frame.f_lasti
        if site is not None and self._lines.setdefault(line, site) is not site:
            self._lines[line] = ()
        return self._lines.get(line) == ()

    def from_analysis(self, analysis: Analysis | None) -> Site:
        """The user's frames among those that torch_xla printed as it compiled."""
        if analysis is None:
            return ()
        frames = (Frame(file, line, function) for file, line, function in analysis.frames)
        return self._one(tuple(one for one in frames if not is_inner(one.file))[:MAX_FRAMES])


def _waiting_frames() -> Site:
    """The user's frames of the thread that waits for backward, seen from another thread.

    Autograd's own threads start in C++: their Python stack holds the hook's frames only,
    while the user's ``backward()`` waits in another thread.
    """
    here = threading.get_ident()
    for thread, frame in sys._current_frames().items():  # noqa: SLF001 - no public way
        if thread != here and _runs_backward(frame):
            return tuple(_frame(one) for one in _walk(frame) if _classify(one.f_code)[0])
    return ()


def _walk(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_MAX_WALK):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _runs_backward(frame: FrameType) -> bool:
    return any(
        one.f_code.co_name == "_engine_run_backward" and one.f_code.co_filename.endswith("graph.py")
        for one in _walk(frame)
    )


def _frame(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
