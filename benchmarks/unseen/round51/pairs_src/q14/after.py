"""Entity-aware LSTM for rainfall-runoff: static catchment attributes drive the
input gate, meteorological forcings the rest; basin-averaged NSE loss."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BASINS, SEQ, N_FORC, N_STATIC, HID = 12, 5, 5, 7, 10
PREDICT_LAST = 2


class EALSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_i = nn.Linear(N_STATIC, HID)
        self.w_ih = nn.Parameter(torch.randn(N_FORC, 3 * HID) * 0.2)
        self.w_hh = nn.Parameter(torch.eye(HID).repeat(1, 3) * 0.5)
        self.bias = nn.Parameter(torch.cat([torch.full((HID,), 3.0), torch.zeros(2 * HID)]))
        self.head = nn.Linear(HID, 1)
        self.dropout = nn.Dropout(0.4)

    def forward(self, forcing, static):
        i = torch.sigmoid(self.gate_i(static))
        h = torch.zeros(forcing.shape[0], HID, device=forcing.device)
        c = torch.zeros_like(h)
        outputs = []
        for t in range(forcing.shape[1]):
            gates = torch.addmm(self.bias, h, self.w_hh) + forcing[:, t] @ self.w_ih
            f, o, g = gates.chunk(3, dim=1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        h_last = torch.stack(outputs[-PREDICT_LAST:], dim=1)
        return self.head(self.dropout(h_last)).squeeze(-1)


class NSELoss(nn.Module):
    def __init__(self, eps=0.1):
        super().__init__()
        self.eps = eps

    def forward(self, q_sim, q_obs, q_std):
        valid = torch.isfinite(q_obs)
        q_obs = torch.where(valid, q_obs, torch.zeros_like(q_obs))
        err = torch.where(valid, q_sim - q_obs, torch.zeros_like(q_sim))
        weights = 1.0 / (q_std + self.eps)
        return (weights * err ** 2).sum() / valid.sum()


def make_batch(gen, device):
    forcing = torch.randn(BASINS, SEQ, N_FORC, generator=gen)
    static = torch.randn(BASINS, N_STATIC, generator=gen)
    q_obs = F.relu(forcing[:, -PREDICT_LAST:, 0] + 0.5 * static[:, :1])
    q_obs[torch.rand(q_obs.shape, generator=gen) < 0.1] = float("nan")
    q_std = 0.3 + torch.rand(BASINS, 1, generator=gen)
    return [t.to(device) for t in (forcing, static, q_obs, q_std)]


def main():
    steps = int(os.environ.get("STEPS", 2))
    device = torch_xla.device()
    torch.manual_seed(17)
    xm.set_rng_state(4)
    gen = torch.Generator().manual_seed(18)
    model = EALSTM().to(device)
    criterion = NSELoss()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()

    for step in range(1, steps + 1):
        forcing, static, q_obs, q_std = make_batch(gen, device)
        opt.zero_grad()
        q_sim = model(forcing, static)
        loss = criterion(q_sim, q_obs, q_std)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.8)
        opt.step()

        if step == steps and len(sys.argv) > 1:
            params = list(model.parameters())
            live = [loss, q_sim] + [p.data for p in params] + [p.grad for p in params]
            for p in params:
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(sys.argv[1], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
