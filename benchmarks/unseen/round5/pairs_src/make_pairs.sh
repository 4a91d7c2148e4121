#!/bin/bash
# Writes pairs/qNN_{a,b}.hlo again; PY is a Python with torch_xla and jax.
cd "$(dirname "$0")"; PY=${PY:-python}
export PJRT_DEVICE=CPU XLA_FLAGS=--xla_backend_optimization_level=0
$PY jax_pairs.py q02 q04 q06 q08 q10 q12 q14 q18 q19 q20
$PY tx_pairs.py q03 q05 q13 q15 q16
XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1 $PY tx_pairs.py q01 q07 q11
XLA_ALWAYS_ALLREDUCE=1 $PY tx_pairs.py q17
CPU_NUM_DEVICES=8 $PY tx_pairs.py q09
