"""Reading HLO protobufs; the library is imported with `reader`, when one is read."""
