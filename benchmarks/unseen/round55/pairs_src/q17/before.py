"""Entire-space multi-task CTR/CVR model with progressive layered extraction."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FIELDS = {"user": 50, "item": 80, "category": 12, "hour": 24}
EMB = 6
N_DENSE = 5


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleDict({k: nn.Embedding(v, EMB) for k, v in FIELDS.items()})
        self.scale = nn.Parameter(torch.ones(N_DENSE))

    def forward(self, cat, dense):
        cols = [self.emb[k](cat[:, i]) for i, k in enumerate(FIELDS)]
        cols.append(torch.log1p(dense.clamp(min=0)) * self.scale)
        return torch.cat(cols, dim=-1)


class Extraction(nn.Module):
    """Two private experts and a shared one; each task gates (private, shared)."""

    def __init__(self, d_in, d_exp):
        super().__init__()
        self.experts = nn.ModuleDict({k: nn.Linear(d_in, d_exp) for k in ("ctr", "cvr", "shared")})
        self.gates = nn.ModuleDict({k: nn.Linear(d_in, 2, bias=False) for k in ("ctr", "cvr")})

    def forward(self, x):
        shared = F.relu(self.experts["shared"](x))
        out = {}
        for k, gate in self.gates.items():
            g = torch.softmax(gate(x), -1)
            out[k] = g[:, :1] * F.relu(self.experts[k](x)) + g[:, 1:] * shared
        return out


class EntireSpace(nn.Module):
    def __init__(self, d_exp=16):
        super().__init__()
        self.features = Features()
        self.extract = Extraction(EMB * len(FIELDS) + N_DENSE, d_exp)
        self.ctr = nn.Sequential(nn.Linear(d_exp, 8), nn.PReLU(), nn.Linear(8, 1))
        self.cvr = nn.Sequential(nn.Linear(d_exp, 8), nn.PReLU(), nn.Linear(8, 1))

    def forward(self, cat, dense):
        h = self.extract(self.features(cat, dense))
        return self.ctr(h["ctr"]).squeeze(-1), self.cvr(h["cvr"]).squeeze(-1)


def esmm_loss(ctr_logit, cvr_logit, click, conv, w_ctcvr=0.6):
    loss_ctr = F.binary_cross_entropy_with_logits(ctr_logit, click)
    p_ctr = torch.sigmoid(ctr_logit)
    p_ctcvr = (p_ctr * torch.sigmoid(cvr_logit)).clamp(1e-6, 1 - 1e-6)
    loss_ctcvr = -(conv * p_ctcvr.log() + (1 - conv) * (1 - p_ctcvr).log()).mean()
    return loss_ctr + w_ctcvr * loss_ctcvr, (loss_ctr.detach(), loss_ctcvr.detach())


def batch(rng, n=24):
    cat = np.stack([rng.integers(0, v, n) for v in FIELDS.values()], 1)
    dense = rng.exponential(2.0, (n, N_DENSE)).astype(np.float32)
    click = (rng.random(n) < 0.4).astype(np.float32)
    conv = click * (rng.random(n) < 0.3)
    return [torch.from_numpy(a) for a in (cat, dense, click, conv.astype(np.float32))]


def train(steps=4):
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    dev = torch_xla.device()
    model = EntireSpace().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1)
    avg = torch.zeros(2, device=dev)
    torch_xla.sync()
    for i in range(steps):
        cat, dense, click, conv = (t.to(dev) for t in batch(rng))
        ctr_logit, cvr_logit = model(cat, dense)
        loss, parts = esmm_loss(ctr_logit, cvr_logit, click, conv)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        avg.mul_(0.98).add_(torch.stack(parts), alpha=0.02)
        torch_xla.sync()
        print(i, f"{loss.item():.5f}", avg.cpu().numpy().round(5))


if __name__ == "__main__":
    train()
