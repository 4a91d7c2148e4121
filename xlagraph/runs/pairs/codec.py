"""Values as plain JSON and back, by the types of their fields.

What is stored beside a run may be damaged, or be made to do damage: unlike a pickle, this form can
give nothing but values of the classes named here, with fields of their types.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from xlagraph.cause.kinds import Kind
from xlagraph.cause.verdict import Place, Verdict
from xlagraph.explain.registry import rule_kinds
from xlagraph.message import (
    Change,
    Code,
    GraphName,
    HloName,
    Listing,
    Message,
    Operation,
    Quoted,
    Side,
    SourceLine,
)
from xlagraph.tensors import Tensor

_PARTS = (
    Side, GraphName, Tensor, SourceLine, HloName, Operation, Code, Listing, Quoted, Change,
)  # fmt: skip
_NAMES = {cls.__name__: cls for cls in (*_PARTS, Message, Kind, Place, Verdict)}


class CodecError(ValueError):
    """Plain data that is no value of the type asked for."""


class Codec(NamedTuple):
    """How values of one type are written and read."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def encode(value: object) -> object:
    """A dataclass's value as lists, strings and numbers."""
    return _codec_of(type(value)).encode(value)


def decode(cls: type[Any], plain: object) -> Any:
    """The value that `encode` was given.

    Raises:
        CodecError: it is no such value.
    """
    try:
        return _codec_of(cls).decode(plain)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise CodecError(f"not a {cls.__name__}: {error}") from error


def _codec_of(cls: Any) -> Codec:
    return _codec(cls)


@cache
def _codec(hint: Any) -> Codec:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Kind:
        return Codec(lambda kind: kind.id, _kind)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is Sequence:
        return _tuple((*arguments, ...))
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        return _numbers()
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Codec(lambda member: member.value, hint)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _record(hint)
    return _scalar(hint)


def _scalar(cls: type) -> Codec:
    def checked(value: Any) -> Any:
        if type(value) is cls or (cls is float and type(value) is int):
            return value
        raise CodecError(f"expected {cls.__name__}, got {value!r:.40}")

    return Codec(_same, checked)


def _same(value: Any) -> Any:
    return value


def _kind(identifier: str) -> Kind:
    return _kinds()[identifier]


@cache
def _kinds() -> dict[str, Kind]:
    return {kind.id: kind for kind in rule_kinds()}


def _numbers() -> Codec:
    """A set of instruction numbers."""
    number = _scalar(int).decode
    return Codec(sorted, lambda plain: frozenset(map(number, plain)))


def _tuple(hints: tuple[Any, ...]) -> Codec:
    if hints[1:] == (Ellipsis,):
        each = _codec(hints[0])
        return Codec(
            lambda value: [each.encode(one) for one in value],
            lambda plain: tuple([each.decode(one) for one in _listed(plain)]),
        )
    codecs = [_codec(hint) for hint in hints]
    return Codec(
        lambda value: [c.encode(one) for c, one in zip(codecs, value, strict=True)],
        lambda plain: tuple([c.decode(one) for c, one in zip(codecs, _listed(plain), strict=True)]),
    )


def _listed(plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise CodecError(f"expected a list, got {plain!r:.40}")
    return plain


def _mapping(hints: tuple[Any, ...]) -> Codec:
    pairs = _codec(tuple[tuple[hints], ...])  # type: ignore[valid-type]
    return Codec(
        lambda value: pairs.encode(tuple(value.items())),
        lambda plain: dict(pairs.decode(plain)),
    )


def _union(hints: tuple[Any, ...]) -> Codec:
    """One of several classes, by its name; strings and None stand for themselves."""
    classes = {hint.__name__: hint for hint in hints if hint not in (str, type(None))}
    plain_types = tuple(hint for hint in hints if hint in (str, type(None)))

    def encode_one(value: Any) -> Any:
        if isinstance(value, plain_types) and not isinstance(value, Enum):
            return value
        return {type(value).__name__: _codec_of(type(value)).encode(value)}

    def decode_one(plain: Any) -> Any:
        if isinstance(plain, dict):
            ((name, inner),) = plain.items()
            return _codec(classes[name]).decode(inner)
        if not isinstance(plain, plain_types):
            raise CodecError(f"unexpected {plain!r:.40}")
        return plain

    return Codec(encode_one, decode_one)


def _record(cls: Any) -> Codec:
    """A dataclass or a named tuple as the list of its fields."""
    hints = typing.get_type_hints(cls, localns=_NAMES)
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else list(cls._fields)
    codecs: list[Codec] = []

    def known() -> list[Codec]:  # not before: a field may be of the class itself
        if not codecs:
            codecs.extend(_codec(hints[name]) for name in names)
        return codecs

    def encode_one(value: Any) -> list[Any]:
        return [c.encode(getattr(value, n)) for c, n in zip(known(), names, strict=True)]

    def decode_one(plain: Any) -> Any:
        listed = _listed(plain)
        return cls(*(c.decode(one) for c, one in zip(known(), listed, strict=True)))

    return Codec(encode_one, decode_one)
