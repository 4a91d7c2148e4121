#!/bin/bash
# makes pairs/ again: PY=<python with torch_xla and jax> bash make.sh
cd "$(dirname "$0")"
export PJRT_DEVICE=CPU XLA_FLAGS=--xla_backend_optimization_level=0 JAX_PLATFORMS=cpu
PY=${PY:-python}
for n in 01 02 03 04 05 06 07 08 09 10; do for v in a b; do
  case $n in 01|04|06|08|09|10) export XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1;; *) unset XLA_IR_DEBUG XLA_HLO_DEBUG;; esac
  nice -n 15 $PY torch_pairs.py q$n $v > ../pairs/q${n}_$v.hlo
done; done
unset XLA_IR_DEBUG XLA_HLO_DEBUG
for n in 11 12 13 14 15 16 17 18 19 20; do for v in a b; do nice -n 15 $PY jax_pairs.py q$n $v > ../pairs/q${n}_$v.hlo; done; done
