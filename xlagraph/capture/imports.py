"""Run something just before and just after a module is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[], None]


class _Loader(Loader):
    """The module's own loader, with the actions around it."""

    def __init__(self, inner: Loader, before: Action, after: Action) -> None:
        self._inner = inner
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if nobody had stood in the way.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._before()
        self._inner.exec_module(module)
        self._after()


class _Finder(MetaPathFinder):
    """Finds one module as the other finders do, once, and leaves."""

    def __init__(self, name: str, before: Action, after: Action) -> None:
        self._name = name
        self._before = before
        self._after = after

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._before, self._after)
                return spec
        sys.meta_path.insert(0, self)  # absent so far: a later import may find it
        return None


def _nothing() -> None:
    """The default for ``before``."""


def when_imported(name: str, after: Action, before: Action = _nothing) -> None:
    """Run ``before`` and ``after`` around the first import of ``name``; both now if it is in."""
    if name in sys.modules:
        before()
        after()
    else:
        sys.meta_path.insert(0, _Finder(name, before, after))
