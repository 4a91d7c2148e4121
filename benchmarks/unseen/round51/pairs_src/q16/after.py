"""Neural temporal point process on earthquake catalogues: GRU history encoder,
log-normal mixture over inter-event times, exponential magnitude head."""
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEQS, LEN, HID, MIX, ZONES = 8, 4, 10, 3, 6


class History(nn.Module):
    def __init__(self):
        super().__init__()
        self.zone = nn.Embedding(ZONES, 4)
        self.cell = nn.GRUCell(2 + 4, HID)

    def forward(self, log_tau, mag, zone):
        x = torch.cat([log_tau.unsqueeze(-1), mag.unsqueeze(-1), self.zone(zone)], dim=-1)
        h = torch.zeros(x.shape[0], HID, device=x.device)
        states = [h]
        for t in range(x.shape[1] - 1):
            h = self.cell(x[:, t], h)
            states.append(h)
        return torch.stack(states, dim=1)


class PointProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = History()
        self.mixture = nn.Linear(HID, 3 * MIX)
        self.mag_rate = nn.Linear(HID, 1)

    def event_nll(self, log_tau, mag, zone):
        h = self.history(log_tau, mag, zone)
        logit, loc, log_scale = self.mixture(h).chunk(3, dim=-1)
        log_scale = log_scale.clamp(-4.0, 3.0)
        u = (log_tau.unsqueeze(-1) - loc) * torch.exp(-log_scale)
        comp = -0.5 * u ** 2 - log_scale - 0.5 * math.log(2 * math.pi)
        log_p_time = torch.logsumexp(F.log_softmax(logit, dim=-1) + comp, dim=-1) - log_tau
        log_rate = self.mag_rate(h).squeeze(-1)
        log_p_mag = log_rate - torch.exp(log_rate) * mag
        return -(log_p_time + log_p_mag)


def sequence_loss(nll, mask):
    return (nll * mask).mean()


def make_batch(gen, device):
    log_tau = torch.randn(SEQS, LEN, generator=gen)
    mag = -torch.log(torch.rand(SEQS, LEN, generator=gen) + 1e-3)
    zone = torch.randint(0, ZONES, (SEQS, LEN), generator=gen)
    lengths = torch.randint(1, LEN + 1, (SEQS, 1), generator=gen)
    mask = (torch.arange(LEN).unsqueeze(0) < lengths).float()
    return [t.to(device) for t in (log_tau, mag, zone, mask)]


def main():
    steps = int(os.environ.get("STEPS", 2))
    device = torch_xla.device()
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(42)
    model = PointProcess().to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=2e-3)
    torch_xla.sync()

    for step in range(1, steps + 1):
        log_tau, mag, zone, mask = make_batch(gen, device)
        loss = sequence_loss(model.event_nll(log_tau, mag, zone), mask)
        loss.backward()
        opt.step()
        opt.zero_grad()

        if step == steps and len(sys.argv) > 1:
            live = [loss]
            for p in model.parameters():
                live += [p.data, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(sys.argv[1], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
