"""Stochastic user equilibrium on a grid network, then toll design on top of it."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm

SIDE = 5
NODES = SIDE * SIDE
THETA = 1.2
TERMS = 10


def grid(generator):
    mask = torch.zeros(NODES, NODES)
    for r in range(SIDE):
        for c in range(SIDE):
            here = r * SIDE + c
            if c + 1 < SIDE:
                mask[here, here + 1] = mask[here + 1, here] = 1
            if r + 1 < SIDE:
                mask[here, here + SIDE] = mask[here + SIDE, here] = 1
    free = (1.0 + torch.rand(NODES, NODES, generator=generator)) * mask
    capacity = 20.0 + 30.0 * torch.rand(NODES, NODES, generator=generator)
    demand = 2.0 * torch.rand(NODES, NODES, generator=generator)
    demand.fill_diagonal_(0)
    return mask, free, capacity, demand


def travel_time(flow, free, capacity):
    return free * (1.0 + 0.15 * (flow / capacity) ** 4)


def load(cost, mask, demand):
    """Logit loading over all walks, closed form as a truncated series."""
    w = mask * torch.exp(-THETA * (cost + 0.6))
    eye = torch.eye(NODES, device=cost.device)
    z = eye
    for _ in range(TERMS):
        z = eye + w @ z
    share = demand / z.clamp(min=1e-9)
    return w * (z.t() @ share @ z.t())


def equilibrium(mask, free, capacity, demand, iterations=36):
    flow = load(free, mask, demand)
    torch_xla.sync()
    for k in range(1, iterations + 1):
        target = load(travel_time(flow, free, capacity), mask, demand)
        direction = target - flow
        flow = flow + direction * (1.0 / (k + 1))
        torch_xla.sync()
        if k % 9 == 0:
            gap = direction.abs().sum() / flow.sum()
            print(f"  iteration {k}: relative gap {gap.item():.2e}")
    return flow


def total_time(flow, free, capacity):
    return (flow * travel_time(flow, free, capacity)).sum()


def respond(toll, start, mask, free, capacity, demand, rounds=3):
    flow = start
    for _ in range(rounds):
        cost = travel_time(flow, free, capacity) + toll
        flow = 0.5 * flow + 0.5 * load(cost, mask, demand)
    return flow


def design(start, mask, free, capacity, demand, updates=40):
    raw = torch.full((NODES, NODES), -3.0, device=start.device, requires_grad=True)
    opt = torch.optim.Adam([raw], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, updates)
    flow = start
    for u in range(updates):
        toll = torch.nn.functional.softplus(raw) * mask
        new_flow = respond(toll, flow, mask, free, capacity, demand)
        objective = total_time(new_flow, free, capacity) / demand.sum()
        objective = objective + 0.01 * toll.sum() / mask.sum()
        opt.zero_grad()
        objective.backward()
        opt.step()
        schedule.step()
        flow = new_flow.detach()
        torch_xla.sync()
        if (u + 1) % 10 == 0:
            with torch.no_grad():
                settled = respond(torch.nn.functional.softplus(raw) * mask, flow,
                                  mask, free, capacity, demand, rounds=8)
                value = total_time(settled, free, capacity)
            print(f"  update {u + 1}: settled network time {value.item():.2f}")
    return raw.detach()


def main():
    g = torch.Generator().manual_seed(21)
    device = xm.xla_device()
    network = [t.to(device) for t in grid(g)]
    mask, free, capacity, demand = network
    print("equilibrium without tolls")
    flow = equilibrium(mask, free, capacity, demand)
    before = total_time(flow, free, capacity).item()
    print("toll design")
    raw = design(flow, mask, free, capacity, demand)
    share = (torch.nn.functional.softplus(raw) * mask > 0.05).float().sum() / mask.sum()
    print(f"network time {before:.2f}, tolled share {share.item():.2f}")


if __name__ == "__main__":
    main()
