import torch
import torch.nn.functional as F

dev = "xla"

att = torch.randn(5, 5).to(dev)
v = torch.randn(5, 3).to(dev)
OUT = [torch.softmax(att * 0.3, 0) @ v]
