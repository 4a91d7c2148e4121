# kind: torch  mode: text
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.backends #B

torch.manual_seed(6)
torch_xla.backends.set_mat_mul_precision("highest") #B
dev = torch_xla.device()


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.mid = nn.Linear(16, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        s = F.relu(self.a(x))
        h = F.relu(self.b(s))
        h = self.mid(h.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out(torch.cat([F.relu(self.up(h)), s], 1))


net = UNet().to(dev).eval()
img = torch.randn(2, 1, 16, 16).to(dev)
seg = torch.randint(0, 2, (2, 16, 16)).to(dev)
torch_xla.sync()
with torch.no_grad():
    p = net(img)
    loss = F.cross_entropy(p, seg)
    hit = p.argmax(1) == seg
    inter = (p.argmax(1) & seg).sum()
    union = (p.argmax(1) | seg).sum()
    iou = inter.float() / union.float()
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo([loss, hit.float().mean(), iou]))
