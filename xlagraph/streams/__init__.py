"""Stream order on CUDA: which accesses to memory nothing orders, and the edge that is missing."""
