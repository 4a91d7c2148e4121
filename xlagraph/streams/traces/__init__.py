"""Profiles as input: a Kineto trace, an ExecutionTrace and a memory snapshot become a log."""
