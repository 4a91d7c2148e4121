"""One frozen GPT-2 style base, one LoRA adapter per tenant, requests of the tenants interleaved."""
import os
import random
from collections import defaultdict

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, SEQ, BATCH = 64, 24, 4
TENANTS = {
    "billing": LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"),
    "support": LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True,
                          task_type="CAUSAL_LM"),
    "legal": LoraConfig(r=4, lora_alpha=4, target_modules=["c_fc", "mlp.c_proj"], fan_in_fan_out=True,
                        task_type="CAUSAL_LM"),
}
EVAL_EVERY = 15


class TenantStream:
    """Each tenant speaks its own Markov chain; rows are packed to SEQ."""

    def __init__(self, seed):
        gen = torch.Generator().manual_seed(seed)
        self.gen = gen
        self.trans = torch.softmax(3.0 * torch.randn(VOCAB, VOCAB, generator=gen), -1)

    def batch(self):
        tok = torch.randint(VOCAB, (BATCH,), generator=self.gen)
        rows = [tok]
        for _ in range(SEQ - 1):
            tok = torch.multinomial(self.trans[tok], 1, generator=self.gen).squeeze(1)
            rows.append(tok)
        return torch.stack(rows, 1)


def build(device):
    cfg = GPT2Config(
        vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation="eager")
    base = GPT2LMHeadModel(cfg)
    names = list(TENANTS)
    model = get_peft_model(base, TENANTS[names[0]], adapter_name=names[0])
    for name in names[1:]:
        model.add_adapter(name, TENANTS[name])
    return model.to(device)


def adapter_params(model, name):
    return [p for n, p in model.named_parameters() if f".{name}." in n]


def main():
    seed = 77
    random.seed(seed)
    torch.manual_seed(seed)
    device = torch_xla.device()
    model = build(device)
    streams = {name: TenantStream(seed + i) for i, name in enumerate(TENANTS)}
    held_out = {name: s.batch().to(device) for name, s in streams.items()}
    optims = {}
    for name in TENANTS:
        params = adapter_params(model, name)
        optims[name] = torch.optim.AdamW(params, lr=5e-3, weight_decay=0.0, foreach=False)
        print(name, sum(p.numel() for p in params), "parameters")
    torch_xla.sync()

    queue = random.Random(seed)
    losses = defaultdict(list)
    for step in range(1, 61):
        name = queue.choices(list(TENANTS), weights=[5, 3, 2])[0]
        model.set_adapter(name)
        model.train()
        ids = streams[name].batch().to(device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optims[name].step()
        optims[name].zero_grad(set_to_none=True)
        torch_xla.sync()
        losses[name].append(loss.detach())

        if step % EVAL_EVERY == 0:
            model.eval()
            report = {}
            for tenant in TENANTS:
                model.set_adapter(tenant)
                with torch.no_grad():
                    out = model(input_ids=held_out[tenant], labels=held_out[tenant])
                xm.mark_step()
                report[tenant] = out.loss.item()
            seen = {k: len(v) for k, v in losses.items()}
            print(f"step {step:3d} " + " ".join(f"{k} {v:.3f}" for k, v in report.items()), seen)


if __name__ == "__main__":
    main()
