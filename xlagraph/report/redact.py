"""Pseudonyms for everything that tells about the program: paths, source, names.

The same name has the same pseudonym all over a report, numbered in order of appearance.
What stays is what XLA itself says: opcodes, shapes, numbers, and the words of
`xlagraph.report.xla_words`. All other words of a module's text are taken for names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.report.names import visible
from xlagraph.report.xla_words import OPTIMIZER_WORDS, is_xla_word
from xlagraph.tensors import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Module
    from xlagraph.report.names import Excerpt
    from xlagraph.tensors import Tensor

_FREE_ATTRIBUTES = re.compile(r"\bfrontend_attributes=\{(?:[^{}]|\{[^{}]*\})*\}")
_IN_ATTRIBUTES = re.compile(
    r"(?P<quoted>\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z))"
    r"|%?(?P<word>[\w$][\w.$\-]*)",
    re.S,
)


class RedactedNames:
    """Names replaced by pseudonyms; what instructions and computations are called is learned."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._opcodes: dict[str, str] = {}
        self._computations: set[str] = set()

    def learn(self, modules: Iterable[Module]) -> None:
        """Takes in the names of modules that are shown from here on."""
        for module in modules:
            self._opcodes.update(zip(module.names, module.opcodes, strict=True))
            self._computations.update(one.name for one in module.computations)

    def path(self, file: str) -> str:
        """``file3.py``."""
        return self._pseudonym("file", file) + ".py" if file else ""

    def function(self, name: str) -> str:
        """``function3``."""
        return self._pseudonym("function", name) if name else ""

    def tensor(self, tensor: Tensor) -> str:
        """``tensor3``; what it is to the program stays."""
        path = self._pseudonym("tensor", tensor.path)
        member = f"{self._pseudonym('module', tensor.owner)}: {path}"
        words = [tensor.optimizer, tensor.key]
        optimizer, key = (w if w in OPTIMIZER_WORDS else self._pseudonym("name", w) for w in words)
        return in_words(tensor, path, member, optimizer, key)

    def module(self, name: str) -> str:
        """``module3``."""
        return self._pseudonym("module", name) if name else ""

    def input(self, name: str) -> str:
        """``input3``."""
        return self._pseudonym("input", name)

    def computation(self, name: str) -> str:
        """``computation.3``."""
        return self._pseudonym("computation.", name)

    def instruction(self, name: str, opcode: str) -> str:
        """``add.3``: the opcode and a number."""
        return self._pseudonym(opcode + ".", name)

    def operation(self, name: str) -> str:
        """``operation3``."""
        return self._pseudonym("operation", name) if name else ""

    def code(self, text: str) -> str:
        """``code3``."""
        return self._pseudonym("code", text)

    def attributes(self, text: str) -> str:
        """Quoted texts and all words that are not XLA's replaced, numbers left."""
        text = _FREE_ATTRIBUTES.sub("frontend_attributes={}", text)
        return visible(_IN_ATTRIBUTES.sub(self._in_attributes, text))

    def excerpt(self, lines: Excerpt) -> Excerpt:  # noqa: ARG002
        """Nothing: a program's text is its own."""
        return ()

    def detail(self, text: str) -> str:  # noqa: ARG002
        """Nothing: it may say anything."""
        return ""

    def _pseudonym(self, kind: str, name: str) -> str:
        known = self._given.get((kind, name))
        if known is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            known = self._given[kind, name] = f"{kind}{self._counts[kind]}"
        return known

    def _in_attributes(self, found: re.Match[str]) -> str:
        if found["quoted"]:
            return f'"{self._pseudonym("text", found["quoted"])}"'
        word, sign = found["word"], "%" if found[0].startswith("%") else ""
        if word in self._opcodes and (sign or not is_xla_word(word)):
            return sign + self.instruction(word, self._opcodes[word])
        if word in self._computations and (sign or not is_xla_word(word)):
            return sign + self.computation(word)
        return word if not sign and is_xla_word(word) else sign + self._pseudonym("name", word)
