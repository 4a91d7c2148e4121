"""Slot attention autoencoder on small coloured shapes."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

RES, SLOTS, DIM, ITERS, BATCH = 12, 4, 24, 2, 6


def scenes(n, seed=0):
    rng = np.random.default_rng(seed)
    out = np.zeros((n, 3, RES, RES), np.float32)
    for img in out:
        for _ in range(rng.integers(1, 4)):
            r, c = rng.integers(0, RES - 4, 2)
            h, w = rng.integers(2, 5, 2)
            img[:, r:r + h, c:c + w] = rng.uniform(0.3, 1.0, (3, 1, 1))
    return torch.from_numpy(out)


def grid(res):
    t = torch.linspace(0.0, 1.0, res)
    y, x = torch.meshgrid(t, t, indexing="ij")
    return torch.stack([x, y, 1 - x, 1 - y], -1)[None]


class SoftPosition(nn.Module):
    def __init__(self, dim, res):
        super().__init__()
        self.proj = nn.Linear(4, dim)
        self.register_buffer("grid", grid(res))

    def forward(self, x):
        return x + self.proj(self.grid)


class SlotAttention(nn.Module):
    def __init__(self, slots, dim, iters, eps=1e-8):
        super().__init__()
        self.slots, self.iters, self.eps, self.scale = slots, iters, eps, dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.3)
        self.log_sigma = nn.Parameter(torch.full((1, 1, dim), -1.0))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def attend(self, q, k_t, v):
        weights = F.softmax(torch.bmm(q, k_t), dim=1) + self.eps
        return torch.bmm(weights / weights.sum(-1, keepdim=True), v)

    def forward(self, x, noise):
        b, _, d = x.shape
        x = self.norm_in(x)
        v = self.to_v(x)
        k_t = self.to_k(x).transpose(1, 2)
        slots = torch.addcmul(self.mu, self.log_sigma.exp(), noise).flatten(0, 1)
        for _ in range(self.iters):
            q = self.to_q(self.norm_slots(slots)) * self.scale
            updates = self.attend(q.unflatten(0, (b, self.slots)), k_t, v)
            slots = self.gru(updates.flatten(0, 1), slots)
            slots = self.mlp(self.norm_mlp(slots)) + slots
        return slots.unflatten(0, (b, self.slots))


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, DIM, 5, padding=2)
        self.conv2 = nn.Conv2d(DIM, DIM, 5, padding=2)
        self.pos_in = SoftPosition(DIM, RES)
        self.norm = nn.LayerNorm(DIM)
        self.fc = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        self.attention = SlotAttention(SLOTS, DIM, ITERS)
        self.pos_out = SoftPosition(DIM, RES)
        self.decode = nn.Sequential(nn.Linear(DIM, 32), nn.ReLU(), nn.Linear(32, 4))

    def encode(self, img):
        h = self.conv1(img).relu()
        h = self.conv2(h).relu()
        h = self.pos_in(torch.movedim(h, 1, -1))
        return self.fc(self.norm(h).flatten(1, 2))

    def render(self, slots):
        tiles = slots[:, :, None, None, :].expand(-1, -1, RES, RES, -1)
        out = self.decode(self.pos_out(tiles))
        rgb, alpha = out[..., :3], out[..., 3:]
        return torch.einsum("bkhwc,bkhw->bchw", rgb, alpha.softmax(1).squeeze(-1))

    def forward(self, img, noise):
        return self.render(self.attention(self.encode(img), noise))


def train(device, steps=5):
    torch.manual_seed(3)
    model = AutoEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-4)
    data = scenes(steps * BATCH).split(BATCH)
    gen = torch.Generator().manual_seed(11)
    torch_xla.sync()
    losses = []
    for step, img in enumerate(data):
        noise = torch.randn(BATCH, SLOTS, DIM, generator=gen)
        img, noise = img.to(device), noise.to(device)
        for group in opt.param_groups:
            group["lr"] = 4e-4 * min(1.0, (step + 1) / 10)
        opt.zero_grad(set_to_none=True)
        loss = (img - model(img, noise)).square().mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
    return model, losses


if __name__ == "__main__":
    model, losses = train(torch_xla.device())
    xm.master_print(" ".join(f"{v:.6f}" for v in losses))
