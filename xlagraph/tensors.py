"""What a tensor is, and what holds it: values, in a capture, in causes and on a page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """What a tensor is to the training program."""

    __str__ = str.__str__

    TENSOR = "tensor"
    """Something with a name, no more is known."""
    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    """The ``grad`` of the tensor that is named."""
    STATE = "optimizer state"
    """What an optimizer keeps for the tensor that is named, under `Tensor.key`."""
    BUCKET = "bucket member"
    """The gradient of the tensor that is named, as one of those that a bucket holds."""
    WAITING = "waiting gradient"
    """The same, as a live tensor: flat, waiting in the bucket for its reduction."""
    HELD = "held gradient"
    """The same before it was made flat; the bucket's callback holds it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's identity: which one of which module, and as what.

    Two values are the same tensor when all fields agree.
    """

    owner: str
    """Path of the module that owns it, ``blocks.2``; ``""`` if it has none or is the root's."""
    name: str
    """Its name within the owner: ``weight``."""
    role: Role = Role.TENSOR
    optimizer: str = ""
    """Class of the optimizer whose state it is: ``SGD``."""
    key: str = ""
    """Its key in the optimizer's state: ``momentum_buffer``."""
    shard: bool = False
    """A rank's part of a parameter that FSDP has flattened and divided; `owner` is the FSDP
    module, which may be further out than the one whose own parameter it is."""

    @property
    def path(self) -> str:
        """Owner and name, as PyTorch's ``named_parameters`` has them."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def is_optimizer_state(self) -> bool:
        """Whether an optimizer made it and keeps it."""
        return self.role is Role.STATE

    def __str__(self) -> str:
        """In words: ``blocks.2: weight shard``, ``fc.weight (SGD momentum_buffer)``."""
        member = f"{self.owner}: {self.name}"
        return in_words(self, self.path, member, self.optimizer, self.key)


def in_words(tensor: Tensor, path: str, member: str, optimizer: str, key: str) -> str:
    """A tensor in words.

    `path`, `member`, `optimizer` and `key` are what its path, its owner and name as a shard, and
    what made it are called.
    """
    base = f"{member} shard" if tensor.shard else path
    match tensor.role:
        case Role.GRADIENT:
            return f"{base}.grad"
        case Role.STATE:
            return f"{base} ({optimizer} {key})"
        case Role.WAITING:
            return f"waiting gradient of {base}"
        case Role.HELD:
            return f"gradient of {base}, held by its callback"
        case _:
            return base


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps a tensor alive in Python."""

    via: str
    """``variable`` of a module, ``attribute`` of an object, ``closure``, ``autograd`` (held by
    C++ only), the class of a container, or ``""`` where only `name` says it, in words."""
    name: str = ""
    """The variable, the attribute, or the container's own name with the place in it:
    ``history[0]``."""
    owner: str = ""
    """The module of the variable or container, or the class of the object."""


AUTOGRAD = Holder("autograd")
"""Autograd, or the base of a view: nothing that Python can see."""
