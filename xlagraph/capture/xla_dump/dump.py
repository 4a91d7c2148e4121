"""Get each compiled module from XLA's own dump, at no cost to steps that hit.

XLA writes ``module_NNNN.NAME.before_optimizations.txt`` into ``--xla_dump_to`` only when it
really compiles; torch_xla appends to ``PT_XLA_DEBUG_FILE`` an analysis (graph hash, Python
frames) only when it really compiles. Both are asked for in the environment once torch_xla is
imported (it rewrites ``XLA_FLAGS`` then) and before a device is used (XLA reads it then), into a
private folder that is emptied after each compile. A user's own settings are respected: their
folder is read and nothing in it is deleted.
"""

# ruff: noqa: SLF001 - what capture reads of torch_xla has private names

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from xlagraph.capture.host.inherited import FORMS, MARK, OVERRIDES
from xlagraph.capture.host.variables import Variables
from xlagraph.capture.places.analysis import AnalysisFile
from xlagraph.capture.xla_dump.modules import Modules, NoModules, PrivateModules, TheirModules
from xlagraph.capture.xla_dump.private import PrivateFolder

_FLAG = re.compile(r"(?:^|\s)--?(xla_dump_\w+)(?:=(\S*))?")
_FORMS = ("text", "proto", "dot", "html")
_NO = ("false", "0")
_ANALYSIS = "analysis.txt"
_LOOK_SECONDS = 1.0
"""A look at the disk's free space costs 25 us between a step's operations."""
_SET_SINCE = (
    "the program has set XLA_FLAGS after it imported torch_xla, and so switched off the dump that "
    "graphs are read from; set it before, and every graph is stored"
)


@dataclass(slots=True)
class Dump:
    """What XLA and torch_xla write for this process."""

    modules: Modules
    analyses: AnalysisFile | None
    private: PrivateFolder
    variables: Variables
    flags: str | None
    """``XLA_FLAGS`` as the program has it."""
    is_new: bool = True
    """Nothing has been compiled since the process began, or was forked."""
    is_parents: bool = False
    next_look: float = 0.0
    """When to see again whether the disk is full; of the monotonic clock."""

    @property
    def gives_modules(self) -> bool:
        """Whether modules are to be expected here."""
        return not isinstance(self.modules, NoModules)

    def begin(self) -> None:
        """A hooked call begins, one of the first.

        Raises:
            OSError: there is no room for a forked child's own folder.
        """
        if self.is_parents:
            self.private.move(keep=True)
            self.is_parents = False
        if not sys.modules["_XLAC"]._xla_runtime_is_initialized():
            return
        # XLA has read its flags: children are to see them no more.
        if self.variables.restore("XLA_FLAGS") and os.environ.get("XLA_FLAGS") != self.flags:
            self.modules = NoModules(_SET_SINCE)
        self.is_new = False

    def keep_room(self) -> None:
        """Something may be compiled: leave a disk that has filled up meanwhile.

        Raises:
            OSError: the folder cannot be read, or a new one cannot be made.
        """
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + _LOOK_SECONDS
            self.modules.keep_room()

    def end(self) -> None:
        """Something was compiled: torch_xla has read its variables, too."""
        self.variables.restore()

    def after_fork(self) -> None:
        """In a forked child: what XLA writes here goes elsewhere than the parent's.

        Raises:
            OSError: the parent's folder is gone.
        """
        self.is_parents = self.is_new = True
        self.private.step_aside()

    def remove(self) -> None:
        """Delete what was made for the dump."""
        self.variables.restore()
        if not self.is_parents:
            self.private.remove()


def prepare_dump(*, with_stacks: bool = False) -> Dump:
    """Ask XLA and torch_xla to write what they compile, with Python stacks also as protobufs.

    To be called with torch_xla imported, and before a device is used.

    Raises:
        OSError: the private folder cannot be made.
    """
    private, variables = PrivateFolder(), Variables()
    flags = os.environ.get("XLA_FLAGS")
    modules = _ask_modules(flags or "", private, variables, with_stacks=with_stacks)
    return Dump(modules, _ask_analyses(private, variables), private, variables, flags)


def _ask_modules(
    flags: str, private: PrivateFolder, variables: Variables, *, with_stacks: bool
) -> Modules:
    found = dict(_FLAG.findall(flags))
    forms = [one for one in _FORMS if found.get(f"xla_dump_hlo_as_{one}", "false") not in _NO]
    theirs = found.get("xla_dump_to", "")
    if theirs == "-" or (forms and not theirs):
        return NoModules(f"XLA dumps to standard output, as XLA_FLAGS asks: {flags.strip()}")
    if "://" in theirs:
        return NoModules(f"XLA dumps to {theirs}, as XLA_FLAGS asks, which is not read")
    if theirs:
        return TheirModules(Path(theirs), _what_leaves_out(theirs, forms, found))
    # Without a folder the user's other flags have no effect.
    ours = (*(OVERRIDES if found else ()), *(FORMS if with_stacks else ()))
    put = [flags, *ours, f"--xla_dump_to={private.visible}{MARK}"]
    variables.put("XLA_FLAGS", " ".join(filter(None, put)))
    return PrivateModules(private)


def _what_leaves_out(folder: str, forms: list[str], found: dict[str, str]) -> str:
    """Why a module may be missing in the user's own folder."""
    if "xla_dump_hlo_module_re" in found:
        wanted = found["xla_dump_hlo_module_re"]
        return f"--xla_dump_hlo_module_re={wanted} in XLA_FLAGS leaves it out of {folder}"
    if forms and not {"text", "proto"} & set(forms):
        return f"XLA_FLAGS asks for {' and '.join(forms)} in {folder}, not for text or proto"
    return f"XLA has written no complete module into {folder}"


def _ask_analyses(private: PrivateFolder, variables: Variables) -> AnalysisFile | None:
    theirs = os.environ.get("PT_XLA_DEBUG_FILE", "")
    if theirs:
        file = AnalysisFile(Path(theirs))
        file.skip()
        return file
    if os.environ.get("PT_XLA_DEBUG_LEVEL", ""):
        return None  # the user reads it on their terminal
    ours = f"{private.visible}{MARK}-{_ANALYSIS}"
    variables.put("PT_XLA_DEBUG_LEVEL", "1")
    variables.put("PT_XLA_DEBUG_FILE", ours)
    return AnalysisFile(Path(ours))
