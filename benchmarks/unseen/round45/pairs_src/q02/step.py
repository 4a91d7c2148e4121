"""Glucose forecasting: GRU over CGM readings, quantile loss, RAdam (torch_xla).

Steps 5 and 6 of one run are written to a.hlo and b.hlo.
"""
import os

import torch
import torch.nn as nn
import torch_xla

BATCH, STEPS, FEAT, HID, HORIZON = 8, 3, 4, 10, 3
QUANTILES = (0.1, 0.5, 0.9)
DUMPS = {5: "a.hlo", 6: "b.hlo"}
HERE = os.path.dirname(os.path.abspath(__file__))


class GlucoseGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(FEAT))
        self.cell = nn.GRUCell(FEAT, HID)
        self.norm = nn.LayerNorm(HID)
        self.head = nn.Linear(HID, HORIZON * len(QUANTILES))

    def forward(self, x, meal):
        h = torch.zeros(x.shape[0], HID, device=x.device)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t] * self.scale, h)
        h = self.norm(h + meal.unsqueeze(-1))
        y = self.head(h).view(-1, HORIZON, len(QUANTILES))
        # non-crossing quantiles
        lo = y[..., :1]
        return torch.cat([lo, lo + nn.functional.softplus(y[..., 1:]).cumsum(-1)], dim=-1)


def pinball(pred, target, quantiles):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(quantiles * err, (quantiles - 1.0) * err).sum(-1).mean()


def live(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    model = GlucoseGRU().to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim == 1]
    opt = torch.optim.RAdam(
        [{"params": decay, "weight_decay": 1e-2}, {"params": rest, "weight_decay": 0.0}],
        lr=2e-3, betas=(0.9, 0.98), decoupled_weight_decay=True)
    quantiles = torch.tensor(QUANTILES, device=device)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(5)
    for step in range(1, 8):
        x = torch.randn(BATCH, STEPS, FEAT, generator=gen).to(device)
        meal = torch.rand(BATCH, generator=gen).to(device)
        y = torch.randn(BATCH, HORIZON, generator=gen).to(device)
        opt.zero_grad(set_to_none=True)
        loss = pinball(model(x, meal), y, quantiles)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        opt.step()
        loss = loss.detach()
        if step in DUMPS:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss))
            with open(os.path.join(HERE, DUMPS[step]), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
