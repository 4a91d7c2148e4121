import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class PolynomialDecay:
    def __init__(self, opt, base, total, power=2.0, floor=0.0):
        self.opt, self.base, self.total, self.power, self.floor = opt, base, total, power, floor
        self.n = 0
        self.apply()

    def apply(self):
        frac = max(0.0, 1 - self.n / self.total)
        for g in self.opt.param_groups:
            g["lr"] = self.floor + (self.base - self.floor) * frac ** self.power

    def step(self):
        self.n += 1
        self.apply()


def batches(steps):
    g = torch.Generator().manual_seed(4)
    for _ in range(steps):
        x = torch.randn(12, 7, generator=g)
        yield x, (x.sum(1) > 0).long()


def main(steps=12):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = nn.Sequential(nn.Linear(7, 14), nn.PReLU(), nn.Linear(14, 2)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    sched = PolynomialDecay(opt, 0.2, total=9)
    for i, (x, y) in enumerate(batches(steps)):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        sched.step()
        print(i, "lr %.4f loss %.4f" % (opt.param_groups[0]["lr"], loss.item()))


if __name__ == "__main__":
    main()
