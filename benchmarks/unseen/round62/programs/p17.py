"""Reward-ranked fine-tuning of a tiny causal LM on bracket completion.

Every round samples completions for a batch of open-bracket prefixes, scores them with a
rule-based reward, keeps the best ones and takes a supervised step on them (RAFT / rejection
sampling).
"""
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()

VOCAB = ["<pad>", "<bos>", "(", ")", "[", "]", "{", "}"]
PAD, BOS = 0, 1
CLOSE = {2: 3, 4: 5, 6: 7}


@dataclass
class Config:
    rounds: int = 20
    prompts: int = 12
    min_prefix: int = 2
    max_prefix: int = 14
    new_tokens: int = 4
    keep_start: float = 1.0
    keep_end: float = 0.25
    lr: float = 5e-2
    temperature: float = 1.0
    seed: int = 9


class Prefixes:
    """Balanced-ish bracket prefixes that leave at most `depth` brackets open."""

    def __init__(self, cfg, depth=4):
        self.cfg, self.depth = cfg, depth
        self.rng = random.Random(cfg.seed)

    def sample(self, n):
        toks, stack = [BOS], []
        for _ in range(n):
            if stack and (len(stack) >= self.depth or self.rng.random() < 0.4):
                toks.append(CLOSE[stack.pop()])
            else:
                stack.append(self.rng.choice(list(CLOSE)))
                toks.append(stack[-1])
        return toks

    def batch(self):
        # prefixes of one batch have about the same length, so there is little padding
        base = self.rng.randint(self.cfg.min_prefix, self.cfg.max_prefix)
        return [self.sample(self.rng.randint(base - 1, base)) for _ in range(self.cfg.prompts)]


def left_pad(seqs):
    width = max(len(s) for s in seqs)
    ids = torch.full((len(seqs), width), PAD, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for r, s in enumerate(seqs):
        ids[r, width - len(s):] = torch.tensor(s)
        mask[r, width - len(s):] = 1
    return ids, mask


def reward(tokens, n_new):
    """+1 per correctly closed bracket in the completion, -1 per wrong or stray token."""
    stack, score = [], 0.0
    first_new = len(tokens) - n_new
    for i, t in enumerate(tokens):
        if t in (PAD, BOS):
            score -= float(i >= first_new)
        elif t in CLOSE:
            stack.append(t)
        else:
            ok = bool(stack) and CLOSE[stack[-1]] == t
            if stack:
                stack.pop()
            if i >= first_new:
                score += 1.0 if ok else -1.0
    return score / n_new


def keep_fraction(cfg, rnd):
    t = rnd / max(1, cfg.rounds - 1)
    return cfg.keep_start + (cfg.keep_end - cfg.keep_start) * t


def build(cfg, device):
    config = GPT2Config(
        vocab_size=len(VOCAB), n_positions=32, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=BOS, eos_token_id=None, pad_token_id=PAD,
    )
    return GPT2LMHeadModel(config).to(device)


@torch.no_grad()
def rollout(model, cfg, ids, mask):
    model.eval()
    return model.generate(
        input_ids=ids, attention_mask=mask, do_sample=True, temperature=cfg.temperature, top_k=0,
        max_new_tokens=cfg.new_tokens, pad_token_id=PAD,
    )


def sft_loss(model, seqs, mask, n_new):
    logits = model(input_ids=seqs, attention_mask=mask, use_cache=False).logits[:, -n_new - 1:-1]
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), seqs[:, -n_new:].reshape(-1))


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = build(cfg, device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    prefixes = Prefixes(cfg)
    xm.mark_step()

    avg = None
    for rnd in range(cfg.rounds):
        ids, mask = (t.to(device) for t in left_pad(prefixes.batch()))
        seqs = rollout(model, cfg, ids, mask)
        xm.mark_step()

        scores = torch.tensor([reward(s, cfg.new_tokens) for s in seqs.cpu().tolist()])
        k = max(1, round(keep_fraction(cfg, rnd) * cfg.prompts))
        best = scores.topk(k).indices.to(device)

        model.train()
        full_mask = torch.cat([mask, torch.ones(mask.shape[0], cfg.new_tokens, dtype=mask.dtype, device=device)], 1)
        loss = sft_loss(model, seqs[best], full_mask[best], cfg.new_tokens)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()

        mean = scores.mean().item()
        avg = mean if avg is None else 0.8 * avg + 0.2 * mean
        if rnd % 5 == 4:
            print(f"round {rnd + 1:2d}  kept {k:2d}  loss {loss.item():.4f}  reward {mean:+.3f} (avg {avg:+.3f})")


if __name__ == "__main__":
    main()
