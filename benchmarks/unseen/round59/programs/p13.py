"""Sequence-level + word-level distillation of a tiny M2M100 teacher into a deep-encoder shallow-decoder student."""
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from transformers import M2M100Config, M2M100ForConditionalGeneration, get_inverse_sqrt_schedule

VOCAB, PAD, BOS, EOS = 120, 1, 0, 2
SRC_LEN, TGT_LEN = 16, 14


class ToyParallel(Dataset):
    """Target is the source mapped through a fixed lexicon with adjacent words swapped."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.lexicon = torch.randperm(VOCAB - 4, generator=torch.Generator().manual_seed(0)) + 4
        self.items = []
        for _ in range(n):
            length = int(torch.randint(5, TGT_LEN - 1, (1,), generator=g))
            self.items.append(torch.randint(4, VOCAB, (length,), generator=g))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        src = self.items[i]
        tgt = self.lexicon[src - 4].clone()
        even = (len(tgt) // 2) * 2
        tgt[:even] = tgt[:even].view(-1, 2).flip(1).reshape(-1)
        return src, tgt


def collate(batch):
    n = len(batch)
    src = torch.full((n, SRC_LEN), PAD)
    lab = torch.full((n, TGT_LEN), -100)
    dec = torch.full((n, TGT_LEN), PAD)
    for i, (s, t) in enumerate(batch):
        src[i, : len(s)] = s
        src[i, len(s)] = EOS
        lab[i, : len(t)] = t
        lab[i, len(t)] = EOS
        dec[i, 0] = EOS
        dec[i, 1: len(t) + 1] = t
    return {"input_ids": src, "attention_mask": (src != PAD).long(), "decoder_input_ids": dec, "labels": lab}


def build(encoder_layers, decoder_layers, d_model, layerdrop=0.0):
    config = M2M100Config(
        vocab_size=VOCAB,
        d_model=d_model,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=2 * d_model,
        decoder_ffn_dim=2 * d_model,
        max_position_embeddings=32,
        dropout=0.1,
        encoder_layerdrop=layerdrop,
        decoder_layerdrop=layerdrop,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        use_cache=False,
    )
    return M2M100ForConditionalGeneration(config)


def kd_loss(student_logits, teacher_logits, labels, temperature, hard_weight):
    keep = (labels != -100).float()
    s = F.log_softmax(student_logits / temperature, dim=-1)
    t = F.softmax(teacher_logits / temperature, dim=-1)
    soft = F.kl_div(s, t, reduction="none").sum(-1) * temperature ** 2
    soft = (soft * keep).sum() / keep.sum()
    hard = F.cross_entropy(student_logits.transpose(1, 2), labels, ignore_index=-100, label_smoothing=0.1)
    return hard_weight * hard + (1.0 - hard_weight) * soft, hard


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    torch_xla.manual_seed(21)

    loader = DataLoader(ToyParallel(64, seed=5), batch_size=8, shuffle=True, drop_last=True,
                        collate_fn=collate, generator=torch.Generator().manual_seed(1))
    teacher = build(1, 1, 24).to(device).eval().requires_grad_(False)
    student = build(4, 1, 16, layerdrop=0.2).to(device)
    student.train()

    decay = [p for _, p in student.named_parameters() if p.ndim > 1]
    no_decay = [p for _, p in student.named_parameters() if p.ndim <= 1]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 1e-4},
                           {"params": no_decay, "weight_decay": 0.0}], lr=0.1, momentum=0.9)
    sched = get_inverse_sqrt_schedule(opt, num_warmup_steps=8)
    torch_xla.sync()

    step = 0
    for epoch in range(3):
        temperature = 3.0 - 0.4 * epoch
        losses = []
        hard_weight = 0.2 + 0.1 * epoch
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            labels = batch.pop("labels")
            with torch.no_grad():
                t_logits = teacher(**batch).logits
            s_logits = student(**batch).logits
            loss, hard = kd_loss(s_logits, t_logits, labels, temperature, hard_weight)

            opt.zero_grad(set_to_none=False)
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            torch_xla.sync()
            losses.append(hard.detach())
        nll = sum(v.item() for v in losses) / len(losses)
        xm.master_print(f"epoch {epoch}  nll {nll:.3f}  T {temperature:.1f}  steps {step}")


if __name__ == "__main__":
    main()
