import torch
import torch.nn.functional as F

dev = "xla"

x = torch.randn(7, 6).to(dev)
w1 = torch.randn(6, 5).to(dev).requires_grad_()
w2 = torch.randn(5, 2).to(dev).requires_grad_()
loss = (torch.tanh(x @ w1) @ w2).square().mean()
wanted = [w1, w2]
OUT = [loss] + list(torch.autograd.grad(loss, wanted))
