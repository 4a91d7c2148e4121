import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = {
    "model": {"fields": [30, 12, 50, 8], "dim": 8, "dense": 5, "mlp": [32, 16], "cross_layers": 2},
    "optim": {"name": "adagrad", "lr": 0.02},
    "loss": {"gamma_start": 3.0, "gamma_end": 1.2, "alpha": 0.3},
    "train": {"epochs": 5, "iters": 4, "batch": 32, "seed": 17},
}


class CrossNet(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.w = nn.ModuleList([nn.Linear(dim, dim) for _ in range(layers)])

    def forward(self, x0):
        x = x0
        for lin in self.w:
            x = x0 * lin(x) + x
        return x


class DCN(nn.Module):
    def __init__(self, fields, dim, dense, mlp, cross_layers):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in fields])
        width = dim * len(fields) + dense
        self.cross = CrossNet(width, cross_layers)
        layers, last = [], width
        for h in mlp:
            layers += [nn.Linear(last, h), nn.ReLU()]
            last = h
        self.deep = nn.Sequential(*layers)
        self.logit = nn.Linear(width + last, 1)

    def forward(self, cats, dense):
        e = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        x = torch.cat(e + [dense], dim=1)
        return self.logit(torch.cat([self.cross(x), self.deep(x)], dim=1)).squeeze(1)


class FocalLoss(nn.Module):
    def __init__(self, gamma, alpha):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, y):
        ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
        prob = torch.sigmoid(logits)
        p_t = prob * y + (1 - prob) * (1 - y)
        a_t = self.alpha * y + (1 - self.alpha) * (1 - y)
        return (a_t * (1 - p_t).pow(self.gamma) * ce).mean()


class Callback:
    def on_epoch_begin(self, trainer, epoch):
        pass

    def on_epoch_end(self, trainer, epoch, loss):
        pass


class GammaAnnealing(Callback):
    def __init__(self, start, end):
        self.start, self.end = start, end

    def on_epoch_begin(self, trainer, epoch):
        frac = epoch / max(1, trainer.epochs - 1)
        trainer.criterion.gamma = self.start + frac * (self.end - self.start)


class Logger(Callback):
    def on_epoch_end(self, trainer, epoch, loss):
        print(f"epoch {epoch + 1}/{trainer.epochs} focal {loss.item():.4f}")


class CTRTrainer:
    def __init__(self, cfg, callbacks):
        torch.manual_seed(cfg["train"]["seed"])
        self.device = xm.xla_device()
        self.model = DCN(**cfg["model"]).to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=cfg["optim"]["lr"])
        self.criterion = FocalLoss(cfg["loss"]["gamma_start"], cfg["loss"]["alpha"])
        self.fields, self.dense = cfg["model"]["fields"], cfg["model"]["dense"]
        self.epochs, self.iters, self.batch = (cfg["train"][k] for k in ("epochs", "iters", "batch"))
        self.callbacks = callbacks

    def sample(self):
        cats = torch.stack([torch.randint(0, n, (self.batch,)) for n in self.fields], 1)
        dense = torch.rand(self.batch, self.dense).log1p()
        click = ((cats[:, 0] % 3 == 0) | (dense[:, 0] > 0.5)).float()
        return [t.to(self.device) for t in (cats, dense, click)]

    def train(self):
        for epoch in range(self.epochs):
            for cb in self.callbacks:
                cb.on_epoch_begin(self, epoch)
            for _ in range(self.iters):
                cats, dense, click = self.sample()
                loss = self.criterion(self.model(cats, dense), click)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                torch_xla.sync()
            for cb in self.callbacks:
                cb.on_epoch_end(self, epoch, loss)


if __name__ == "__main__":
    CTRTrainer(CFG, [GammaAnnealing(CFG["loss"]["gamma_start"], CFG["loss"]["gamma_end"]), Logger()]).train()
