"""Point-cloud defect segmentation, PointNet style (torch_xla)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, POINTS, CLASSES = 4, 32, 5


class PointSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(6, 16, 1)
        self.bn1 = nn.BatchNorm1d(16)
        self.conv2 = nn.Conv1d(16, 24, 1)
        self.bn2 = nn.BatchNorm1d(24)
        self.seg1 = nn.Conv1d(16 + 24, 20, 1)
        self.bn3 = nn.BatchNorm1d(20)
        self.seg2 = nn.Conv1d(20, CLASSES, 1)

    def forward(self, pts):
        x = pts.transpose(1, 2)
        local = F.relu(self.bn1(self.conv1(x)))
        feat = F.relu(self.bn2(self.conv2(local)))
        glob = torch.max(feat, dim=2, keepdim=True)[0]
        glob = glob.repeat(1, 1, pts.shape[1])
        h = torch.cat([local, glob], dim=1)
        h = F.relu(self.bn3(self.seg1(h)))
        return self.seg2(h)


def focal_loss(logits, target, gamma=2.0):
    logp = F.log_softmax(logits, dim=1)
    logp = logp.gather(1, target.unsqueeze(1)).squeeze(1)
    p = logp.exp()
    return (-(1.0 - p) ** gamma * logp).mean()


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
        model.load_state_dict(torch.load(os.environ["CKPT"]))
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
