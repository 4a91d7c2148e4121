"""Seizure-type classification from scalp EEG with slowly refreshed class centroids."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

N_ELECTRODES, N_TIMES, N_CLASSES = 8, 64, 4


class EEGEncoder(nn.Module):
    def __init__(self, f1=4, d=2, f2=8, p=0.25):
        super().__init__()
        self.temporal = nn.Conv2d(1, f1, (1, 15), padding=(0, 7), bias=False)
        self.norm1 = nn.GroupNorm(2, f1)
        self.spatial = nn.Conv2d(f1, f1 * d, (N_ELECTRODES, 1), groups=f1, bias=False)
        self.norm2 = nn.GroupNorm(2, f1 * d)
        self.sep_dw = nn.Conv2d(f1 * d, f1 * d, (1, 7), padding=(0, 3), groups=f1 * d, bias=False)
        self.sep_pw = nn.Conv2d(f1 * d, f2, 1, bias=False)
        self.norm3 = nn.GroupNorm(2, f2)
        self.drop = nn.Dropout(p)
        self.proj = nn.Linear(f2 * (N_TIMES // 16), 16)

    def forward(self, x):
        x = self.norm1(self.temporal(x.unsqueeze(1)))
        x = F.elu(self.norm2(self.spatial(x)))
        x = self.drop(F.avg_pool2d(x, (1, 4)))
        x = F.elu(self.norm3(self.sep_pw(self.sep_dw(x))))
        x = self.drop(F.avg_pool2d(x, (1, 4)))
        return self.proj(x.flatten(1))


class CentroidModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = EEGEncoder()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.aux = nn.Sequential(nn.Dropout(0.1), nn.Linear(16, N_CLASSES))
        self.register_buffer("centroids", torch.zeros(N_CLASSES, 16))

    def forward(self, x):
        z = F.normalize(self.encoder(x), dim=-1)
        return self.scale.exp() * z @ self.centroids.t(), self.aux(z)

    @torch.no_grad()
    def refresh_centroids(self, x, y):
        self.encoder.eval()
        z = F.normalize(self.encoder(x), dim=-1)
        hot = F.one_hot(y, N_CLASSES).to(z.dtype)
        mean = hot.t() @ z / hot.sum(0).clamp(min=1).unsqueeze(1)
        self.centroids.copy_(F.normalize(mean, dim=-1))


class Recordings:
    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)

    def draw(self, n):
        y = torch.randint(0, N_CLASSES, (n,), generator=self.g)
        t = torch.linspace(0, 6.28, N_TIMES)
        x = torch.sin(t * (y + 1).view(-1, 1, 1)) + 0.5 * torch.randn(n, N_ELECTRODES, N_TIMES, generator=self.g)
        return x, y


def train_epoch(model, opt, data, device, steps, batch):
    for _ in range(steps):
        x, y = data.draw(batch)
        x, y = x.to(device), y.to(device)
        logits, aux = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05) + 0.3 * F.cross_entropy(aux, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
    return loss.item()


def main(epochs=3, steps=4, batch=8):
    torch.manual_seed(11)
    device = torch_xla.device()
    model = CentroidModel().to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3)
    data = Recordings()
    with torch.no_grad():
        model.centroids.copy_(F.normalize(torch.randn(N_CLASSES, 16), dim=-1))
    model.train()
    xm.mark_step()
    for epoch in range(epochs):
        loss = train_epoch(model, opt, data, device, steps, batch)
        print(f"epoch {epoch} loss {loss:.4f} compiles {met.counter_value('UncachedCompile') or 0}")
        x, y = data.draw(32)
        model.refresh_centroids(x.to(device), y.to(device))
        xm.mark_step()


if __name__ == "__main__":
    main()
