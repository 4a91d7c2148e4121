import torch
import torch.nn.functional as F

dev = "xla"

text = torch.randn(4, 6).to(dev)
image = torch.randn(4, 6).to(dev)
w = torch.randn(5, 12).to(dev)
fused = torch.cat([image.tanh(), text * 0.5], 1)
OUT = [F.log_softmax(F.linear(fused, w), -1).sum()]
