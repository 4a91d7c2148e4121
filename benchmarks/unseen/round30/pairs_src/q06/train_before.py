"""SimSiam-style pretraining on 1-d signals."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

config = {
    "channels": 6,
    "proj_dim": 16,
    "pred_dim": 8,
    "length": 32,
    "batch_size": 8,
    "lr": 0.03,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "steps": 3,
}


class SignalEncoder(nn.Module):
    def __init__(self, ch, out):
        super().__init__()
        self.conv1 = nn.Conv1d(1, ch, 7, stride=2, padding=3, bias=False)
        self.gn1 = nn.GroupNorm(2, ch)
        self.conv2 = nn.Conv1d(ch, ch * 2, 5, stride=2, padding=2, bias=False)
        self.gn2 = nn.GroupNorm(2, ch * 2)
        self.proj = nn.Sequential(nn.Linear(ch * 2, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Linear(out, out))

    def forward(self, x):
        x = F.relu(self.gn1(self.conv1(x)))
        x = F.relu(self.gn2(self.conv2(x)))
        return self.proj(x.amax(-1))


class SimSiam(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = SignalEncoder(cfg["channels"], cfg["proj_dim"])
        self.predictor = nn.Sequential(
            nn.Linear(cfg["proj_dim"], cfg["pred_dim"]),
            nn.ReLU(),
            nn.Linear(cfg["pred_dim"], cfg["proj_dim"]),
        )

    def forward(self, view1, view2):
        z1, z2 = self.encoder(view1), self.encoder(view2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return p1, p2, z1.detach(), z2.detach()


def criterion(p1, p2, z1, z2):
    return -0.5 * (F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean())


def augment(x, gen):
    shift = int(torch.randint(0, 8, (1,), generator=gen))
    scale = 0.8 + 0.4 * torch.rand(x.size(0), 1, 1, generator=gen)
    return torch.roll(x, shift, -1) * scale + 0.05 * torch.randn(x.shape, generator=gen)


def main(cfg):
    device = xm.xla_device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = SimSiam(cfg).to(device)
    opt = torch.optim.SGD(
        model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"], weight_decay=cfg["weight_decay"]
    )
    t = torch.linspace(0, 6.28, cfg["length"])
    for step in range(cfg["steps"]):
        freq = 1 + 3 * torch.rand(cfg["batch_size"], 1, 1, generator=gen)
        base = torch.sin(freq * t)
        v1, v2 = augment(base, gen).to(device), augment(base, gen).to(device)
        opt.zero_grad()
        loss = criterion(*model(v1, v2))
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(config)
