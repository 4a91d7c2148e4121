import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

def layer(x, w):
    return jax.nn.relu(x @ w)

shard = lambda *s: NamedSharding(mesh, P(*s))
OUT = jax.jit(layer, in_shardings=(shard("data", None), shard(None, "model"))).lower(jnp.ones((8, 16)), jnp.ones((16, 8)))
