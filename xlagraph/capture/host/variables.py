"""Environment variables for XLA and torch_xla, which read them in C++, and for nobody else.

They are put into the environment of C alone: ``os.environ`` does not change, so that neither the
program nor the environments that it makes for its children show them. Children that inherit the
environment as it is get them; in those that run Python, the package's .pth file takes them out
again (``xlagraph.capture.host.inherited``).
"""

from __future__ import annotations

import os


class Variables:
    """Variables that were put, until they are restored."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def put(self, name: str, value: str) -> None:
        """Have C++ code read this."""
        os.putenv(name, value)
        self._names.add(name)

    def restore(self, *names: str) -> bool:
        """Have it read what ``os.environ`` says again; of all variables when none is named.

        False when none of them was put.
        """
        found = self._names & set(names or self._names)
        self._names -= found
        for name in found:
            value = os.environ.get(name)
            if value is None:
                os.unsetenv(name)
            else:
                os.putenv(name, value)
        return bool(found)
