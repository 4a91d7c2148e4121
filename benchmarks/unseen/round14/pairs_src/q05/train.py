"""Power-curve regression for wind turbines from SCADA records.

Two kinds of sites are mixed: older ones report ten-minute means only, newer
ones also the standard deviation of the power signal, from which the weight of
each record in the loss is derived.
"""
import logging

import numpy as np
import torch
import torch.nn as nn
import torch_xla

log = logging.getLogger("scada")
FEATURES = ("wind_speed", "wind_dir_sin", "wind_dir_cos", "density", "temperature", "yaw", "pitch")


class Site:
    def __init__(self, name, site_id, reports_std, rng, records=200):
        self.name = name
        self.site_id = site_id
        self.reports_std = reports_std
        self.x = rng.standard_normal((records, len(FEATURES))).astype(np.float32)
        curve = 1.0 / (1.0 + np.exp(-1.7 * self.x[:, 0]))
        self.y = (curve + 0.05 * rng.standard_normal(records)).astype(np.float32)
        self.power_std = 0.02 + 0.1 * rng.random(records)

    def rows(self, index):
        record = {"x": self.x[index], "y": self.y[index], "site": self.site_id}
        if self.reports_std:
            record["power_std"] = self.power_std[index]
        return record


def record_weights(record):
    """Inverse-variance weights with mean one; plain ones where no std is reported."""
    if "power_std" in record:
        w = 1.0 / np.square(np.maximum(record["power_std"], 0.03))
        return torch.from_numpy(w / w.mean())
    return torch.ones(len(record["y"]))


def to_batch(record, device):
    return {
        "x": torch.from_numpy(record["x"]).to(device),
        "y": torch.from_numpy(record["y"]).to(device),
        "w": record_weights(record).to(device),
        "site": torch.full((len(record["y"]),), record["site"]).to(device),
    }


class PowerCurve(nn.Module):
    def __init__(self, sites, width=32, site_dim=6):
        super().__init__()
        self.site = nn.Embedding(sites, site_dim)
        self.inp = nn.Linear(len(FEATURES) + site_dim, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.out = nn.Linear(width, 1)

    def forward(self, x, site):
        h = torch.cat([x, self.site(site)], dim=-1)
        h = nn.functional.gelu(self.inp(h))
        for lin, norm in zip(self.hidden, self.norms):
            h = h + nn.functional.gelu(lin(norm(h)))
        return torch.sigmoid(self.out(h)).squeeze(-1)


def weighted_loss(pred, batch, l2, model):
    err = (pred - batch["y"]).square()
    fit = (batch["w"] * err).mean()
    penalty = sum(p.square().sum() for n, p in model.named_parameters() if n.endswith("weight"))
    return fit + l2 * penalty


def schedule(sites, steps, rng):
    """A couple of batches from one site, then the next site."""
    order = []
    while len(order) < steps:
        site = sites[rng.integers(len(sites))]
        order += [site, site]
    return order[:steps]


def main(steps=24, batch=32, seed=17):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()
    sites = [Site("Nordholm", 0, False, rng), Site("Vesterby", 1, True, rng),
             Site("Ostermark", 2, False, rng), Site("Klippe", 3, True, rng)]

    model = PowerCurve(len(sites)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step, site in enumerate(schedule(sites, steps, rng)):
        record = site.rows(rng.integers(0, len(site.y), size=batch))
        data = to_batch(record, device)
        opt.zero_grad()
        loss = weighted_loss(model(data["x"], data["site"]), data, 1e-4, model)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 8 == 7:
            log.info("step %d site %s loss %.4f", step, site.name, loss.item())


if __name__ == "__main__":
    main()
