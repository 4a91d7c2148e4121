"""A real S3 server on this host (moto's), as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import NamedTuple

import pytest

SERVER = """
import sys
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="bucket")
print(port, flush=True)
sys.stdin.read()
"""


class Store(NamedTuple):
    """The variables under which ``s3://bucket`` is on the server, and the server."""

    env: dict[str, str]
    process: subprocess.Popen[str]


def start_store() -> Store:
    """Starts it; skips the test where the packages are missing."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        pytest.skip("needs moto[s3], flask-cors and s3fs (the test extra)")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLAGRAPH", "XLA_", "AWS_"))}
    env |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_MAX_ATTEMPTS": "1"}
    env |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    # A name and not a number: to look it up needs threads, which end before the program does.
    env["AWS_ENDPOINT_URL"] = f"http://localhost:{process.stdout.readline().strip()}"
    return Store(env, process)


def end_store(store: Store) -> None:
    """Ends the server."""
    store.process.kill()
    store.process.communicate()
