"""Point-cloud defect segmentation, PointNet style (torch_xla)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, POINTS, CLASSES = 4, 32, 5


class SharedMLP(nn.Module):
    """Per-point linear + batch norm + relu on (B, N, C)."""

    def __init__(self, cin, cout):
        super().__init__()
        self.fc = nn.Linear(cin, cout)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        y = self.fc(x)
        return F.relu(self.bn(y.flatten(0, 1)).view_as(y))


class PointSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp1 = SharedMLP(6, 16)
        self.mlp2 = SharedMLP(16, 24)
        self.mlp3 = SharedMLP(16 + 24, 20)
        self.head = nn.Linear(20, CLASSES)

    def forward(self, pts):
        local = self.mlp1(pts)
        glob = self.mlp2(local).amax(dim=1, keepdim=True)
        h = torch.cat([local, glob.expand(-1, pts.shape[1], -1)], dim=-1)
        return self.head(self.mlp3(h))

    def load_legacy(self, sd):
        names = {"conv1": "mlp1.fc", "bn1": "mlp1.bn", "conv2": "mlp2.fc", "bn2": "mlp2.bn",
                 "seg1": "mlp3.fc", "bn3": "mlp3.bn", "seg2": "head"}
        new = {}
        for k, v in sd.items():
            mod, leaf = k.rsplit(".", 1)
            new[names[mod] + "." + leaf] = v.squeeze(-1) if v.dim() == 3 else v
        self.load_state_dict(new)


def focal_loss(logits, target, gamma=2.0):
    nll = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return (nll * (1.0 - torch.exp(-nll)) ** gamma).mean()


def train_step(model, opt, pts, target):
    opt.zero_grad()
    loss = focal_loss(model(pts), target)
    loss.backward()
    opt.step()
    return loss.detach()


def live(model, opt):
    out = list(model.parameters()) + list(model.buffers())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    for st in opt.state.values():
        out += [v for v in st.values() if torch.is_tensor(v)]
    return out


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path):
    torch.manual_seed(14)
    device = torch_xla.device()
    model = PointSeg()
    if os.environ.get("CKPT"):
        model.load_legacy(torch.load(os.environ["CKPT"]))
    model = model.to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True)
    gen = torch.Generator().manual_seed(8)
    torch_xla.sync()
    for step in range(int(os.environ.get("STEPS", 3))):
        pts = torch.randn(BATCH, POINTS, 6, generator=gen).to(device)
        target = torch.randint(0, CLASSES, (BATCH, POINTS), generator=gen).to(device)
        loss = train_step(model, opt, pts, target)
        if step == 2:
            dump(path, live(model, opt) + [loss])
        torch_xla.sync()
        print(step, round(float(loss), 6))


if __name__ == "__main__":
    main(sys.argv[1])
