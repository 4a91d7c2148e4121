"""Discrete-continuous survival model for pump failures: Cox partial likelihood (torch_xla)."""
import os

import torch
import torch.nn as nn
import torch_xla

BATCH, NUM, CATS, EMB, HID = 20, 5, (4, 6), 3, 12
DUMP_AT = 4
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class RiskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(n, EMB) for n in CATS])
        width = NUM + EMB * len(CATS)
        self.norm = nn.BatchNorm1d(NUM)
        self.fc1 = nn.Linear(width, HID)
        self.fc2 = nn.Linear(HID, HID)
        self.out = nn.Linear(HID, 1, bias=False)

    def forward(self, num, cat):
        parts = [self.norm(num)] + [e(cat[:, i]) for i, e in enumerate(self.embs)]
        h = nn.functional.elu(self.fc1(torch.cat(parts, dim=1)))
        h = h + nn.functional.elu(self.fc2(h))
        return self.out(h).squeeze(1)


def cox_loss(risk, time, event):
    """Negative partial log likelihood (Breslow), rows in any order."""
    order = torch.argsort(time)
    risk, event = risk[order], event[order]
    top = risk.max().detach()
    log_cum = torch.log(torch.cumsum(torch.exp(risk - top), dim=0)) + top
    ll = (risk - log_cum) * event
    return -ll.sum() / event.sum().clamp(min=1.0)


def concordance(risk, time, event):
    with torch.no_grad():
        later = (time.unsqueeze(0) > time.unsqueeze(1)).float() * event.unsqueeze(1)
        good = (risk.unsqueeze(1) > risk.unsqueeze(0)).float()
        return (later * good).sum() / later.sum().clamp(min=1.0)


def live(model, opt, extra):
    out = list(extra) + list(model.buffers())
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    model = RiskNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=0.05)
    gen = torch.Generator().manual_seed(13)
    for step in range(6):
        num = torch.randn(BATCH, NUM, generator=gen).to(device)
        cat = torch.stack([torch.randint(n, (BATCH,), generator=gen) for n in CATS], 1).to(device)
        time = torch.rand(BATCH, generator=gen).to(device)
        event = (torch.rand(BATCH, generator=gen) > 0.3).float().to(device)

        opt.zero_grad(set_to_none=True)
        risk = model(num, cat)
        loss = cox_loss(risk, time, event)
        smooth = 1e-3 * risk.pow(2).mean()
        (loss + smooth).backward()
        opt.step()
        extra = [loss.detach(), concordance(risk, time, event)]
        if step == DUMP_AT:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, extra))
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, *[f"{e.item():.6f}" for e in extra])


if __name__ == "__main__":
    main()
