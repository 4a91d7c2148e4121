"""Real programs in processes of their own, with and without capture."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch_programs
from hypothesis import HealthCheck, settings

# How fast examples come depends on what else the machine does.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
VARIABLES = ("XLAGRAPH", "XLA_", "PYTEST")
"""What a program does not inherit from the test suite."""


def pytest_addoption(parser):
    parser.addoption(
        "--no-fork-server",
        action="store_true",
        help="give each program that uses torch_xla an interpreter of its own: slow",
    )


def pytest_collection_modifyitems(items):
    """Real programs need torch_xla: say so instead of failing."""
    if find_spec("torch_xla") is not None:
        return
    for item in items:
        if "torch_xla" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs the capture extra"))


@pytest.fixture(scope="session")
def environment():
    """The variables that programs have."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    flags = torch_programs.FAST
    return env | {"PJRT_DEVICE": "CPU", "PYTHONUNBUFFERED": "1", "XLA_FLAGS": flags}


@pytest.fixture(scope="session")
def has_server(request):
    """Whether programs run in forks of an interpreter that has torch loaded."""
    return find_spec("torch_xla") is not None and not request.config.option.no_fork_server


@pytest.fixture(scope="session")
def run_in(environment, has_server):
    """``run_in(folder, program, *arguments, **variables)``: the finished process.

    The program is a path, code, or ``-m`` and a module's name. ``fresh``: it is to have an
    interpreter of its own in any case. ``whole_end``: its interpreter ends by itself, as any does.
    """

    def run(folder, program, *arguments, fresh=False, whole_end=False, **variables):
        env = environment | variables
        if has_server and not fresh:
            return torch_programs.run(program, *arguments, env=env, cwd=folder, whole_end=whole_end)
        return subprocess.run(
            [*_command(program), *arguments],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=torch_programs.TIMEOUT_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def run_program(tmp_path, run_in):
    """The same in the test's own folder; the program must succeed unless not ``check``."""

    def run(program, *arguments, check=True, **options):
        done = run_in(tmp_path, program, *arguments, **options)
        if check:
            assert done.returncode == 0, done.stderr[-3000:]
        return done

    return run


@pytest.fixture
def start_program(tmp_path, environment, has_server):
    """``start_program(program, *arguments, **variables)``: the running process, with pipes."""

    def start(program, *arguments, **variables):
        env = environment | variables
        if has_server:
            return torch_programs.start(program, *arguments, env=env, cwd=tmp_path)
        return subprocess.Popen(
            [*_command(program), *arguments],
            env=env,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def _command(program):
    if isinstance(program, Path):
        return [sys.executable, str(program)]
    return [sys.executable, program] if program == "-m" else [sys.executable, "-c", program]
