"""Rules: one file tells everything about one family of causes.

A file defines its kinds, says how they are found and undone, and gives ``RULE``; a folder holds
those about one subject. `xlagraph.explain.registry` collects the files. In the training scripts
that kinds show, ``model``, ``optimizer``, ``loss_fn`` and ``loader`` stand for those of the reader.
"""
