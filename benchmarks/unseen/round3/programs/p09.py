import torch
import torch.nn as nn
import torch_xla


class Ema:
    def __init__(self, model, decay=0.99):
        self.decay, self.shadow = decay, {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].lerp_(v, 1 - self.decay)


def checkpoint(model, ema, store, step):
    store[step] = {
        "model": {k: v.cpu() for k, v in model.state_dict().items()},
        "ema": {k: v.cpu() for k, v in ema.shadow.items()},
    }


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 2)).to(dev)
    ema, store = Ema(model), {}
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    best, bad = float("inf"), 0
    for step in range(12):
        x = torch.randn(10, 8)
        y = (x[:, 0] * x[:, 1] > 0).long()
        loss = nn.functional.cross_entropy(model(x.to(dev)), y.to(dev))
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
        if step % 4 == 3:
            checkpoint(model, ema, store, step)
        torch_xla.sync()
        value = loss.item()
        best, bad = (value, 0) if value < best else (best, bad + 1)
        if bad >= 6:
            break
    print("checkpoints", sorted(store), "best %.4f" % best)


main()
