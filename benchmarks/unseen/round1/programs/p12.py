import torch
import torch.nn as nn
import torch_xla


def micro_batches(n, size=4):
    g = torch.Generator().manual_seed(5)
    for _ in range(n):
        x = torch.randn(size, 9, generator=g)
        yield x, (x[:, :1] * 2 - x[:, 1:2])


ACCUM = 3
device = torch_xla.device()
model = nn.Sequential(nn.Linear(9, 18), nn.LayerNorm(18), nn.SiLU(), nn.Linear(18, 1)).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
opt.zero_grad(set_to_none=False)
total = torch.zeros((), device=device)
for i, (x, y) in enumerate(micro_batches(18)):
    loss = (model(x.to(device)) - y.to(device)).abs().mean() / ACCUM
    loss.backward()
    total += loss.detach()
    if (i + 1) % ACCUM == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
        print("update", (i + 1) // ACCUM, total.item())
        total.zero_()
    else:
        torch_xla.sync()
