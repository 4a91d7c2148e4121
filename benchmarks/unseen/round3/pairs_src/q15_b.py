import torch
import torch.nn.functional as F

dev = "xla"

x = torch.randn(4, 6).to(dev)
w = torch.randn(3, 6).to(dev)
y = F.linear(x.bfloat16(), w.bfloat16()).float()
OUT = [F.log_softmax(y, -1)[:, 0]]
