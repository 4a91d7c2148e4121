"""Run something just before and just after a module is imported.

Loaded at interpreter start where ``XLAGRAPH`` is set, in programs that may never need it: so
nothing is imported here that the interpreter has not loaded by itself.
"""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False  # typing's own costs its import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Action = Callable[[], None]


def _nothing() -> None:
    """The default."""


def _do(action: Action) -> None:
    """Do it; a failure is one line, and the import goes on."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the program must start whatever happens
        from xlagraph.capture.host.say import say

        say(f"nothing is captured: {type(error).__name__}: {error}")


class _Loader:
    """The module's own loader, with the actions around it."""

    def __init__(self, inner: Loader, finder: _Finder) -> None:
        self._inner = inner
        self._finder = finder

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if nobody had stood in the way.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        finder = self._finder
        if not finder.leave():  # it was imported once already
            self._inner.exec_module(module)
            return
        _do(finder.before)
        try:
            self._inner.exec_module(module)
        except BaseException:
            _do(finder.failed)
            finder.wait()  # the program may try again
            raise
        _do(finder.after)


class _Finder:
    """Finds one module as the other finders do; leaves when it is executed."""

    def __init__(self, name: str, after: Action, before: Action, failed: Action) -> None:
        self.after = after
        self.before = before
        self.failed = failed
        self._name = name
        self._searching: set[int] = set()
        """Threads: another finder may search with all of them."""

    def wait(self) -> None:
        """Be asked first. Whoever goes through the finders just now has the list as it was."""
        sys.meta_path = [self, *sys.meta_path]

    def leave(self) -> bool:
        """Be asked no more; False when that was so already."""
        others = [finder for finder in sys.meta_path if finder is not self]
        was_in = len(others) < len(sys.meta_path)
        if was_in:
            sys.meta_path = others
        return was_in

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        me = _thread.get_ident()
        if fullname != self._name or me in self._searching:
            return None
        self._searching.add(me)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None) if finder is not self else None
                spec: ModuleSpec | None = find(fullname, path, target) if find else None
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                    return spec
            return None
        finally:
            self._searching.discard(me)


def when_imported(
    name: str, after: Action, before: Action = _nothing, failed: Action = _nothing
) -> None:
    """Run ``before`` and ``after`` around the first import of ``name``; both now if it is in.

    ``failed`` runs in place of ``after`` where the module could not be imported; the next
    attempt is the first one again. A search for the module is none. No action's exception
    reaches the program.
    """
    if name in sys.modules:
        _do(before)
        _do(after)
    else:
        _Finder(name, after, before, failed).wait()
