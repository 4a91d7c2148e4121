"""Rainfall-runoff: recurrent net over daily forcings of many catchments, truncated BPTT within a water year."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

BASINS, HIDDEN, LAYERS, DAYS = 9, 12, 2, 4


class Reservoir(nn.Module):

    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.inflow = nn.Linear(n_in, n_hidden)
        self.storage = nn.Linear(n_hidden, n_hidden, bias=False)
        self.release = nn.Linear(n_in, n_hidden)

    def forward(self, x, s):
        filled = torch.tanh(self.inflow(x) + self.storage(s))
        return filled * torch.sigmoid(self.release(x))


class RunoffNet(nn.Module):

    def __init__(self, n_forcing, n_static):
        super().__init__()
        widths = [n_forcing + n_static] + [HIDDEN] * LAYERS
        self.cells = nn.ModuleList(Reservoir(a, b) for a, b in zip(widths[:-1], widths[1:]))
        self.gauge = nn.Linear(HIDDEN, 1)

    def forward(self, forcing, static, state):
        flows = []
        state = list(state)
        for day in range(forcing.shape[1]):
            x = torch.cat([forcing[:, day], static], dim=-1)
            for k, cell in enumerate(self.cells):
                x = state[k] = cell(x, state[k])
            flows.append(self.gauge(x).squeeze(-1))
        return torch.stack(flows, dim=1), state


class NSELoss(nn.Module):

    def __init__(self, sigma, eps=0.1):
        super().__init__()
        self.register_buffer("weight", 1.0 / (sigma + eps)**2)

    def forward(self, sim, obs):
        return ((sim.float() - obs).pow(2) * self.weight.unsqueeze(1)).mean()


def dry_state():
    return [torch.zeros(BASINS, HIDDEN) for _ in range(LAYERS)]


class WaterYears:

    def __init__(self, seed=9, chunks=4):
        self.gen = torch.Generator().manual_seed(seed)
        self.chunks = chunks
        self.static = torch.randn(BASINS, 3, generator=self.gen)

    def chunk(self):
        rain = torch.rand(BASINS, DAYS, 4, generator=self.gen)
        flow = rain[..., 0].cumsum(1) * (0.3 + self.static[:, :1].sigmoid())
        return rain, flow

    def __iter__(self):
        for _ in range(self.chunks):
            yield self.chunk()


def main(years=3):
    torch.manual_seed(9)
    device = xm.xla_device()
    data = WaterYears()
    model = RunoffNet(4, 3).to(device)
    criterion = NSELoss(data.static.abs().sum(1)).to(device)
    static = data.static.to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.98, centered=True)

    for year in range(years):
        state = [s.to(device) for s in dry_state()]
        for n, (forcing, flow) in enumerate(data):
            forcing, flow = forcing.to(device), flow.to(device)
            opt.zero_grad()
            with torch.autocast("xla", dtype=torch.bfloat16):
                sim, state = model(forcing, static, state)
            loss = criterion(sim, flow)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            xm.optimizer_step(opt)
            state = [s.detach() for s in state]
            xm.mark_step()
            print(f"year {year} chunk {n} nse-loss {loss.item():.4f} compiled {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
