"""A module made ready to be evaluated, and its evaluation."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.errors import InputError
from xlagraph.evaluate.budget import MAX_DEPTH, Budget, arrays_of, cost_of, elements_of, total_cost
from xlagraph.evaluate.coverage import Coverage
from xlagraph.evaluate.domains import domains_of
from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.evaluate.numbers import jittered, literal
from xlagraph.evaluate.opcodes import (
    contraction,
    elementwise,
    indexing,
    library,
    reduction,
    structure,
)
from xlagraph.evaluate.step import Calls, Step, type_of
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.evaluate.draws import Domains
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module
    from xlagraph.hlo.shapes import Shape

HANDLERS: dict[str, Callable[[Step, Sequence[Any], Calls], Any]] = {
    **dict.fromkeys((*elementwise.FUNCTIONS, *elementwise.STEPS), elementwise.elementwise),
    **structure.HANDLERS,
    **library.HANDLERS,
    "convolution": contraction.convolution,
    "dot": contraction.dot,
    "gather": indexing.gather,
    "reduce": reduction.reduce,
    "reduce-window": reduction.reduce_window,
    "scatter": indexing.scatter,
    "select-and-scatter": reduction.select_and_scatter,
    "sort": indexing.sort,
}
CALLING = frozenset({"call", "fusion", "map", "while", "conditional"})
LIFTED = frozenset(
    (*elementwise.FUNCTIONS, *elementwise.STEPS, "tuple", "get-tuple-element", "copy")
)
"""What may stand in a computation over scalars that is evaluated for arrays at once."""
_HELD = frozenset({"parameter", "constant"})
_ROUNDING = float(np.finfo(np.float64).eps)
"""How far a result is from what it would be exactly, relative to its size."""
_ERRORS = (
    ArithmeticError,
    InputError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Line(NamedTuple):
    """One instruction of a plan, and the values that nobody needs behind it."""

    step: Step
    operands: tuple[int, ...]
    cost: int
    done: tuple[int, ...]


class Program:
    """A module whose instructions are known to be evaluated, and to cost little enough.

    Raises:
        NotEvaluatedError: they are not, or what they cost cannot be told.
    """

    def __init__(self, module: Module):
        self.module = module
        self._plans: dict[int, list[_Line]] = {}
        self._constants: dict[int, Any] = {}
        self.coverage = Coverage()
        try:
            self.cost = self._estimated()
        except _ERRORS as error:
            raise NotEvaluatedError(f"the module is not evaluated: {error}") from None

    def _estimated(self) -> int:
        live: dict[int, list[int]] = {}
        pending = [self.module.entry]
        while pending:
            number = pending.pop()
            if number in live:
                continue
            live[number] = _needed(self.module, number)
            for i in live[number]:
                self._check(i)
                pending += self.module.callees.get(i, ())
        self._live = live
        for parameter in self.module.entry_computation.parameters:
            elements_of(read_shape(self.module.shapes[parameter]))
        return total_cost(self.module, self.module.entry, live, {})

    def _check(self, i: int) -> None:
        opcode = self.module.opcodes[i]
        if opcode not in HANDLERS and opcode not in CALLING and opcode not in _HELD:
            raise NotEvaluatedError(f"{opcode} is not evaluated ({self.module.names[i]})")
        for array in arrays_of(read_shape(self.module.shapes[i])):
            if array.element_type != "token":
                type_of(array.element_type)
        if opcode == "constant":
            elements_of(read_shape(self.module.shapes[i]))
            shape = read_shape(self.module.shapes[i])
            self._constants[i] = literal(shape, self.module.payloads.get(i, ""))

    @cached_property
    def parameters(self) -> tuple[Shape, ...]:
        """The shapes that it takes."""
        module = self.module
        return tuple(read_shape(module.shapes[p]) for p in module.entry_computation.parameters)

    @cached_property
    def domains(self) -> Domains:
        """What its inputs are, as far as what takes them in tells."""
        return domains_of(self.module)

    def run(
        self,
        arguments: Sequence[Any],
        budget: Budget | None = None,
        device: int = 1,
        chance: np.random.Generator | None = None,
    ) -> list[Array]:
        """The arrays that the module gives back, those of tuples in order.

        `chance`: rounds each result by it, as another order of sums might.

        Raises:
            NotEvaluatedError: it costs too much, or attributes do not fit their shapes.
        """
        given = [
            _argument(shape, argument)
            for shape, argument in zip(self.parameters, arguments, strict=True)
        ]
        running = _Running(self, budget or Budget(), device, chance)
        with np.errstate(all="ignore"):
            try:
                value = running.call(self.module.entry, given)
            except _ERRORS as error:
                name = type(error).__name__
                raise NotEvaluatedError(f"the module is not evaluated: {name}: {error}") from None
        return list(_flattened(value))

    def values(
        self, arguments: Sequence[Any], budget: Budget, since: Mapping[int, Any] | None = None
    ) -> dict[int, Any]:
        """The values of all instructions of the entry that an output needs.

        `since`: those of an earlier evaluation, taken over where no argument below has changed.

        Raises:
            NotEvaluatedError: it costs too much, or attributes do not fit their shapes.
        """
        given = [
            _argument(shape, argument)
            for shape, argument in zip(self.parameters, arguments, strict=True)
        ]
        running = _Running(self, budget, 1, None)
        with np.errstate(all="ignore"):
            try:
                return running.entry(given, since or {})
            except _ERRORS as error:
                name = type(error).__name__
                raise NotEvaluatedError(f"the module is not evaluated: {name}: {error}") from None

    def outputs_of(self, values: Mapping[int, Any]) -> list[Array]:
        """The arrays that the module gives back, of the values of its entry."""
        return list(_flattened(values[self.module.entry_computation.root]))

    def needs(self, i: int) -> bool:
        """Whether an output depends on an instruction, as far as what it is called by tells."""
        return i in self._needed

    @cached_property
    def _needed(self) -> frozenset[int]:
        return frozenset().union(*self._live.values())

    @cached_property
    def discrete_outputs(self) -> tuple[bool, ...]:
        """For each output whether it keeps little of floats: an integer or a truth value."""
        module = self.module
        of_floats = bytearray(len(module))
        for i in self._live[module.entry]:
            arrays = arrays_of(read_shape(module.shapes[i]))
            is_input = module.opcodes[i] == "parameter"
            is_float = any(
                type_of(one.element_type).kind in "fc"
                for one in arrays
                if one.element_type != "token"
            )
            of_floats[i] = (is_float and is_input) or any(of_floats[o] for o in module.operands[i])
        return tuple(
            bool(of_floats[i]) and type_of(read_shape(module.shapes[i]).element_type).kind in "biu"
            for i in module.outputs
        )

    def plan(self, computation: int) -> list[_Line]:
        """The instructions that a computation's result needs, in order."""
        known = self._plans.get(computation)
        if known is None:
            known = self._plans[computation] = self._planned(computation)
        return known

    def _planned(self, computation: int) -> list[_Line]:
        module, order = self.module, self._live[computation]
        last: dict[int, int] = {o: i for i in order for o in module.operands[i]}
        ends: dict[int, list[int]] = {}
        for value, user in last.items():
            ends.setdefault(user, []).append(value)
        return [
            _Line(Step(module, i), module.operands[i], cost_of(module, i), tuple(ends.get(i, ())))
            for i in order
        ]

    def constant(self, i: int) -> Any:
        """The value of a constant."""
        return self._constants[i]


class _Running:
    """One evaluation of a program."""

    def __init__(
        self, program: Program, budget: Budget, device: int, chance: np.random.Generator | None
    ):
        self.program = program
        self.chance = chance
        self.module = program.module
        self.budget = budget
        self.depth = 0
        self.calls = Calls(self.call, self.lifted, budget, device)

    def call(self, computation: int, arguments: Sequence[Any]) -> Any:
        """A computation with its arguments."""
        return self._evaluated(computation, arguments, self._made)

    def entry(self, arguments: Sequence[Any], since: Mapping[int, Any]) -> dict[int, Any]:
        """The values of the entry's instructions, computed where they are not as they were."""
        parameters = self.module.entry_computation.parameters
        values: dict[int, Any] = dict(zip(parameters, arguments, strict=True))
        new = {p for p in parameters if p not in since or not _is_same(values[p], since[p])}
        for line in self.program.plan(self.module.entry):
            number = line.step.number
            if number in values:
                continue
            if line.step.opcode == "constant":
                values[number] = self.program.constant(number)
            elif number in since and new.isdisjoint(line.operands):
                values[number] = since[number]
            else:
                new.add(number)
                self.budget.charge(line.cost)
                values[number] = self._made(line, [values[o] for o in line.operands])
        return values

    def lifted(self, computation: int, arguments: Sequence[Any]) -> Any:
        """A computation over scalars, for arrays of them at once."""
        size = max(np.size(x) for x in arguments)

        def made(line: _Line, operands: Sequence[Any]) -> Any:
            if line.step.opcode == "call":
                return self.lifted(line.step.callee("to_apply"), operands)
            if line.step.opcode not in LIFTED or line.step.shape.dimensions:
                raise line.step.not_evaluated("in what combines or compares elements")
            self.budget.charge(size)
            value = HANDLERS[line.step.opcode](line.step, operands, self.calls)
            self.program.coverage.note(line.step, operands, value)
            return value

        return self._evaluated(computation, arguments, made)

    def _evaluated(
        self,
        computation: int,
        arguments: Sequence[Any],
        made: Callable[[_Line, Sequence[Any]], Any],
    ) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotEvaluatedError("calls are nested too deep to be evaluated")
        called = self.module.computations[computation]
        values: dict[int, Any] = dict(zip(called.parameters, arguments, strict=True))
        for line in self.program.plan(computation):
            number = line.step.number
            if line.step.opcode == "constant":
                values[number] = self.program.constant(number)
            elif line.step.opcode != "parameter":
                self.budget.charge(line.cost)
                values[number] = made(line, [values[o] for o in line.operands])
                for value in line.done:
                    del values[value]
        self.depth -= 1
        return values[called.root]

    def _made(self, line: _Line, operands: Sequence[Any]) -> Any:
        step = line.step
        if step.opcode in CALLING:
            made = self._called(step, operands)
        else:
            made = HANDLERS[step.opcode](step, operands, self.calls)
        self.program.coverage.note(step, operands, made)
        if self.chance is not None and step.opcode not in CALLING:
            made = jittered(made, self.chance, _ROUNDING)
        return _checked(step, step.shape, made)

    def _called(self, step: Step, operands: Sequence[Any]) -> Any:
        match step.opcode:
            case "call":
                return self.call(step.callee("to_apply"), operands)
            case "fusion":
                return self.call(step.callee("calls"), operands)
            case "map":
                made = self.lifted(step.callee("to_apply"), operands)
                return np.broadcast_to(made, step.dimensions)
            case "while":
                return self._looped(step, operands[0])
            case _:
                return self._chosen(step, operands)

    def _looped(self, step: Step, state: Any) -> Any:
        condition, body = step.callee("condition"), step.callee("body")
        while self.call(condition, [state]):
            self.budget.turn()
            self.program.coverage.note_branch(step, 1)
            state = self.call(body, [state])
        return state

    def _chosen(self, step: Step, operands: Sequence[Any]) -> Any:
        which, branches = operands[0], self.module.callees[step.number]
        if which.dtype.kind == "b":
            number = 0 if which else 1
        else:
            number = int(which) if 0 <= which < len(branches) else len(branches) - 1
        self.program.coverage.note_branch(step, number)
        return self.call(branches[number], [operands[number + 1]])


def _needed(module: Module, computation: int) -> list[int]:
    """What a computation's root depends on, ascending; what only acts is left out."""
    called = module.computations[computation]
    needed, pending = {called.root}, [called.root]
    while pending:
        for operand in module.operands[pending.pop()]:
            if operand not in needed:
                needed.add(operand)
                pending.append(operand)
    return sorted(needed)


def _checked(step: Step, shape: Shape, value: Any) -> Any:
    """A value that has the shape that it should have.

    Raises:
        NotEvaluatedError: it has not.
    """
    if shape.is_tuple:
        if not isinstance(value, tuple) or len(value) != len(shape.parts):
            raise step.not_evaluated("its value does not fit its shape")
        return tuple(
            _checked(step, part, one) for part, one in zip(shape.parts, value, strict=True)
        )
    if shape.element_type == "token":
        return ()
    value = np.asarray(value)
    if value.shape != shape.dimensions or value.dtype != type_of(shape.element_type):
        raise step.not_evaluated("its value does not fit its shape")
    return value


def _argument(shape: Shape, value: Any) -> Any:
    if shape.is_tuple:
        pairs = zip(shape.parts, value, strict=True)
        return tuple(_argument(part, one) for part, one in pairs)
    return np.asarray(value, type_of(shape.element_type)).reshape(shape.dimensions)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are equal, those in tuples one by one."""
    return all(map(np.array_equal, _flattened(one), _flattened(other)))


def _flattened(value: Any) -> list[Array]:
    if isinstance(value, tuple):
        return [array for part in value for array in _flattened(part)]
    return [value]


def evaluate(module: Module, arguments: Sequence[Any]) -> list[Array]:
    """The arrays that a module gives back for these arguments, those of tuples in order.

    Floats are computed in double precision and rounded where the program converts them.

    Raises:
        NotEvaluatedError: an instruction is not evaluated, or the module costs too much.
    """
    budget = Budget()
    program = Program(module)
    budget.charge(program.cost)
    return program.run(arguments)
