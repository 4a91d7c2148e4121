"""Steps in a few instructions, for runs that are written and not captured."""

from __future__ import annotations


def step(size=8, *, more=False, kept=False):
    """A step, with a piece more, or with a value that is given back beside the others."""
    a, o = f"s32[{size}]{{0}}", "s32[4]{0}"
    lines = [
        f"%p = {a} parameter(0)",
        f"%q = {a} parameter(1)",
        f"%a = {a} multiply({a} %p, {a} %q)",
        f"%b = {a} abs({a} %a)",
        *([f"%m = {a} not({a} %b)", f"%n = {a} add({a} %m, {a} %p)"] if more or kept else ()),
        f"%c = {a} add({a} {'%n' if more else '%b'}, {a} %q)",
        f"%d = {a} negate({a} %c)",
        *(f"%{k}s = {o} slice({a} %{k}), slice={{[0:4]}}" for k in ("cdn" if kept else "cd")),
    ]
    also = f", {o}" if kept else ""
    root = f"ROOT %t = ({o}, {o}{also}) tuple({o} %cs, {o} %ds{also and also + ' %ns'})"
    head = f"HloModule step\n\nENTRY %main (p: {a}, q: {a}) -> ({o}, {o}{also}) {{"
    return "\n  ".join([head, *lines, root]) + "\n}\n"


def window(number):
    """A step that goes back through so many windows of a sequence before it."""
    a = "s32[8]{0}"
    lines = [
        f"%x{k + 1} = {a} {'add' if k % 2 else 'multiply'}({a} %x{k}, {a} %x0)"
        for k in range(3 + 2 * number)
    ]
    last = len(lines)
    lines = [f"%x0 = {a} parameter(0)", *lines, f"ROOT %r = {a} negate({a} %x{last})"]
    head = f"HloModule step\n\nENTRY %main (p: {a}) -> {a} {{"
    return "\n  ".join([head, *lines]) + "\n}\n"
