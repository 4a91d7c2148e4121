"""The passes of the matcher, one a file: each adds pairs to a `Pairing`, or takes some back."""
