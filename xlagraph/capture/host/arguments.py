"""The program's arguments as they are recorded: without its secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASKED = "***"
_SECRET = re.compile(r"key|token|secret|passw", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(\w://)[^/\s@]+@")


def masked(arguments: Iterable[str]) -> tuple[str, ...]:
    """All but the values of ``--*key*``, ``--*token*``, ``--*secret*`` and ``--*passw*``.

    Also of ``name=value`` with such a name, and user and password in URLs. What is masked is
    longer rather than shorter: ``--tokenizer bert`` is, too.
    """
    found: list[str] = []
    is_value = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_option = argument.startswith("-")
        if is_value and not argument.startswith("--"):
            found.append(MASKED)
            is_value = False
            continue
        is_secret = bool(_SECRET.search(name))
        if equals and is_secret:
            found.append(f"{name}={MASKED}")
        else:
            found.append(_CREDENTIALS.sub(rf"\1{MASKED}@", argument))
        is_value = is_secret and is_option and not equals
    return tuple(found)
