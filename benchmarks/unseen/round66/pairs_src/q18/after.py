"""DGCNN part classifier for LiDAR crops."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def knn(x, k):
    inner = x @ x.transpose(1, 2)
    sq = x.square().sum(-1, keepdim=True)
    dist = sq - 2 * inner + sq.transpose(1, 2)
    return dist.topk(k + 1, dim=-1, largest=False).indices[..., 1:]


def gather_neighbours(x, idx):
    B, N, C = x.shape
    k = idx.shape[-1]
    flat = idx.reshape(B, N * k, 1).expand(-1, -1, C)
    return x.gather(1, flat).view(B, N, k, C)


class EdgeConv(nn.Module):
    def __init__(self, c_in, c_out, k):
        super().__init__()
        self.k = k
        self.lin1 = nn.Linear(2 * c_in, c_out)
        self.norm = nn.LayerNorm(c_out)
        self.lin2 = nn.Linear(c_out, c_out)

    def forward(self, x):
        idx = knn(x.detach(), self.k)
        nb = gather_neighbours(x, idx)
        centre = x.unsqueeze(2).expand_as(nb)
        h = torch.cat([centre, nb - centre], -1)
        h = self.lin2(F.leaky_relu(self.norm(self.lin1(h)), 0.2))
        return h.amax(2)


class DGCNN(nn.Module):
    def __init__(self, classes=9, k=6):
        super().__init__()
        self.conv1 = EdgeConv(3, 12, k)
        self.conv2 = EdgeConv(12, 24, k)
        self.fuse = nn.Linear(36, 32)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, classes))

    def forward(self, pts):
        x1 = self.conv1(pts)
        x2 = self.conv2(x1)
        h = F.leaky_relu(self.norm(self.fuse(torch.cat([x1, x2], -1))), 0.2)
        return self.head(torch.cat([h.amax(1), h.mean(1)], -1))


def build_optimizer(model, lr=1e-3, weight_decay=0.05):
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": decay, "weight_decay": weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


def train(steps=4, batch=4, points=40):
    torch.manual_seed(13)
    dev = torch_xla.device()
    model = DGCNN().to(dev)
    opt = build_optimizer(model)
    torch_xla.sync()
    for i in range(steps):
        pts = torch.randn(batch, points, 3)
        pts = pts - pts.mean(1, keepdim=True)
        y = torch.randint(9, (batch,))
        pts, y = pts.to(dev), y.to(dev)
        with torch_xla.step():
            opt.zero_grad()
            loss = F.cross_entropy(model(pts), y, label_smoothing=0.2)
            loss.backward()
            opt.step()
        print(i, loss.item(), flush=True)


if __name__ == "__main__":
    train()
