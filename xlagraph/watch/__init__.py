"""Tests that fail when training recompiles: ``assert_stable`` and the pytest plugin."""
