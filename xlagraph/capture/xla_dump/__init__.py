"""The modules that XLA writes as it compiles, in a folder of this process alone."""
