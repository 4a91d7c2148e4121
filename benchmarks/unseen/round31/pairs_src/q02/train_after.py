"""DPO on preference pairs with LoRA adapters; the frozen base model is the reference."""
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB = 96
MAX_LEN = 24
PAD = 0


class Preferences(Dataset):
    def __init__(self, n, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.rows = [self._row() for _ in range(n)]

    def _row(self):
        n_prompt = int(torch.randint(4, 9, (1,), generator=self.g))
        prompt = torch.randint(2, VOCAB, (n_prompt,), generator=self.g)
        return prompt, self._answer(even=True), self._answer(even=False)

    def _answer(self, even):
        n = int(torch.randint(5, 14, (1,), generator=self.g))
        return torch.randint(1, VOCAB // 2, (n,), generator=self.g) * 2 + (0 if even else 1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids, n_prompt, n_total = [], [], []
    for which in (1, 2):
        for row in rows:
            seq = torch.cat([row[0], row[which].clamp(max=VOCAB - 1)])[:MAX_LEN]
            ids.append(F.pad(seq, (0, MAX_LEN - len(seq)), value=PAD))
            n_prompt.append(len(row[0]))
            n_total.append(len(seq))
    return torch.stack(ids), torch.tensor(n_prompt), torch.tensor(n_total)


def token_logps(logits, labels):
    logits = logits.float()
    picked = torch.gather(logits, 2, labels[..., None]).squeeze(-1)
    return picked - torch.logsumexp(logits, dim=-1)


def response_logps(model, ids, n_prompt, n_total):
    attn = (torch.arange(ids.size(1), device=ids.device)[None] < n_total[:, None]).long()
    logits = model(input_ids=ids, attention_mask=attn, use_cache=False).logits[:, :-1]
    labels, mask = ids[:, 1:], attn[:, 1:]
    pos = torch.arange(labels.size(1), device=ids.device)[None]
    mask = mask * (pos >= n_prompt[:, None])
    return (token_logps(logits, labels) * mask).sum(-1)


def dpo_loss(policy, reference, beta):
    pc, pr = policy.chunk(2)
    rc, rr = reference.chunk(2)
    chosen, rejected = beta * (pc - rc), beta * (pr - rr)
    loss = -F.logsigmoid(chosen - rejected).mean()
    return loss, (chosen > rejected).float().mean()


def build():
    cfg = LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                      attn_implementation="eager")
    base = LlamaForCausalLM(cfg)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
    return get_peft_model(base, lora)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build().to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=2e-3, betas=(0.9, 0.95), weight_decay=0.0)
    loader = DataLoader(Preferences(24), batch_size=4, collate_fn=collate)
    torch_xla.sync()
    for step, batch in enumerate(loader):
        ids, n_prompt, n_total = (t.to(device) for t in batch)
        with torch.no_grad(), model.disable_adapter():
            reference = response_logps(model, ids, n_prompt, n_total)
        policy = response_logps(model, ids, n_prompt, n_total)
        loss, acc = dpo_loss(policy, reference, beta=0.1)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        torch_xla.sync()
        xm.master_print(f"step {step} loss {loss.item():.5f} acc {acc.item():.2f}")


if __name__ == "__main__":
    main()
