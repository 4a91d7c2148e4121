"""Runs programs that use torch_xla, each in a fork of an interpreter that has torch loaded.

    python torch_server.pyc SOCKET

Most of a small program's time goes into imports: 3 seconds, of which torch_xla's own modules take
a tenth. The server imports all that torch_xla needs, but not torch_xla, and nothing of xlagraph:
both are new in each program, which sees its own environment, arguments, working folder, standard
streams and ``__main__``.

A client connects to the socket and sends one line of JSON (see ``Request``) with the descriptors
of standard input, output and error. The answers are two lines: the program's pid, and its exit
status, negative for a signal. The server ends with its own standard input.
"""

import atexit
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
from types import ModuleType
from typing import TypedDict

POLL_SECONDS = 0.005
FRESH = ("torch_xla", "_XLAC", "_XLAC_cuda_functions", "libtpu", "xlagraph")
"""What each program imports itself; the third, of torch_xla 2.8, gives symbols to the second."""


class Request(TypedDict):
    """A program to run."""

    path: str
    """Its file, or ``""``."""
    code: str
    """Its text, where it has no file."""
    module: str
    """Its name, for ``python -m``."""
    arguments: list[str]
    env: dict[str, str]
    cwd: str
    start: str
    """What the interpreter runs first: the line of the package's .pth file."""
    whole_end: bool
    """The interpreter ends by itself, and is not stopped after the exit functions."""


def needed():
    """Names of the modules that the import of torch_xla loads; found in a child."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.environ["PJRT_DEVICE"] = "CPU"
        importlib.import_module("torch_xla")
        names = [name for name in sys.modules if name.split(".")[0] not in FRESH]
        with os.fdopen(writer, "w") as stream:
            stream.write("\n".join(names))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        names = stream.read().split()
    os.wait()
    return names


def preload():
    """Import all of that here, with no thread started: threads do not survive a fork."""
    import torch  # noqa: F401 - before the fork in needed(), which is to be quick

    for name in needed():
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # made by another module as it was imported
    assert not any(name.split(".")[0] in FRESH for name in sys.modules)
    threads = os.listdir("/proc/self/task")  # noqa: PTH208 - numbers, no paths
    assert len(threads) == 1, f"{len(threads)} threads"
    gc.collect()
    gc.freeze()  # what is loaded is not looked through again in each program


def serve(path):
    """Fork for each request; returns in the forks only, with the request."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    running = {}
    while True:
        ready, _, _ = select.select(
            [listener, sys.stdin], [], [], POLL_SECONDS if running else None
        )
        if listener in ready:
            client, _ = listener.accept()
            request, streams = receive(client)
            pid = os.fork()
            if pid == 0:
                listener.close()
                for one in (client, *running.values()):
                    one.close()
                take(streams)
                return request
            for stream in streams:
                os.close(stream)
            running[pid] = client
            answer(client, pid)
        reap(running)
        if sys.stdin in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)


def receive(client):
    """The request and its descriptors."""
    data, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
    while not data.endswith(b"\n"):
        data += client.recv(1 << 16)
    return json.loads(data), streams


def answer(client, number):
    """Tell the client a number; it may have gone."""
    try:
        client.sendall(f"{number}\n".encode())
    except OSError:
        client.close()


def reap(running):
    """Answer with the status of those programs that have ended."""
    for pid, client in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            answer(client, os.waitstatus_to_exitcode(status))
            client.close()
            del running[pid]


def take(streams):
    """Make the client's descriptors the standard streams, which have no buffers here."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the server's has read ahead


def prepare(request):
    """Look like an interpreter that was just started; the program's code and its globals."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None  # it may have been looked up
    random.seed()
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    first = request["path"] or ("-m" if request["module"] else "-c")
    sys.argv = [first, *request["arguments"]]
    sys.path[0] = os.path.dirname(os.path.abspath(first)) if request["path"] else ""  # noqa: PTH100, PTH120
    exec(request["start"], {})
    if request["module"]:
        sys.path[0] = request["cwd"]
        options = f"{request['module']!r}, run_name='__main__', alter_sys=True"
        code = f"import runpy; runpy.run_module({options})"
        return compile(code, "<frozen tests>", "exec"), vars(main)
    if request["path"]:
        main.__file__ = request["path"]
        with open(request["path"], "rb") as file:  # noqa: PTH123
            return compile(file.read(), request["path"], "exec"), vars(main)
    return compile(request["code"], "<string>", "exec"), vars(main)


def finish(error):
    """End the program: threads, exit functions, streams, and an exit status, but no more.

    What follows in an interpreter, taking all modules apart, takes longer than most programs.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status == 1 and error.code != 1:
            print(error.code, file=sys.stderr)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001 - as the interpreter does
            status = 120
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 255)


if __name__ == "__main__":
    preload()
    request = serve(sys.argv[1])
    code, variables = prepare(request)
    if request["whole_end"]:
        exec(code, variables)
        sys.exit()
    try:
        exec(code, variables)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        finish(error)
    finish(None)
