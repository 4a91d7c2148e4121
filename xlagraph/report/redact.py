"""Pseudonyms for everything that tells about the program: paths, source, names.

The same name has the same pseudonym all over a report, numbered in order of appearance.
What stays is what XLA itself says: opcodes, shapes, numbers, attribute words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.report.names import short_forms, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_FREE_ATTRIBUTES = re.compile(r"\bfrontend_attributes=\{(?:[^{}]|\{[^{}]*\})*\}")
_IN_ATTRIBUTES = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)+)"'
    r"|%(?P<name>[\w.$\-]+)"
    r"|(?<==)(?P<bare>[A-Za-z_$][\w.$\-]*)",
    re.S,
)
_PATH = r"(?:/[^\s/:'\"(),]+)+|(?:[\w.\-]+/)*[\w.\-]+\.py(?=:\d)"
_WORD = r"[\w$][\w.$\-]*[\w$]|\w"
_TENSOR = re.compile(
    r"(?P<before>(?:waiting )?gradient of )?(?P<name>.*?)"
    r"(?P<after>(?: \(\w+ \w+\))?(?:, held by its callback)?(?:, \d+ steps? old)?)",
    re.S,
)
"""What captures and causes say around a tensor's name."""
_PART = re.compile(r"[\w.$\-]+")
_PARAMETER_OF_MODULE = re.compile(r"\S+|\S+: \S+(?: shard)?")
_NOT_A_NAME = re.compile(r"\(?[a-z][a-z0-9]*\[[\d,<=? ]*\].*|(?:parameter|output) \d+|", re.S)


class RedactedNames:
    """Names replaced by pseudonyms.

    Args:
        tensors: every tensor name, and every other phrase that a sentence may cite.
        instructions: names and opcodes of the instructions of all modules.
        words: names of computations, modules and the like.
        files: paths of source files, which sentences cite by their ends.
    """

    def __init__(
        self,
        tensors: Iterable[str],
        instructions: Iterable[tuple[str, str]],
        words: Iterable[str],
        files: Collection[str] = (),
    ):
        self._files = short_forms(files)
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._opcodes = dict(instructions)
        self._opcode_words = frozenset(self._opcodes.values())
        self._words = frozenset(words) - self._opcode_words
        cores = frozenset(core for core in map(tensor_core, tensors) if core)
        self._parts = frozenset(part for core in cores for part in name_parts(core))
        phrases = _any_of(cores)
        paths = _any_of({*self._files, *self._files.values()} - {""})
        self._cited = re.compile(
            rf'(?<![\w.])(?:(?P<file>{paths})|(?P<tensor>{phrases}))(?![\w.]*\w)|"(?P<quoted>[^"]+)(?:"|$)'
            rf"|(?P<path>{_PATH})|(?P<word>{_WORD})"
        )

    def path(self, file: str) -> str:
        """``file3.py``."""
        return self._pseudonym("file", self._files.get(file, file)) + ".py" if file else ""

    def function(self, name: str) -> str:
        """``function3``."""
        return self._pseudonym("function", name) if name else ""

    def tensor(self, name: str) -> str:
        """``tensor3``; what is only a shape or a position stays."""
        core = tensor_core(name)
        if not core:
            return visible(name)
        if core in self._opcodes:
            return self.instruction(core, self._opcodes[core])
        return name.replace(core, self._pseudonym("tensor", core))

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

    def attributes(self, text: str) -> str:
        """Names and quoted texts replaced, words and numbers left."""
        text = _FREE_ATTRIBUTES.sub("frontend_attributes={}", text)
        return visible(_IN_ATTRIBUTES.sub(self._in_attributes, text))

    def text(self, text: str) -> str:
        """Every known name and every path replaced."""
        return visible(self._cited.sub(self._in_text, text))

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
        if found["name"]:
            return "%" + self._name(found["name"])
        return self._name(found["bare"]) if self._is_name(found["bare"]) else found["bare"]

    def _in_text(self, found: re.Match[str]) -> str:
        if found["file"]:
            return self.path(found["file"])
        if found["tensor"]:
            return self.tensor(found["tensor"])
        if found["quoted"]:
            return f'"{self._pseudonym("text", found["quoted"])}"'
        if found["path"]:
            return self.path(found["path"])
        word = found["word"]
        return self._name(word) if self._is_name(word) else word

    def _is_name(self, word: str) -> bool:
        return (
            word in self._parts
            or word in self._words
            or (word in self._opcodes and word not in self._opcode_words)
        )

    def _name(self, name: str) -> str:
        if name in self._opcodes:
            return self.instruction(name, self._opcodes[name])
        if name in self._parts and name not in self._words:
            return self._pseudonym("name", name)
        return self.computation(name)


def _any_of(texts: Iterable[str]) -> str:
    """A pattern for any of these texts, longest first."""
    known = sorted(texts, key=lambda text: (-len(text), text))
    return "|".join(map(re.escape, known)) or "(?!)"


def tensor_core(name: str) -> str:
    """The part of a tensor's name that the program chose, ``""`` if there is none."""
    found = _TENSOR.fullmatch(name)
    core = found["name"] if found else name
    return "" if _NOT_A_NAME.fullmatch(core) else core


def name_parts(core: str) -> set[str]:
    """What a sentence may cite of a tensor's name: its words, and runs of their pieces."""
    parts = set()
    is_name = _PARAMETER_OF_MODULE.fullmatch(core)
    for word in _PART.findall(core.removesuffix(" shard")):
        pieces = word.strip(".-").split(".")
        if is_name or len(pieces) > 1 or "_" in word:
            parts.add(".".join(pieces))
        for first in range(len(pieces)):
            for last in range(first + 2, len(pieces) + 1):
                parts.add(".".join(pieces[first:last]))
    return {part for part in parts if not part.replace(".", "").isdecimal()} - {""}
