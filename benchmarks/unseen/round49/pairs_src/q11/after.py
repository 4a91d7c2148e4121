"""Partial-to-full point cloud registration (PCRNet style), AdamW, Chamfer loss."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()


class SharedEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc1 = nn.Linear(3, 16)
        self.ln1 = nn.LayerNorm(16)
        self.fc2 = nn.Linear(16, width)

    def forward(self, pts):
        h = F.relu(self.ln1(self.fc1(pts)))
        h = self.fc2(h)
        return h.amax(dim=1)


class Registration(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.enc = SharedEncoder(width)
        self.head1 = nn.Linear(2 * width, 32)
        self.head2 = nn.Linear(32, 7)

    def forward(self, src, dst):
        g = torch.cat([self.enc(src), self.enc(dst)], dim=-1)
        out = self.head2(F.leaky_relu(self.head1(g), 0.1))
        quat, trans = out[:, :4], out[:, 4:]
        quat = quat / (quat.norm(dim=-1, keepdim=True) + 1e-6)
        rot = quat_to_matrix(quat)
        moved = torch.bmm(src, rot.transpose(1, 2)) + trans[:, None, :]
        return moved, quat, trans


def quat_to_matrix(q):
    w, x, y, z = q.unbind(-1)
    row0 = torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1)
    row1 = torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1)
    row2 = torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1)
    return torch.stack([row0, row1, row2], dim=1)


def pairwise_sq(a, b):
    aa = (a * a).sum(-1)[:, :, None]
    bb = (b * b).sum(-1)[:, None, :]
    return (aa + bb - 2.0 * torch.bmm(a, b.transpose(1, 2))).clamp(min=0.0)


def chamfer(a, b):
    d = pairwise_sq(a, b)
    a_to_b = d.amin(dim=2)
    b_to_a = d.amin(dim=2)
    return a_to_b.mean() + b_to_a.mean()


def train_step(model, opt, src, dst):
    opt.zero_grad()
    moved, quat, trans = model(src, dst)
    loss = chamfer(moved, dst) + 1e-3 * trans.pow(2).sum(-1).mean()
    loss.backward()
    opt.step()
    return loss.detach()


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path, steps=2):
    torch.manual_seed(0)
    model = Registration().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    data = [(torch.randn(3, 24, 3), torch.randn(3, 40, 3)) for _ in range(steps)]
    torch_xla.sync()
    for i, (s, d) in enumerate(data):
        s, d = s.to(dev), d.to(dev)
        loss = train_step(model, opt, s, d)
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
