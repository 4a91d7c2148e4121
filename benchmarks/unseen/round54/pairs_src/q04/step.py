"""12-lead ECG: multi-label diagnosis with an auxiliary rhythm head."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(epochs=4, steps=3, val_every=2, batch=8, samples=128, leads=12,
           diagnoses=5, rhythms=3, lr=3e-3, aux_weight=0.4, aux_epochs=2,
           dropout=0.2)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, stride, dropout):
        super().__init__()
        self.conv1 = nn.Conv1d(c_in, c_out, 7, stride=stride, padding=3, bias=False)
        self.norm1 = nn.GroupNorm(4, c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 7, padding=3, bias=False)
        self.norm2 = nn.GroupNorm(4, c_out)
        self.drop = nn.Dropout(dropout)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(self.drop(y)))
        return F.relu(y + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg["leads"], 16, 15, stride=2, padding=7)
        self.block1 = ResBlock(16, 24, 2, cfg["dropout"])
        self.block2 = ResBlock(24, 32, 2, cfg["dropout"])
        self.head = nn.Linear(32, cfg["diagnoses"])
        self.rhythm = nn.Linear(24, cfg["rhythms"])

    def forward(self, x):
        x = F.relu(self.stem(x))
        mid = self.block1(x)
        top = self.block2(mid)
        return self.head(top.mean(-1)), self.rhythm(mid.mean(-1))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        torch.manual_seed(1)
        self.model = ECGNet(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
        self.gen = torch.Generator().manual_seed(5)

    def batch(self):
        c = self.cfg
        x = torch.randn(c["batch"], c["leads"], c["samples"], generator=self.gen)
        y = (torch.rand(c["batch"], c["diagnoses"], generator=self.gen) < 0.3).float()
        r = torch.randint(0, c["rhythms"], (c["batch"],), generator=self.gen)
        return [t.to(self.device) for t in (x, y, r)]

    def aux_weight(self, epoch):
        c = self.cfg
        return c["aux_weight"] * max(0.0, 1.0 - epoch / c["aux_epochs"])

    def train_step(self, x, y, r, epoch):
        self.opt.zero_grad(set_to_none=True)
        logits, rhythm = self.model(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        w = self.aux_weight(epoch)
        if w > 0:
            loss = loss + w * F.cross_entropy(rhythm, r)
        loss.backward()
        self.opt.step()
        return loss

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total = torch.zeros((), device=self.device)
        for _ in range(2):
            x, y, _ = self.batch()
            total += F.binary_cross_entropy_with_logits(self.model(x)[0], y)
            torch_xla.sync()
        return total.item() / 2

    def fit(self):
        self.model.train()
        for epoch in range(self.cfg["epochs"]):
            for i in range(self.cfg["steps"]):
                x, y, r = self.batch()
                loss = self.train_step(x, y, r, epoch)
                torch_xla.sync()
                print("train", epoch, i, round(loss.item(), 4))
            if (epoch + 1) % self.cfg["val_every"] == 0:
                print("val", epoch, round(self.validate(), 4))


if __name__ == "__main__":
    Trainer(CFG).fit()
