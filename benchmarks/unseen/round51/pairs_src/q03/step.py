"""Continuous glucose monitoring: 30-minute-ahead quantile forecast, causal dilated convolutions."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()
QUANTILES = (0.1, 0.5, 0.9)


class CausalConv(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 3, dilation=dilation)
        self.pad = 2 * dilation

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, 0)))


class Block(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = CausalConv(ch, ch, dilation)
        self.norm = nn.LayerNorm(ch)
        self.mix = nn.Linear(ch, ch)

    def forward(self, x):
        y = self.conv(x)
        y = self.norm(y.transpose(1, 2))
        y = self.mix(F.leaky_relu(y, 0.1)).transpose(1, 2)
        return x + y


class Forecaster(nn.Module):
    def __init__(self, n_feat=4, ch=8, horizon=6):
        super().__init__()
        self.inp = nn.Conv1d(n_feat, ch, 1)
        self.blocks = nn.Sequential(*[Block(ch, 2 ** i) for i in range(2)])
        self.out = nn.Linear(ch, horizon * len(QUANTILES))
        self.horizon = horizon

    def forward(self, x):
        # x: [batch, features (glucose, insulin, carbs, heart rate), time]
        last = x[:, 0, -1:]
        h = self.blocks(self.inp(x))[:, :, -1]
        delta = self.out(h).view(-1, len(QUANTILES), self.horizon)
        return last.unsqueeze(1) + delta


def pinball(pred, target, valid):
    q = torch.tensor(QUANTILES, device=pred.device).view(1, -1, 1)
    diff = target.unsqueeze(1) - pred
    loss = torch.maximum(q * diff, (q - 1.0) * diff).sum(1)
    return (loss * valid).sum() / valid.sum().clamp(min=1.0)


def main(out_dir):
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(8)
    model = Forecaster().to(DEV)
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    dump = {5: "a.hlo", 6: "b.hlo"}
    for it in range(1, 9):
        x = torch.randn(5, 4, 16, generator=gen).to(DEV)
        y = torch.randn(5, 6, generator=gen).to(DEV)
        valid = (torch.rand(5, 6, generator=gen) > 0.1).float().to(DEV)
        torch_xla.sync()
        loss = pinball(model(x), y, valid)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it in dump:
            live = [loss.detach()]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out_dir + "/" + dump[it], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
