"""Comparing two modules: match their instructions, list what differs."""

from xlagraph.diff.changes import Change, Diff, HeaderChange, Noise, Slot, diff_modules

__all__ = ["Change", "Diff", "HeaderChange", "Noise", "Slot", "diff_modules"]
