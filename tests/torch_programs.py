"""Run programs that use torch_xla as a user would, without the seconds that their imports take.

Each runs in a fork of a server (see ``torch_server.py``), which is started by the first. With
``pytest --no-fork-server`` each has an interpreter of its own, as programs have that ask for it.
"""

import atexit
import json
import os
import py_compile
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMEOUT_SECONDS = 900
FAST = "--xla_backend_optimization_level=0"
"""XLA_FLAGS for programs whose compiles are no matter: most of their time goes into those."""
if find_spec("torch_xla") and version("torch_xla") >= "2.9":  # earlier ones may not know these
    FAST += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
_SERVER = Path(__file__).with_name("torch_server.py")
_START_LINE = (ROOT / "xlagraph_autostart.pth").read_text()
_servers = {}


class Program:
    """A running program: of ``subprocess.Popen`` what tests need."""

    def __init__(self, client, pid, streams):
        self.pid = pid
        self.returncode = None
        self.stdin, self.stdout, self.stderr = streams
        self._client = client

    def wait(self, timeout=TIMEOUT_SECONDS):
        """The exit status, negative for a signal."""
        if self.returncode is None:
            self._client.settimeout(timeout)
            try:
                self.returncode = _number(self._client)
            except TimeoutError:
                self.kill()
                self._client.close()
                raise
            self._client.close()
        return self.returncode

    def communicate(self, text="", timeout=TIMEOUT_SECONDS):
        """Write ``text``, wait for the end; the rest of what the program writes."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        with self.stdin, self.stdout, self.stderr, ThreadPoolExecutor() as pool:
            errors = pool.submit(self.stderr.read)
            with suppress(BrokenPipeError):
                self.stdin.write(text)
                self.stdin.close()
            written = self.stdout.read(), errors.result()
        late.cancel()
        self.wait()
        return written

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def start(program, *arguments, env, cwd):
    """Start a program (a path, ``-m`` and a name, or code) with pipes for standard streams."""
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    mine = [pipes[0][1], pipes[1][0], pipes[2][0]]
    client, pid = _fork(program, arguments, env, cwd, theirs)
    for descriptor in theirs:
        os.close(descriptor)
    streams = [os.fdopen(one, mode) for one, mode in zip(mine, ("w", "r", "r"), strict=True)]
    return Program(client, pid, streams)


def run(program, *arguments, env, cwd, timeout=TIMEOUT_SECONDS, whole_end=False):
    """Run a program to its end; what ``subprocess.run`` gives.

    ``whole_end``: its interpreter takes all modules apart at the end, as any does.
    """
    with ExitStack() as stack:
        nothing = stack.enter_context(Path(os.devnull).open())
        written = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        streams = [one.fileno() for one in (nothing, *written)]
        client, pid = _fork(program, arguments, env, cwd, streams, whole_end=whole_end)
        code = Program(client, pid, (None, None, None)).wait(timeout)
        texts = [os.pread(one.fileno(), one.seek(0, os.SEEK_END), 0).decode() for one in written]
    return subprocess.CompletedProcess([str(program), *arguments], code, *texts)


def _fork(program, arguments, env, cwd, streams, *, whole_end=False):
    """Have the server run a program; the connection, and its pid."""
    is_module = program == "-m"
    request = {
        "path": str(program) if isinstance(program, Path) else "",
        "module": arguments[0] if is_module else "",
        "code": program if isinstance(program, str) else "",
        "arguments": list(arguments[is_module:]),
        "env": env,
        "cwd": str(cwd),
        "start": _START_LINE,
        "whole_end": whole_end,
    }
    client = socket.socket(socket.AF_UNIX)
    client.connect(_server(env.get("PYTHONHASHSEED", "0")))
    data = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(client, [data], streams)
    client.sendall(data[sent:])
    return client, _number(client)


def _server(seed):
    """The socket of the server whose strings have hashes by ``seed``."""
    if seed not in _servers:
        _servers[seed] = _start_server(seed)
    return _servers[seed]


def _start_server(seed):
    folder = Path(tempfile.mkdtemp(prefix="torch-server-"))
    # A frame of its own file would be taken for the program's.
    program = py_compile.compile(
        str(_SERVER), cfile=str(folder / "server.pyc"), dfile="<frozen tests>", doraise=True
    )
    path = folder / "socket"
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("XLAGRAPH", "XLA_", "PYTHONHASH"))
    }
    # Threads, those of torch 2.6 for the compiler's workers too, would end in forks.
    threads = ("OPENBLAS_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
    env |= {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": seed, **dict.fromkeys(threads, "1")}
    server = subprocess.Popen(
        [sys.executable, program, str(path)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout.readline() == "ready\n", "the server did not start"

    def end():
        server.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return str(path)


def _number(client):
    data = b""
    while not data.endswith(b"\n"):
        more = client.recv(64)
        assert more, "the server has died"
        data += more
    return int(data)
