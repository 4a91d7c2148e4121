"""Fine-tune a small conv backbone on leaf images; the head is trained alone first."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = {
    "data": {"n": 48, "size": 12, "classes": 6, "batch": 8},
    "optim": {"lr_head": 0.02, "lr_body": 0.004, "momentum": 0.9},
    "schedule": {"epochs": 3, "head_only_epochs": 1, "mixup_epochs": 1},
    "mixup_alpha": 0.4,
}


class ConvUnit(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False)
        self.pw = nn.Conv2d(cin, cout, 1, bias=False)
        self.gn = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.hardswish(self.gn(self.pw(self.dw(x))))


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), ConvUnit(8, 12, 1), ConvUnit(12, 16, 2))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def make_data(cfg):
    rs = np.random.RandomState(0)
    y = rs.randint(0, cfg["classes"], cfg["n"])
    x = rs.randn(cfg["n"], 3, cfg["size"], cfg["size"]).astype(np.float32)
    x += y[:, None, None, None] * 0.3
    return torch.from_numpy(x), torch.from_numpy(y)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.RandomState(1)
        self.device = torch_xla.device()
        self.net = Net(cfg["data"]["classes"]).to(self.device)
        o = cfg["optim"]
        self.opt = torch.optim.SGD(
            [{"params": self.net.head.parameters(), "lr": o["lr_head"]},
             {"params": self.net.body.parameters(), "lr": o["lr_body"]}],
            lr=o["lr_head"], momentum=o["momentum"])
        self.x, self.y = make_data(cfg["data"])

    def start_epoch(self, epoch):
        s = self.cfg["schedule"]
        train_body = epoch >= s["head_only_epochs"]
        for p in self.net.body.parameters():
            p.requires_grad_(train_body)
        self.use_mixup = epoch < s["mixup_epochs"]

    def step(self, xb, yb):
        target = F.one_hot(yb, self.cfg["data"]["classes"]).float()
        if self.use_mixup:
            a = self.cfg["mixup_alpha"]
            lam = torch.tensor(self.rng.beta(a, a), dtype=torch.float32).to(self.device)
            xb = lam * xb + (1 - lam) * xb.flip(0)
            target = lam * target + (1 - lam) * target.flip(0)
        logits = self.net(xb)
        loss = -(target * logits.log_softmax(-1)).sum(-1).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def fit(self):
        b = self.cfg["data"]["batch"]
        for epoch in range(self.cfg["schedule"]["epochs"]):
            self.start_epoch(epoch)
            order = torch.from_numpy(self.rng.permutation(len(self.x)))
            losses = []
            for idx in order.split(b):
                xb = self.x[idx].to(self.device)
                yb = self.y[idx].to(self.device)
                with torch_xla.step():
                    losses.append(self.step(xb, yb))
            mean = sum(l.item() for l in losses) / len(losses)
            print(f"epoch {epoch}: loss {mean:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(CFG).fit()
