"""Sparse dictionary on residual-stream activations, with dead-latent revival."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 29
D_MODEL = 48
D_DICT = 384
K_FINAL = 12
K_START = 72
K_AUX = 24
DEAD_AFTER = 6
BATCH = 256
STEPS = 28


class ActivationSource:
    """Sparse ground-truth features, superposed into D_MODEL dims, made on the host."""

    def __init__(self, seed, n_feats=512):
        self.g = torch.Generator().manual_seed(seed)
        self.feats = F.normalize(torch.randn(n_feats, D_MODEL, generator=self.g), dim=1)
        self.freq = 0.03 / torch.arange(1, n_feats + 1).float().sqrt()

    def batch(self, n):
        on = (torch.rand(n, self.freq.numel(), generator=self.g) < self.freq).float()
        mag = torch.rand(on.shape, generator=self.g) + 0.5
        x = (on * mag) @ self.feats
        return x + 0.02 * torch.randn(x.shape, generator=self.g)


class SparsitySchedule:
    def __init__(self, start, final, warm_steps):
        self.start, self.final, self.warm = start, final, warm_steps

    def __call__(self, step):
        frac = min(1.0, step / self.warm)
        return round(self.start + (self.final - self.start) * frac)


class Dictionary(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias_pre = nn.Parameter(torch.zeros(D_MODEL))
        self.enc = nn.Linear(D_MODEL, D_DICT)
        self.dec = nn.Linear(D_DICT, D_MODEL, bias=False)
        with torch.no_grad():
            self.dec.weight.copy_(F.normalize(self.enc.weight.t(), dim=0))
        self.register_buffer("idle", torch.zeros(D_DICT))

    def encode(self, x):
        return F.relu(self.enc(x - self.bias_pre))

    def sparsify(self, acts, k):
        vals, idx = acts.topk(k, dim=-1, sorted=False)
        return torch.zeros_like(acts).scatter(-1, idx, vals)

    def forward(self, x, k):
        acts = self.encode(x)
        code = self.sparsify(acts, k)
        return self.dec(code) + self.bias_pre, acts, code

    @torch.no_grad()
    def tick(self, code):
        fired = (code > 0).any(0)
        self.idle.copy_(torch.where(fired, torch.zeros_like(self.idle), self.idle + 1))

    def revive(self, acts, residual):
        dead = (self.idle > DEAD_AFTER).to(acts.dtype)
        aux = self.sparsify(acts * dead, K_AUX)
        err = (self.dec(aux) - residual).pow(2).mean()
        return torch.where(dead.sum() > 0, err, torch.zeros_like(err))


@torch.no_grad()
def strip_parallel_grad(dec):
    """Decoder columns stay unit norm, so drop the gradient part along each column."""
    w, g = dec.weight, dec.weight.grad
    g.sub_((g * w).sum(0, keepdim=True) * w)


@torch.no_grad()
def renormalise(dec):
    dec.weight.copy_(F.normalize(dec.weight, dim=0))


def explained(x, recon):
    return 1 - (x - recon).pow(2).sum() / (x - x.mean(0)).pow(2).sum()


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    source = ActivationSource(SEED)
    model = Dictionary().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
    k_at = SparsitySchedule(K_START, K_FINAL, int(STEPS * 0.75))
    with torch.no_grad():
        model.bias_pre.copy_(source.batch(1024).mean(0).to(device))
    xm.mark_step()

    for step in range(STEPS):
        k = k_at(step)
        x = source.batch(BATCH).to(device)
        recon, acts, code = model(x, k)
        mse = (recon - x).pow(2).mean()
        loss = mse + model.revive(acts, (x - recon).detach()) / 32

        opt.zero_grad()
        loss.backward()
        strip_parallel_grad(model.dec)
        opt.step()
        renormalise(model.dec)
        model.tick(code)
        with torch.no_grad():
            fve = explained(x, recon)
            n_dead = (model.idle > DEAD_AFTER).sum()
        xm.mark_step()

        if step % 7 == 6:
            print(f"step {step + 1:3d} k {k:3d} mse {mse.item():.5f} "
                  f"fve {fve.item():.3f} dead {int(n_dead.item())}")


if __name__ == "__main__":
    main()
