import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
import torch_xla
import torch_xla.core.xla_model as xm

cfg = dict(inner_lr=0.05, inner_steps=2, tasks=3, shots=10, meta_lr=1e-3,
           iters=9, first_order_until=6, hidden=24)


class SineNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.l1 = nn.Linear(1, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.l3(torch.tanh(self.l2(torch.tanh(self.l1(x)))))


def sample_task(shots):
    amp = torch.rand(1) * 4.9 + 0.1
    phase = torch.rand(1) * math.pi
    x = torch.rand(2 * shots, 1) * 10 - 5
    y = amp * torch.sin(x + phase)
    return x[:shots], y[:shots], x[shots:], y[shots:]


def adapt(model, params, xs, ys, use_second_order):
    fast = params
    for _ in range(cfg["inner_steps"]):
        loss = F.mse_loss(functional_call(model, fast, (xs,)), ys)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=use_second_order)
        fast = {k: p - cfg["inner_lr"] * g for (k, p), g in zip(fast.items(), grads)}
    return fast


def meta_step(model, opt, device, iteration):
    use_second_order = iteration >= cfg["first_order_until"]
    params = dict(model.named_parameters())
    meta_loss = 0.0
    for _ in range(cfg["tasks"]):
        xs, ys, xq, yq = (t.to(device) for t in sample_task(cfg["shots"]))
        fast = adapt(model, params, xs, ys, use_second_order)
        meta_loss = meta_loss + F.mse_loss(functional_call(model, fast, (xq,)), yq)
    meta_loss = meta_loss / cfg["tasks"]
    opt.zero_grad()
    meta_loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    opt.step()
    torch_xla.sync()
    return meta_loss


def main():
    torch.manual_seed(11)
    device = xm.xla_device()
    model = SineNet(cfg["hidden"]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["meta_lr"])
    for it in range(cfg["iters"]):
        loss = meta_step(model, opt, device, it)
        if it % 4 == 0:
            print(f"[{it:4d}] meta-loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
