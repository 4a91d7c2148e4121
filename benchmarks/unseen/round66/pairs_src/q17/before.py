"""Self-supervised pretraining of a 12-lead ECG encoder (SimSiam)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class BasicBlock1d(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(c_in, c_out, 5, stride, 2, bias=False)
        self.bn1 = nn.BatchNorm1d(c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 5, 1, 2, bias=False)
        self.bn2 = nn.BatchNorm1d(c_out)
        self.down = nn.Conv1d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


def mlp(sizes, last_bn):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        last = i == len(sizes) - 2
        layers.append(nn.Linear(a, b, bias=last and not last_bn))
        if not last:
            layers += [nn.BatchNorm1d(b), nn.ReLU(inplace=True)]
        elif last_bn:
            layers.append(nn.BatchNorm1d(b, affine=False))
    return nn.Sequential(*layers)


class SimSiam(nn.Module):
    def __init__(self, leads=12, width=8, dim=32):
        super().__init__()
        self.encoder = nn.Sequential(
            BasicBlock1d(leads, width, 2),
            nn.Conv1d(width, 2 * width, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        )
        self.projector = mlp([2 * width, dim, dim], last_bn=True)
        self.predictor = mlp([dim, dim // 4, dim], last_bn=False)

    def forward(self, x1, x2):
        z1 = self.projector(self.encoder(x1))
        z2 = self.projector(self.encoder(x2))
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return p1, p2, z1, z2


def similarity_loss(p, z):
    return -F.cosine_similarity(p, z, dim=-1).mean()


def augment(x):
    scale = torch.empty(x.shape[0], x.shape[1], 1).uniform_(0.8, 1.2)
    keep = (torch.rand(x.shape[0], x.shape[1], 1) > 0.2).float()
    return x * scale * keep + 0.05 * torch.randn_like(x)


def main(steps=4, batch=8):
    torch.manual_seed(21)
    device = torch_xla.device()
    model = SimSiam().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    xm.mark_step()
    for step in range(steps):
        x = torch.randn(batch, 12, 128)
        x1, x2 = augment(x).to(device), augment(x).to(device)
        optimizer.zero_grad()
        p1, p2, z1, z2 = model(x1, x2)
        loss = 0.5 * (similarity_loss(p1, z2) + similarity_loss(p2, z1))
        loss.backward()
        optimizer.step()
        xm.mark_step()
        print(step, f"{loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
