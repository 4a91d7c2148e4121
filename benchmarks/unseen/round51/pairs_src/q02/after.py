"""Pen-stroke synthesis: LSTM with a bivariate Gaussian mixture head."""
import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()
LOG_2PI = math.log(2.0 * math.pi)


class PeepholeLSTM(nn.Module):
    def __init__(self, n_in, n_hid):
        super().__init__()
        self.w_x = nn.Parameter(torch.empty(4 * n_hid, n_in))
        self.w_h = nn.Parameter(torch.empty(4 * n_hid, n_hid))
        self.b = nn.Parameter(torch.zeros(4 * n_hid))
        self.peep = nn.Parameter(torch.zeros(3, n_hid))
        nn.init.xavier_uniform_(self.w_x)
        nn.init.orthogonal_(self.w_h)
        self.n_hid = n_hid

    def forward(self, x, state):
        h, c = state
        # the input part of the gates does not depend on the recurrence: one matmul for all steps
        x_gates = F.linear(x, self.w_x, self.b)
        outs = []
        for x_t in x_gates.unbind(dim=1):
            i, f, g, o = (x_t + F.linear(h, self.w_h)).chunk(4, dim=-1)
            i = torch.sigmoid(i + self.peep[0] * c)
            f = torch.sigmoid(f + self.peep[1] * c)
            c = f * c + i * torch.tanh(g)
            o = torch.sigmoid(o + self.peep[2] * c)
            h = o * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs, dim=1), (h, c)


class MixtureHead(nn.Module):
    def __init__(self, n_hid, n_mix):
        super().__init__()
        self.proj = nn.Linear(n_hid, 6 * n_mix + 1)
        self.n_mix = n_mix

    def forward(self, h, target):
        k = self.n_mix
        y = self.proj(h)
        logit_pi, mu_x, mu_y, log_sx, log_sy, rho, pen = y.split([k] * 6 + [1], dim=-1)
        rho = 0.95 * torch.tanh(rho)
        dx = (target[..., 0:1] - mu_x) * torch.exp(-log_sx)
        dy = (target[..., 1:2] - mu_y) * torch.exp(-log_sy)
        one_m = 1.0 - rho * rho
        z = dx * dx + dy * dy - 2.0 * rho * dx * dy
        log_n = -0.5 * z / one_m - LOG_2PI - log_sx - log_sy - 0.5 * torch.log(one_m)
        log_pi = logit_pi - torch.logsumexp(logit_pi, dim=-1, keepdim=True)
        nll = -torch.logsumexp(log_pi + log_n, dim=-1)
        bce = F.relu(pen) - pen * target[..., 2:3] + torch.log1p(torch.exp(-pen.abs()))
        return nll + bce.squeeze(-1)


class Scribe(nn.Module):
    def __init__(self, n_hid=12, n_mix=4):
        super().__init__()
        self.rnn = PeepholeLSTM(3, n_hid)
        self.head = MixtureHead(n_hid, n_mix)

    def forward(self, strokes, mask, state):
        h, state = self.rnn(strokes[:, :-1], state)
        nll = self.head(h, strokes[:, 1:])
        return (nll * mask[:, 1:]).sum() / mask[:, 1:].sum(), state


def main(out):
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    model = Scribe().to(DEV)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9, centered=True)
    h = torch.zeros(3, 12, device=DEV)
    c = torch.zeros(3, 12, device=DEV)
    for step in range(4):
        strokes = torch.randn(3, 5, 3, generator=gen)
        strokes[..., 2] = (strokes[..., 2] > 0.5).float()
        mask = (torch.rand(3, 5, generator=gen) > 0.2).float()
        strokes, mask = strokes.to(DEV), mask.to(DEV)
        torch_xla.sync()
        opt.zero_grad()
        loss, (h, c) = model(strokes, mask, (h, c))
        loss.backward()
        h, c = h.detach(), c.detach()
        torch.nn.utils.clip_grad_value_(model.parameters(), 5.0)
        opt.step()
        if step == 3:
            live = [loss.detach(), h, c]
            for p in model.parameters():
                st = opt.state[p]
                live += [p, p.grad, st["square_avg"], st["grad_avg"], st["momentum_buffer"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, "%.7f" % loss.item(), "%.7f" % sum(p.double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
