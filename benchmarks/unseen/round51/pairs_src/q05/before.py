"""Self-supervised ECG representation: two augmented leads, predictor and stop-gradient."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()


class Encoder(nn.Module):
    def __init__(self, leads=2, ch=6, dim=8):
        super().__init__()
        self.conv1 = nn.Conv1d(leads, ch, 5, stride=2, padding=2)
        self.gn = nn.GroupNorm(2, ch)
        self.conv2 = nn.Conv1d(ch, ch, 3, stride=2, padding=1)
        self.proj = nn.Linear(ch, dim)

    def forward(self, x):
        x = F.silu(self.gn(self.conv1(x)))
        x = F.silu(self.conv2(x))
        return self.proj(x.mean(-1))


class Predictor(nn.Module):
    def __init__(self, dim=8, hid=4):
        super().__init__()
        self.fc1 = nn.Linear(dim, hid)
        self.fc2 = nn.Linear(hid, dim)

    def forward(self, z):
        return self.fc2(F.relu(self.fc1(z)))


def neg_cos(p, z):
    p = F.normalize(p, dim=-1)
    z = F.normalize(z, dim=-1)
    return -(p * z).sum(-1).mean()


def augment(x, scale, shift, mask):
    x = x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)
    return x * mask.unsqueeze(1)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.predictor = Predictor()

    def forward(self, v1, v2):
        z1, z2 = self.encoder(v1), self.encoder(v2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        loss = 0.5 * neg_cos(p1, z2.detach()) + 0.5 * neg_cos(p2, z1.detach())
        with torch.no_grad():
            collapse = F.normalize(z1, dim=-1).std(0).mean()
        return loss, collapse


def main(out):
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(17)
    model = Siamese().to(DEV)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for step in range(4):
        x = torch.randn(4, 2, 32, generator=gen).to(DEV)
        rnd = torch.randn(4, 4, generator=gen).to(DEV)
        masks = (torch.rand(2, 4, 32, generator=gen) > 0.15).float().to(DEV)
        torch_xla.sync()
        v1 = augment(x, 1.0 + 0.1 * rnd[0], 0.05 * rnd[1], masks[0])
        v2 = augment(x, 1.0 + 0.1 * rnd[2], 0.05 * rnd[3], masks[1])
        loss, collapse = model(v1, v2)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step == 3:
            live = [loss.detach(), collapse, v1, v2]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["momentum_buffer"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), collapse.item())


if __name__ == "__main__":
    main(sys.argv[1])
