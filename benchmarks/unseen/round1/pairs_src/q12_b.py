import torch
import torch.nn.functional as F

dev = "xla"

img = torch.randn(2, 3, 8, 8).to(dev)
k = torch.randn(4, 3, 3, 3).to(dev)
y = F.conv2d(img, k, padding=2, dilation=2)
OUT = [F.relu(y).mean((2, 3))]
