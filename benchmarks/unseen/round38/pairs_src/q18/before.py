"""Electricity load forecasting: dilated TCN with quantile outputs."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

QUANTILES = (0.1, 0.5, 0.9)
HORIZON = 4


class TCNBlock(nn.Module):
    def __init__(self, ch, dilation, k=3):
        super().__init__()
        self.pad = ((k - 1) * dilation, 0)
        self.conv1 = nn.Conv1d(ch, ch, k, dilation=dilation)
        self.conv2 = nn.Conv1d(ch, ch, k, dilation=dilation)

    def forward(self, x):
        h = F.gelu(self.conv1(F.pad(x, self.pad)))
        h = self.conv2(F.pad(h, self.pad))
        return F.gelu(x + h)


class Forecaster(nn.Module):
    def __init__(self, n_in=3, ch=6):
        super().__init__()
        self.inp = nn.Conv1d(n_in, ch, 1)
        self.blocks = nn.ModuleList([TCNBlock(ch, d) for d in (1, 2)])
        self.norm = nn.LayerNorm(ch)
        self.out = nn.Linear(ch, HORIZON * len(QUANTILES))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True) + 1e-5
        h = self.inp((x - mean) / std)
        for block in self.blocks:
            h = block(h)
        y = self.out(self.norm(h[:, :, -1])).view(-1, HORIZON, len(QUANTILES))
        return y * std[:, :1] + mean[:, :1]


def pinball(pred, target, q):
    err = target.unsqueeze(-1) - pred
    loss = torch.maximum(q * err, (q - 1) * err)
    return loss.mean()


def main(out):
    torch.manual_seed(6)
    device = torch_xla.device()
    model = Forecaster().to(device)
    params = list(model.parameters())
    opt = torch.optim.RMSprop(params, lr=1e-3, momentum=0.9, centered=True)
    q = torch.tensor(QUANTILES, device=device)
    torch_xla.sync()
    for i in range(4):
        window = torch.randn(4, 3, 16).cumsum(-1).to(device)
        future = torch.randn(4, HORIZON).to(device)
        opt.zero_grad(set_to_none=True)
        loss = pinball(model(window), future, q)
        loss.backward()
        nn.utils.clip_grad_value_(params, 1.0, foreach=False)
        opt.step()
        if i == 2:
            ts = [loss] + params + [p.grad for p in params]
            ts += [opt.state[p][k] for p in params for k in ("square_avg", "grad_avg", "momentum_buffer")]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(ts))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
