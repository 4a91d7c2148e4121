"""Group-relative policy optimisation of a tiny decoder on a toy arithmetic-string reward."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, PROMPT, NEW, GROUP, PROMPTS = 24, 6, 10, 6, 4
TOTAL = PROMPT + NEW


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, bias, cache=None, pos=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k = cache[0] = cache[0].index_copy(2, pos, k)
            v = cache[1] = cache[1].index_copy(2, pos, v)
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias, cache=None, pos=None):
        x = x + self.att(self.n1(x), bias, cache, pos)
        return x + self.mlp(self.n2(x))


class Policy(nn.Module):
    def __init__(self, dim=32, heads=2, layers=2):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(TOTAL, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def new_cache(self, b, device):
        shape = (b, self.heads, TOTAL, self.dim // self.heads)
        return [[torch.zeros(shape, device=device), torch.zeros(shape, device=device)] for _ in self.blocks]

    def forward(self, ids, pos, caches=None):
        keys = torch.arange(TOTAL if caches is not None else ids.shape[1], device=ids.device)
        bias = torch.where(keys[None, :] <= pos[:, None], 0.0, -1e4)
        x = self.tok(ids) + self.pos(pos)
        for i, block in enumerate(self.blocks):
            x = block(x, bias, caches[i] if caches is not None else None, pos)
        return F.linear(self.norm(x), self.tok.weight)


@torch.no_grad()
def rollout(policy, prompts, greedy=False):
    device = prompts.device
    caches = policy.new_cache(prompts.shape[0], device)
    pos = torch.arange(PROMPT, device=device)
    logits = policy(prompts, pos, caches)[:, -1]
    cur = pos[-1:]
    out = []
    for _ in range(NEW):
        if greedy:
            tok = logits.argmax(-1, keepdim=True)
        else:
            gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
            tok = (logits + gumbel).argmax(-1, keepdim=True)
        out.append(tok)
        cur = cur + 1
        torch_xla.sync()
        if len(out) < NEW:
            logits = policy(tok, cur, caches)[:, -1]
    return torch.cat([prompts] + out, dim=1)


def reward_fn(sequences):
    """Continuations should climb by one from the last prompt token, modulo the vocabulary."""
    seq = sequences.cpu()
    base = seq[:, PROMPT - 1: PROMPT]
    target = (base + torch.arange(1, NEW + 1)) % VOCAB
    exact = (seq[:, PROMPT:] == target).float()
    close = ((seq[:, PROMPT:] - seq[:, PROMPT - 1:-1]) % VOCAB == 1).float()
    return (0.4 * exact + 0.6 * close).mean(-1)


def token_logp(model, seq):
    logits = model(seq[:, :-1], torch.arange(TOTAL - 1, device=seq.device))
    logp = logits.log_softmax(-1).gather(-1, seq[:, 1:, None]).squeeze(-1)
    return logp[:, PROMPT - 1:]


def grpo_loss(policy, seq, adv, old, ref, clip=0.2, beta=0.02):
    logp = token_logp(policy, seq)
    ratio = (logp - old).exp()
    gain = torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    kl = (ref - logp).exp() - (ref - logp) - 1
    return (-gain + beta * kl).mean(), kl.mean()


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    torch_xla.manual_seed(41)
    policy, reference = Policy().to(device), Policy().to(device)
    reference.load_state_dict(policy.state_dict())
    reference.requires_grad_(False)
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-3, betas=(0.9, 0.98))
    held_out = torch.randint(VOCAB, (8, PROMPT), generator=torch.Generator().manual_seed(2)).to(device)
    gen = torch.Generator().manual_seed(7)
    torch_xla.sync()

    for it in range(16):
        prompts = torch.randint(VOCAB, (PROMPTS, PROMPT), generator=gen).repeat_interleave(GROUP, 0).to(device)
        seq = rollout(policy, prompts)
        reward = reward_fn(seq)
        grouped = reward.view(PROMPTS, GROUP)
        adv = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-3)
        adv = adv.reshape(-1, 1).to(device)
        with torch.no_grad():
            old, ref = token_logp(policy, seq), token_logp(reference, seq)
        torch_xla.sync()
        for _ in range(2):
            loss, kl = grpo_loss(policy, seq, adv, old, ref)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
            torch_xla.sync()
        if it % 5 == 4:
            score = reward_fn(rollout(policy, held_out, greedy=True)).mean()
            xm.master_print(f"it {it + 1}  reward {reward.mean():.3f}  greedy {score:.3f}  kl {kl.item():.4f}")


if __name__ == "__main__":
    main()
