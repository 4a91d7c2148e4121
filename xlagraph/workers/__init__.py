"""Work done by this process, by others on this machine, or by a cluster: one interface for all."""
