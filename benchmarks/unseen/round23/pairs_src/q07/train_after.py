"""SimSiam pretraining of a small patch encoder on synthetic textures."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class PatchEncoder(nn.Module):
    """8x8 image -> 4 patches -> residual MLP -> feature"""

    def __init__(self, dim=24, tokens=4, patch=16):
        super().__init__()
        self.embed = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(tokens, dim))
        self.ln_ch = nn.LayerNorm(dim)
        self.mix_ch = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))

    def patchify(self, img):
        b = img.shape[0]
        return img.reshape(b, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(b, 4, 16)

    def forward(self, img):
        x = self.embed(self.patchify(img)) + self.pos
        x = x + self.mix_ch(self.ln_ch(x))
        return x.mean(1)


class SimSiam(nn.Module):

    def __init__(self, dim=24, proj=16, pred=8):
        super().__init__()
        self.encoder = PatchEncoder(dim)
        self.projector = nn.Sequential(
            nn.Linear(dim, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(inplace=True),
            nn.Linear(32, proj, bias=False), nn.BatchNorm1d(proj, affine=False))
        self.predictor = nn.Sequential(
            nn.Linear(proj, pred), nn.ReLU(inplace=True),
            nn.Linear(pred, proj))

    def forward(self, x1, x2):
        z1 = self.projector(self.encoder(x1))
        z2 = self.projector(self.encoder(x2))
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return p1, p2, z1, z2


def criterion(p1, p2, z1, z2):
    return -(F.cosine_similarity(p1, z2, dim=1).mean() + F.cosine_similarity(p2, z1, dim=1).mean()) * 0.5


def views(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(5, 8, 8, generator=g)
    for _ in range(n):
        k = torch.randint(0, 5, (bs,), generator=g)
        img = base[k]
        flip = torch.where(torch.rand(bs, 1, 1, generator=g) < 0.5, img.flip(-1), img)
        yield (img + 0.2 * torch.randn(img.shape, generator=g),
               flip + 0.2 * torch.randn(img.shape, generator=g))


def build_optimizer(model, lr):
    return torch.optim.SGD([
        {"params": list(model.encoder.parameters()) + list(model.projector.parameters())},
        {"params": model.predictor.parameters(), "lr": lr * 2},
    ], lr=lr, momentum=0.9, weight_decay=1e-4)


def main():
    torch.manual_seed(4)
    device = torch_xla.device()
    model = SimSiam().to(device).train()
    opt = build_optimizer(model, 0.05)
    torch_xla.sync()
    for step, (a, b) in enumerate(views(4, 12, 9)):
        opt.zero_grad()
        outs = model(a.to(device), b.to(device))
        loss = criterion(*outs)
        loss.backward()
        opt.step()
        std = F.normalize(outs[2].detach(), dim=1).std(0).mean()
        torch_xla.sync()
        xm.master_print(f"step {step} loss {loss.item():.4f} std {std.item():.4f}")


if __name__ == "__main__":
    main()
