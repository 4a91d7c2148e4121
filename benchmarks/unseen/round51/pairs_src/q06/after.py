"""Point-cloud classification of tree species from lidar: PointNet with a feature transform."""
import copy
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()


class TransformNet(nn.Module):
    def __init__(self, k, hid):
        super().__init__()
        self.k = k
        self.mlp = nn.Linear(k, hid)
        self.fc = nn.Linear(hid, k * k)

    def forward(self, x):
        h = torch.relu(self.mlp(x)).amax(dim=1)
        eye = torch.eye(self.k, device=x.device).unsqueeze(0)
        return self.fc(h).view(-1, self.k, self.k) + eye


class PointNet(nn.Module):
    def __init__(self, n_cls=4, hid=8):
        super().__init__()
        self.lift = nn.Linear(4, hid)
        self.tnet = TransformNet(hid, 6)
        self.local = nn.Linear(hid, 12)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(24, n_cls)

    def forward(self, pts):
        # pts: [batch, points, xyz + intensity]
        xyz = pts[..., :3] - pts[..., :3].mean(dim=1, keepdim=True)
        radius = torch.sqrt((xyz ** 2).sum(-1, keepdim=True).amax(dim=1, keepdim=True) + 1e-8)
        x = torch.cat([xyz / radius, pts[..., 3:]], dim=-1)
        x = torch.relu(self.lift(x))
        trans = self.tnet(x)
        x = torch.relu(self.norm(self.local(torch.bmm(x, trans))))
        feat = torch.cat([x.amax(dim=1), x.mean(dim=1)], dim=-1)
        return self.head(feat), trans


def transform_regularizer(trans):
    eye = torch.eye(trans.size(1), device=trans.device).unsqueeze(0)
    gap = torch.bmm(trans, trans.transpose(1, 2)) - eye
    return torch.sqrt((gap ** 2).sum() + 1e-12)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1.0 - self.decay)


def smooth_ce(logits, label, eps=0.1):
    logp = F.log_softmax(logits, dim=-1)
    nll = -logp.gather(1, label.unsqueeze(1)).squeeze(1)
    return ((1.0 - eps) * nll - eps * logp.mean(-1)).mean()


def main(out):
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(23)
    model = PointNet().to(DEV)
    ema = Ema(model, 0.995)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)
    for step in range(4):
        pts = torch.randn(5, 20, 4, generator=gen).to(DEV)
        label = torch.randint(0, 4, (5,), generator=gen).to(DEV)
        torch_xla.sync()
        logits, trans = model(pts)
        loss = smooth_ce(logits, label) + 0.001 * transform_regularizer(trans)
        opt.zero_grad()
        loss.backward()
        ema.update(model)
        opt.step()
        correct = (logits.argmax(-1) == label).sum()
        if step == 3:
            live = [loss.detach(), correct, logits.detach(), trans.detach()]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            live += list(ema.shadow.parameters())
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), correct.item())


if __name__ == "__main__":
    main(sys.argv[1])
