"""LoRA adaptation of a tiny GPT-2 (peft) with gradient accumulation and a timed evaluation."""
import logging
from dataclasses import dataclass

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("lora")


@dataclass
class Config:
    seed: int = 44
    vocab: int = 40
    dim: int = 16
    length: int = 12
    batch_size: int = 4
    micro_steps: int = 32
    accumulate: int = 2
    eval_every: int = 8
    rank: int = 2
    lr: float = 5e-2


class Progressions(Dataset):
    def __init__(self, n, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, cfg.vocab, (n, 1), generator=g)
        stride = torch.randint(1, 4, (n, 1), generator=g)
        self.ids = (start + stride * torch.arange(cfg.length)) % cfg.vocab

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i]


def build_model(cfg):
    base = GPT2LMHeadModel(GPT2Config(
        vocab_size=cfg.vocab, n_positions=cfg.length, n_embd=cfg.dim, n_layer=1, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager"))
    lora = LoraConfig(r=cfg.rank, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    return get_peft_model(base, lora)


class Accumulator:
    """Calls the optimizer once every few micro-batches."""

    def __init__(self, opt, every):
        self.opt, self.every, self.count = opt, every, 0

    def step(self):
        self.count += 1
        if self.count % self.every == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=False)


@torch.no_grad()
def evaluate(model, ids):
    model.eval()
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
    torch_xla.sync()
    model.train()
    return loss.item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = build_model(cfg).to(device)
    model.train()
    params = [p for p in model.parameters() if p.requires_grad]
    for p in params:
        p.grad = torch.zeros_like(p)
    torch_xla.sync()
    accumulator = Accumulator(torch.optim.SGD(params, lr=cfg.lr), cfg.accumulate)
    train = DataLoader(Progressions(cfg.batch_size * cfg.micro_steps, cfg, cfg.seed), batch_size=cfg.batch_size,
                       shuffle=True, drop_last=True)
    held_out = next(iter(DataLoader(Progressions(8, cfg, cfg.seed + 1), batch_size=8))).to(device)
    losses = []
    for step, ids in enumerate(train):
        ids = ids.to(device)
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        (loss / cfg.accumulate).backward()
        accumulator.step()
        torch_xla.sync()
        losses.append(loss.detach())
        if step % cfg.eval_every == 3:
            log.info("micro step %d train %.4f eval %.4f", step + 1,
                     sum(v.item() for v in losses) / len(losses), evaluate(model, held_out))
            losses = []


if __name__ == "__main__":
    main()
