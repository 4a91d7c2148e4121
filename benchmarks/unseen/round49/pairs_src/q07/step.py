"""Probabilistic demand forecasting: an autoregressive LSTM with negative-binomial output.
Dumps the graphs of the last two updates of the first epoch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

T, COV, SERIES = 3, 3, 14


class DemandRNN(nn.Module):
    def __init__(self, hidden=8, emb=4):
        super().__init__()
        self.embed = nn.Embedding(SERIES, emb)
        self.cell = nn.LSTMCell(1 + COV + emb, hidden)
        self.mu = nn.Linear(hidden, 1)
        self.shape = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, y_lag, cov, sid, scale):
        b = y_lag.shape[0]
        h = torch.zeros(b, self.hidden, device=y_lag.device)
        c = torch.zeros_like(h)
        e = self.embed(sid)
        mus, alphas = [], []
        for t in range(T):
            x = torch.cat([y_lag[:, t:t + 1] / scale, cov[:, t], e], dim=-1)
            h, c = self.cell(x, (h, c))
            mus.append(F.softplus(self.mu(h)) * scale)
            alphas.append(F.softplus(self.shape(h)) / torch.sqrt(scale))
        return torch.cat(mus, 1), torch.cat(alphas, 1)


def nb_nll(y, mu, alpha):
    """Poisson limit plus a dispersion term (lgamma-free surrogate)."""
    r = 1.0 / (alpha + 1e-4)
    am = alpha * mu
    return (r + y) * torch.log1p(am) - y * torch.log(am + 1e-6) + 0.5 * torch.log(r + y + 1.0)


def main(path_a, path_b):
    torch.manual_seed(51)
    dev = xm.xla_device()
    net = DemandRNN().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
    g = torch.Generator().manual_seed(9)
    n = 43
    y = torch.poisson(torch.full((n, T + 1), 4.0), generator=g)
    data = TensorDataset(y, torch.randn(n, T, COV, generator=g),
                         torch.randint(0, SERIES, (n,), generator=g))
    loader = DataLoader(data, batch_size=16, shuffle=True, generator=g)
    dump = {len(loader) - 2: path_a, len(loader) - 1: path_b}
    for it, (yb, cov, sid) in enumerate(loader):
        yb, cov, sid = yb.to(dev), cov.to(dev), sid.to(dev)
        scale = 1.0 + yb[:, :-1].mean(dim=1, keepdim=True)
        mu, alpha = net(yb[:, :-1], cov, sid, scale)
        loss = nb_nll(yb[:, 1:], mu, alpha).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        if it in dump:
            live = [loss]
            for p in net.parameters():
                live += [p, p.grad, opt.state[p]['momentum_buffer']]
            with open(dump[it], 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(it, len(yb), loss.item())


if __name__ == '__main__':
    main(*sys.argv[1:3])
