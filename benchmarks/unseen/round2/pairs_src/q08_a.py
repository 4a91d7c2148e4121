import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


from jax import shard_map
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("d", "m"))

def f(x, w):
    h = x @ w
    h = lax.psum(h, "m")
    h = lax.all_gather(h, "d", axis=0, tiled=True)
    return jnp.tanh(h)

OUT = jax.jit(shard_map(f, mesh=mesh, in_specs=(P("d", "m"), P("m", None)), out_specs=P(), check_vma=False)).lower(jnp.ones((8, 6)), jnp.ones((6, 3)))
