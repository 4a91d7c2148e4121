"""Neural marked temporal point process (earthquake catalogue), GRU history, Monte-Carlo integral, Lion."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MARKS, EVENTS, BATCH, HID, MC = 3, 4, 5, 8, 3


class GRUStep(nn.Module):
    def __init__(self, inp, hid):
        super().__init__()
        self.x = nn.Linear(inp, 3 * hid)
        self.h = nn.Linear(hid, 3 * hid)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, dim=-1)
        hr, hz, hn = self.h(h).chunk(3, dim=-1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1.0 - z) * n + z * h


class PointProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.mark = nn.Embedding(MARKS, 4)
        self.cell = GRUStep(5, HID)
        self.h0 = nn.Parameter(torch.zeros(1, HID))
        self.decay = nn.Linear(HID, HID)
        self.rate = nn.Linear(HID, MARKS)

    def history(self, gaps, marks):
        """States h_0 .. h_n, where h_i has seen the first i events."""
        x = torch.cat([self.mark(marks), torch.log1p(gaps).unsqueeze(-1)], dim=-1)
        h = self.h0.expand(gaps.shape[0], -1)
        states = [h]
        for i in range(EVENTS):
            h = self.cell(x[:, i], h)
            states.append(h)
        return torch.stack(states, dim=1)

    def intensity(self, h, elapsed):
        faded = h * torch.exp(-F.softplus(self.decay(h)) * elapsed.unsqueeze(-1))
        return F.softplus(self.rate(torch.tanh(faded)))

    def neg_log_likelihood(self, gaps, marks, u):
        states = self.history(gaps, marks)
        past = states[:, :-1]
        lam = self.intensity(past, gaps)
        event_term = torch.log(lam.gather(2, marks.unsqueeze(2)).squeeze(2) + 1e-8)
        # integral over every gap by MC points u in (0, 1)
        at = past.unsqueeze(2).expand(-1, -1, MC, -1)
        total = self.intensity(at, gaps.unsqueeze(2) * u).sum(dim=-1)
        integral = total.mean(dim=2) * gaps
        return (integral - event_term).sum(dim=1).mean()


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"]
                update = (m * b1 + p.grad * (1.0 - b1)).sign()
                p.mul_(1.0 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1.0 - b2)


def main():
    torch.manual_seed(29)
    dev = torch_xla.device()
    model = PointProcess().to(dev)
    params = list(model.parameters())
    opt = Lion(params)

    for it in range(4):
        gaps = torch.empty(BATCH, EVENTS).exponential_(1.0).to(dev)
        marks = torch.randint(0, MARKS, (BATCH, EVENTS)).to(dev)
        u = torch.rand(BATCH, EVENTS, MC).to(dev)

        opt.zero_grad(set_to_none=True)
        loss = model.neg_log_likelihood(gaps, marks, u)
        loss.backward()
        opt.step()

        if it == 2:
            live = [loss] + params + [opt.state[p]["m"] for p in params]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


main()
