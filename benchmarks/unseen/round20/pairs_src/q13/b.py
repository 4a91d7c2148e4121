"""Two-tower retrieval, in-batch softmax."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def tower(d_in, d=24):
    return nn.Sequential(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, d))


class TwoTower(nn.Module):
    def __init__(self, users=200, items=300):
        super().__init__()
        self.item_emb = nn.Embedding(items, 20)
        self.item_net = tower(20 + 4)
        self.user_net = tower(16)
        self.user_emb = nn.Embedding(users, 16)

    def forward(self, user, item, item_feat):
        v = F.normalize(self.item_net(torch.cat([self.item_emb(item), item_feat], 1)), dim=-1)
        u = F.normalize(self.user_net(self.user_emb(user)), dim=-1)
        return u @ v.t() / 0.1


def init(model):
    g = torch.Generator().manual_seed(0)
    for name, p in sorted(model.named_parameters()):
        p.data = torch.randn(p.shape, generator=g) * 0.1


def train(steps=4):
    dev = torch_xla.device()
    model = TwoTower()
    init(model)
    model.to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    torch_xla.sync()
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        user = torch.randint(0, 200, (16,))
        item = torch.randint(0, 300, (16,))
        feat = torch.randn(16, 4)
        labels = torch.arange(16).to(dev)
        feat, item, user = feat.to(dev), item.to(dev), user.to(dev)
        opt.zero_grad()
        loss = F.cross_entropy(model(user, item, feat), labels)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        torch_xla.sync()
    return model, losses


if __name__ == "__main__":
    model, losses = train()
    print([float(l) for l in losses])
    print({k: float(v.detach().cpu().double().sum()) for k, v in sorted(model.named_parameters())})
