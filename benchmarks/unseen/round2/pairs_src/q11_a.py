import torch
import torch.nn.functional as F

dev = "xla"

pred = torch.randn(6, 4).to(dev)
goal = torch.randn(6, 4).to(dev)
OUT = [F.mse_loss(pred, goal, reduction="mean")]
