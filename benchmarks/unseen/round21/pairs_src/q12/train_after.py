import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class TwoTower(nn.Module):
    def __init__(self, users=30, items=50, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.user_mlp = nn.Linear(dim, dim)
        self.item_mlp = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, u, i):
        a = torch.tanh(self.user_mlp(self.user(u)))
        b = torch.tanh(self.item_mlp(self.item(i)))
        return (a * b).sum(-1) + self.bias


def build_optimizer(model, cfg):
    return torch.optim.SGD(
        model.parameters(),
        lr=cfg["lr"],
        momentum=cfg["momentum"],
        weight_decay=cfg["weight_decay"],
        nesterov=True,
    )


def interactions(n):
    u = torch.randint(0, 30, (n,))
    i = torch.randint(0, 50, (n,))
    return u, i, ((u + i) % 3 == 0).float()


CFG = {"lr": 0.05, "momentum": 0.8, "weight_decay": 1e-3, "steps": 6}


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    model = TwoTower().to(device)
    optim = build_optimizer(model, CFG)
    for step in range(CFG["steps"]):
        u, i, clicked = (t.to(device) for t in interactions(16))
        optim.zero_grad()
        score = model(u, i)
        loss = F.binary_cross_entropy_with_logits(score, clicked)
        loss.backward()
        optim.step()
        xm.mark_step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
