"""Survival analysis: Cox partial likelihood (Breslow) on tabular covariates, Lookahead over SGD."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, NUM, CAT, HID = 12, 7, 5, 16


class Lookahead:
    """Every k steps: slow += alpha * (fast - slow); fast = slow."""

    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha = base, k, alpha
        self.count = 0
        self.slow = {}
        for group in base.param_groups:
            for p in group["params"]:
                self.slow[p] = p.detach().clone()

    def zero_grad(self):
        self.base.zero_grad(set_to_none=True)

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.count += 1
        if self.count % self.k:
            return
        for group in self.base.param_groups:
            for p in group["params"]:
                slow = self.slow[p]
                slow.add_(p - slow, alpha=self.alpha)
                p.copy_(slow)


class DeepSurv(nn.Module):
    def __init__(self):
        super().__init__()
        self.site = nn.Embedding(CAT, 3)
        self.bn = nn.BatchNorm1d(NUM)
        self.fc1 = nn.Linear(NUM + 3, HID)
        self.fc2 = nn.Linear(HID, HID)
        self.skip = nn.Linear(NUM + 3, HID, bias=False)
        self.risk = nn.Linear(HID, 1, bias=False)

    def forward(self, num, cat):
        x = torch.cat([self.bn(num), self.site(cat)], dim=1)
        h = F.elu(self.fc1(x))
        h = F.elu(self.fc2(h)) + self.skip(x)
        return self.risk(h).squeeze(1)


def cox_loss(risk, time, event):
    at_risk = (time.unsqueeze(0) >= time.unsqueeze(1)).float()
    shift = risk.max().detach()
    log_den = torch.log(at_risk @ torch.exp(risk - shift)) + shift
    return -((risk - log_den) * event).sum() / event.sum().clamp(min=1.0)


def make_batch(gen):
    num = torch.randn(B, NUM, generator=gen)
    cat = torch.randint(0, CAT, (B,), generator=gen)
    time = torch.rand(B, generator=gen) * 5.0
    event = (torch.rand(B, generator=gen) < 0.6).float()
    return num, cat, time, event


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters()) + list(model.buffers())
    for p in model.parameters():
        out.append(opt.base.state[p]["momentum_buffer"])
        out.append(opt.slow[p])
    return out


def main(prefix):
    """Writes the graphs of the 4th step (a) and of the 5th (b)."""
    torch.manual_seed(51)
    gen = torch.Generator().manual_seed(52)
    dev = torch_xla.device()
    model = DeepSurv().to(dev).train()
    opt = Lookahead(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3), k=5)
    for i in range(1, 7):
        num, cat, time, event = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        opt.zero_grad()
        loss = cox_loss(model(num, cat), time, event)
        loss.backward()
        opt.step()
        if i in (4, 5):
            name = os.path.join(prefix, {4: "a.hlo", 5: "b.hlo"}[i])
            with open(name, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss.detach()])))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
