"""Satellite segmentation, progressive resolution, deep supervision in the first phase."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class UNetLite(nn.Module):
    def __init__(self, c=8, classes=5):
        super().__init__()
        self.d1 = nn.Conv2d(4, c, 3, padding=1)
        self.d2 = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.d3 = nn.Conv2d(2 * c, 4 * c, 3, stride=2, padding=1)
        self.u2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.u1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Conv2d(c, classes, 1)
        self.aux = nn.Conv2d(2 * c, classes, 1)

    def forward(self, x):
        e1 = F.elu(self.d1(x))
        e2 = F.elu(self.d2(e1))
        e3 = F.elu(self.d3(e2))
        s2 = F.elu(self.u2(e3)) + e2
        s1 = F.elu(self.u1(s2)) + e1
        return self.out(s1), s2


PHASES = [dict(size=24, aux=True), dict(size=32, aux=False)]


def main():
    torch.manual_seed(6)
    device = torch_xla.device()
    net = UNetLite().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    for phase in PHASES:
        for _ in range(3):
            img = torch.rand(2, 4, 32, 32)
            lab = torch.randint(0, 5, (2, 32, 32))
            if phase["size"] != 32:
                img = F.interpolate(img, size=phase["size"])
                lab = F.interpolate(lab[:, None].float(), size=phase["size"])[:, 0].long()
            img, lab = img.to(device), lab.to(device)
            opt.zero_grad(set_to_none=True)
            main_out, feat = net(img)
            loss = F.cross_entropy(main_out, lab)
            if phase["aux"]:
                loss = loss + 0.4 * F.cross_entropy(net.aux(feat), lab[:, ::2, ::2])
            loss.backward()
            opt.step()
            torch_xla.sync()


if __name__ == "__main__":
    main()
