import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


from jax import shard_map
from jax.sharding import Mesh, PartitionSpec as P

grid = np.array(jax.devices()).reshape(4, 2)
mesh = Mesh(grid, ("data", "model"))


def row_parallel(acts, kernel):
    hidden = jax.nn.relu(acts)
    part = hidden @ kernel
    return lax.psum(part, "model")


mapped = shard_map(row_parallel, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None))
OUT = jax.jit(mapped).lower(jnp.ones((8, 6)), jnp.ones((6, 3)))
