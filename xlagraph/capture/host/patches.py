"""Replace attributes reversibly, and run hook code so that it can never hurt the program."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from xlagraph.capture.host.say import say

Result = TypeVar("Result")
_MISSING = object()


class Patches:
    """Attributes replaced, put back in reverse order."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, object, object]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
        """Set ``owner.name`` to ``make(original)``; False when there is no such attribute."""
        original = getattr(owner, name, None)
        if original is None:
            return False
        own = owner.__dict__.get(name, _MISSING)
        wrapped = make(original)
        if callable(original) and not isinstance(wrapped, type):
            functools.update_wrapper(wrapped, original, updated=())
        setattr(owner, name, wrapped)
        self._done.append((owner, name, own, wrapped))
        return True

    def undo(self) -> None:
        """Put everything back, last first; an attribute replaced again since is left alone."""
        while self._done:
            owner, name, own, wrapped = self._done.pop()
            if owner.__dict__.get(name, _MISSING) is not wrapped:
                continue
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


class Guard:
    """Runs hook code: an exception is counted, told once, and switches that hook off."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self.failures: Counter[str] = Counter()
        self._off: set[str] = set()

    def run(
        self, name: str, hook: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Result | None:
        """``hook(*arguments, **options)``, or None when it fails or has failed before."""
        if name in self._off:
            return None
        try:
            return hook(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - the one place where hooks are kept harmless
            self.fail(name, error)
            return None

    def fail(self, name: str, error: Exception) -> None:
        """Switch the hook ``name`` off, and tell of its first failure."""
        with self._lock:
            self.failures[name] += 1
            first = name not in self._off
            self._off.add(name)
        if not first:
            return
        where = ""
        trace = error.__traceback__
        while trace is not None:
            where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        detail = f"{type(error).__name__}: {error}{where}"
        say(f"capture hook {name!r} failed and is now off: {detail}")
        try:
            self._tell(name, detail)
        except Exception as second:  # noqa: BLE001 - telling must not hurt either
            say(f"the failure could not be recorded: {second}")

    def is_off(self, name: str) -> bool:
        """True when the hook has failed."""
        return name in self._off
