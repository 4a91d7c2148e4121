import torch
import torch.nn.functional as F

dev = "xla"

x = torch.randn(4, 6).to(dev)
w1 = torch.randn(8, 6).to(dev)
w2 = torch.randn(3, 8).to(dev)
h = F.relu(F.linear(x, w1))
out = torch.tanh(F.linear(h, w2))
OUT = [out.pow(2).mean()]
