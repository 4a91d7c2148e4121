"""Which source line a person is told."""

from __future__ import annotations

from xlagraph.cause.places import at, is_library, own_frame, short_line
from xlagraph.run.records import Frame


def test_installed_packages_are_libraries():
    assert is_library("/venv/lib/python3.11/site-packages/torch/nn/functional.py")
    assert is_library("/src/torch_xla/core/xla_model.py")
    assert not is_library("/home/me/train.py")
    assert not is_library("torch.py")


def test_a_title_shows_the_end_of_the_path():
    assert short_line("/a/b/c/train.py:7") == "c/train.py:7"
    assert short_line("train.py:7") == "train.py:7"
    assert short_line("/v/site-packages/torch/optim/sgd.py:3") == "torch/optim/sgd.py:3 (a library)"
    assert at(()) == ""


def test_the_innermost_frame_of_the_program_counts():
    frames = (
        Frame("/v/site-packages/torch/nn/functional.py", 1, "relu"),
        Frame("/me/model.py", 22, "forward"),
        Frame("/me/train.py", 5, "main"),
    )
    assert own_frame(frames) == "/me/model.py:22"
    assert own_frame(frames[:1]).endswith("functional.py:1")
    assert own_frame(()) == ""
