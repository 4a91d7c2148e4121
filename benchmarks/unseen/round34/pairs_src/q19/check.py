"""Both versions from the same key, over ten steps."""
import jax
import numpy as np

import train_after as b
import train_before as a

pa, pb = a.init(jax.random.PRNGKey(42)), b.init(jax.random.PRNGKey(42))
sa, sb = a.tx.init(pa), b.tx.init(pb)
worst = 0.0
for (x, y, w), _ in zip(a.batches(), range(10)):
    pa, sa, la = a.step(pa, sa, x, y, w)
    pb, sb, lb = b.step(pb, sb, x, y, w)
    worst = max(worst, float(np.abs(la - lb).max()))
par = max(float(np.abs(l[n] - pb[m][i]).max()) for i, l in enumerate(pa["layers"])
          for n, m in (("w", "kernels"), ("b", "biases")))
print("worst loss difference", worst, "worst parameter difference", par)
