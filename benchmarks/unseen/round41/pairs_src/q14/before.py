"""Two-tower retrieval of spare parts for machines: in-batch sampled softmax, row-wise optimizer."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_MACHINE, N_PART, DIM = 30, 50, 8


class Tower(nn.Module):
    def __init__(self, n_ids, n_feat):
        super().__init__()
        self.ids = nn.Embedding(n_ids, DIM)
        self.feat = nn.Linear(n_feat, DIM, bias=False)
        self.norm = nn.LayerNorm(2 * DIM)
        self.fc = nn.Linear(2 * DIM, DIM)

    def forward(self, ids, feat):
        x = torch.cat([self.ids(ids), F.silu(self.feat(feat))], dim=-1)
        return F.normalize(self.fc(self.norm(x)), dim=-1, eps=1e-6)


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.machine = Tower(N_MACHINE, 5)
        self.part = Tower(N_PART, 7)
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, mid, mfeat, pid, pfeat, log_q):
        m = self.machine(mid, mfeat)
        p = self.part(pid, pfeat)
        logits = self.log_scale.exp() * (m @ p.t())
        logits = logits - log_q.unsqueeze(0)
        # the same part elsewhere in the batch is no negative
        dup = pid.unsqueeze(0) == pid.unsqueeze(1)
        dup = dup & ~torch.eye(pid.size(0), dtype=torch.bool, device=pid.device)
        logits = logits.masked_fill(dup, -1e4)
        return F.cross_entropy(logits, torch.arange(pid.size(0), device=pid.device))


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad with one accumulator per row of a matrix."""

    def __init__(self, params, lr=0.05, eps=1e-6, weight_decay=1e-3):
        super().__init__(params, dict(lr=lr, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                state = self.state[p]
                if not state:
                    shape = p.shape[:1] + (1,) if p.dim() == 2 else p.shape
                    state["acc"] = torch.full(shape, 0.1, device=p.device)
                acc = state["acc"]
                if p.dim() == 2:
                    p.mul_(1.0 - group["lr"] * group["weight_decay"])
                    acc.add_(g.pow(2).mean(dim=1, keepdim=True))
                else:
                    acc.add_(g.pow(2))
                p.addcdiv_(g, acc.sqrt().add_(group["eps"]), value=-group["lr"])


def batch(gen, n=12):
    mid = torch.randint(0, N_MACHINE, (n,), generator=gen)
    pid = torch.randint(0, N_PART, (n,), generator=gen)
    pop = torch.rand(n, generator=gen) * 0.1 + 1e-3
    return [t.to("xla") for t in (mid, torch.randn(n, 5, generator=gen), pid,
                                  torch.randn(n, 7, generator=gen), pop.log())]


def main(path):
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    model = Retrieval().to("xla")
    params = list(model.parameters())
    opt = RowAdagrad(params)
    for step in range(4):
        b = batch(gen)
        torch_xla.sync()
        opt.zero_grad()
        loss = model(*b)
        loss.backward()
        opt.step()
        if step == 3:
            live = [loss.detach()] + params + [opt.state[p]["acc"] for p in params]
            open(path, "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main(sys.argv[1])
