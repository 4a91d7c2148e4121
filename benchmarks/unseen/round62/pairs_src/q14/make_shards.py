"""Write the sample shards (log extracts of one day each) next to this file."""
import pathlib

import numpy as np
import pandas as pd

out = pathlib.Path(__file__).parent / "shards"
out.mkdir(exist_ok=True)
rng = np.random.default_rng(0)
for day in range(3):
    n = 64
    df = pd.DataFrame({
        "user": rng.integers(0, 200, n),
        "item": rng.integers(0, 120, n),
        "shop": rng.integers(0, 24, n),
        "hour": rng.integers(0, 24, n),
        "views_7d": rng.integers(0, 300, n),
        "carts_7d": rng.integers(0, 30, n),
        "price_cents": rng.integers(99, 20000, n),
        "stock": rng.integers(0, 900, n),
        "clicked": rng.integers(0, 2, n),
    })
    if day == 1:
        df.loc[[7, 31], "stock"] = np.nan
    df.to_csv(out / f"day{day:02d}.csv", index=False)
