import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

cfg = {
    'model': {'channels': 2, 'width': 12, 'temb': 16, 'layers': 2},
    'diffusion': {'T': 100, 'self_cond': 0.5},
    'optim': {'lr': 2e-3, 'betas': (0.9, 0.99), 'ema': 0.99},
    'train': {'steps': 14, 'batch': 8, 'size': 8, 'print': 5},
}


class FiLM(nn.Module):
    def __init__(self, w, t):
        super().__init__()
        self.conv = nn.Conv2d(w, w, 3, padding=1)
        self.emb = nn.Linear(t, 2 * w)

    def forward(self, x, t):
        s, b = self.emb(t)[:, :, None, None].chunk(2, 1)
        return x + F.silu(self.conv(x) * (1 + s) + b)


class Denoiser(nn.Module):
    def __init__(self, channels, width, temb, layers):
        super().__init__()
        self.inp = nn.Conv2d(2 * channels, width, 3, padding=1)
        self.t = nn.Sequential(nn.Linear(1, temb), nn.SiLU(), nn.Linear(temb, temb))
        self.layers = nn.ModuleList(FiLM(width, temb) for _ in range(layers))
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t, cond):
        h = self.inp(torch.cat([x, cond], 1))
        te = self.t(t[:, None])
        for layer in self.layers:
            h = layer(h, te)
        return self.out(h)


def make_alphas(T, device):
    return torch.cumprod(1 - torch.linspace(1e-4, 0.05, T), 0).to(device)


def loss_fn(model, alphas, x0, t, noise, self_cond, rng):
    a = alphas[t][:, None, None, None]
    xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
    tt = t.float() / len(alphas)
    cond = torch.zeros_like(x0)
    if rng.random() < self_cond:
        with torch.no_grad():
            cond = model(xt, tt, cond)
    return F.mse_loss(model(xt, tt, cond), x0)


def main():
    torch.manual_seed(0)
    rng = random.Random(2)
    dev = torch_xla.device()
    model = Denoiser(**cfg['model']).to(dev)
    alphas = make_alphas(cfg['diffusion']['T'], dev)
    opt = torch.optim.Adam(model.parameters(), lr=cfg['optim']['lr'], betas=cfg['optim']['betas'])
    tr = cfg['train']
    for step in range(tr['steps']):
        x0 = torch.randn(tr['batch'], 2, tr['size'], tr['size']).clamp(-2, 2).to(dev)
        noise = torch.randn(tr['batch'], 2, tr['size'], tr['size']).to(dev)
        t = torch.randint(0, cfg['diffusion']['T'], (tr['batch'],)).to(dev)
        opt.zero_grad()
        loss = loss_fn(model, alphas, x0, t, noise, cfg['diffusion']['self_cond'], rng)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % tr['print'] == 0:
            print(f"[{step + 1}/{tr['steps']}] loss {loss.item():.4f}")


main()
