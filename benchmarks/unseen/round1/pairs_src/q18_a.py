import torch
import torch.nn.functional as F

dev = "xla"

x = torch.randn(4, 6).to(dev)
y = torch.randn(4, 5).to(dev)
w = torch.randn(6, 3).to(dev)
v = torch.randn(5, 3).to(dev)
left = torch.tanh(x @ w)
right = torch.sigmoid(y @ v)
OUT = [left.sum(), right.sum()]
