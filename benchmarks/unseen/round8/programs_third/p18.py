"""Fine-tunes a tiny BART on a reversal task with the library's own loss and scheduler."""
import logging
from dataclasses import dataclass

import torch
import torch_xla
from torch.utils.data import DataLoader, Dataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("bart")

BOS, PAD, EOS, FIRST = 0, 1, 2, 4


@dataclass
class Config:
    seed: int = 12
    vocab: int = 32
    dim: int = 16
    source_len: int = 10
    target_len: int = 8
    batch_size: int = 4
    steps: int = 20
    lr: float = 2e-2
    warmup: int = 0
    log_every: int = 5


def bart_config(cfg):
    return BartConfig(
        vocab_size=cfg.vocab, d_model=cfg.dim, max_position_embeddings=32,
        encoder_layers=3, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=2 * cfg.dim, decoder_ffn_dim=2 * cfg.dim,
        dropout=0.1, attention_dropout=0.0, activation_dropout=0.0,
        encoder_layerdrop=0.3, decoder_layerdrop=0.0,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=EOS,
        forced_eos_token_id=EOS, use_cache=False, attn_implementation="eager")


class Reversal(Dataset):
    def __init__(self, cfg):
        g = torch.Generator().manual_seed(cfg.seed)
        n = cfg.batch_size * cfg.steps
        self.length = torch.randint(3, cfg.target_len, (n,), generator=g)
        self.tokens = torch.randint(FIRST, cfg.vocab, (n, cfg.target_len), generator=g)
        self.cfg = cfg

    def __len__(self):
        return len(self.length)

    def _pad(self, ids, size):
        out = torch.full((size,), PAD)
        out[:len(ids)] = ids
        return out

    def __getitem__(self, i):
        body = self.tokens[i, :self.length[i]]
        source = torch.cat([torch.tensor([BOS]), body, torch.tensor([EOS])])
        target = torch.cat([body.flip(0), torch.tensor([EOS])])
        source = self._pad(source, self.cfg.source_len)
        target = self._pad(target, self.cfg.target_len)
        return {"input_ids": source, "attention_mask": (source != PAD).long(),
                "labels": target.masked_fill(target == PAD, -100)}


class LossWindow:
    def __init__(self):
        self.items = []

    def push(self, loss):
        self.items.append(loss.detach())

    def flush(self):
        mean = sum(v.item() for v in self.items) / len(self.items)
        self.items = []
        return mean


def build(cfg, device):
    model = BartForConditionalGeneration(bart_config(cfg)).to(device)
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    sched = get_linear_schedule_with_warmup(opt, cfg.warmup, cfg.steps * 3)
    return model, opt, sched


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model, opt, sched = build(cfg, device)
    loader = DataLoader(Reversal(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    window = LossWindow()
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model(**batch)
        opt.zero_grad()
        out.loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        window.push(out.loss)
        if (step + 1) % cfg.log_every == 0:
            log.info("step %d lr %.4f loss %.4f", step + 1, sched.get_last_lr()[0], window.flush())


if __name__ == "__main__":
    main()
