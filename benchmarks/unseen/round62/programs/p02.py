"""One frozen decoder, one LoRA adapter per tenant, trained in turns.

Tenants pay for different adapter ranks. The scheduler hands out short slices
so that all tenants make progress on the same accelerator.
"""
import itertools
import logging
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

logging.basicConfig(level=logging.INFO, format='%(message)s')
log = logging.getLogger('tenants')

VOCAB = 96
SEQ = 24
BATCH = 4
SLICE = 3
ROUNDS = 6
SEED = 5

TENANTS = {
    'clinic': dict(r=2, lora_alpha=4, target_modules=['q_proj', 'v_proj']),
    'bakery': dict(r=4, lora_alpha=8, target_modules=['q_proj', 'v_proj']),
    'law': dict(r=8, lora_alpha=16,
                target_modules=['q_proj', 'k_proj', 'v_proj', 'o_proj']),
}


class TenantCorpus:
    """Order-1 Markov text with a tenant specific transition table."""

    def __init__(self, name):
        self.rng = np.random.default_rng(abs(sum(map(ord, name))))
        logits = self.rng.normal(size=(VOCAB, VOCAB)) * 2.5
        p = np.exp(logits - logits.max(1, keepdims=True))
        self.table = p / p.sum(1, keepdims=True)

    def batch(self):
        out = np.empty((BATCH, SEQ), np.int64)
        out[:, 0] = self.rng.integers(0, VOCAB, BATCH)
        for t in range(1, SEQ):
            for b in range(BATCH):
                out[b, t] = self.rng.choice(VOCAB, p=self.table[out[b, t - 1]])
        return torch.from_numpy(out)


def build_model():
    cfg = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
    )
    base = LlamaForCausalLM(cfg)
    names = list(TENANTS)
    model = get_peft_model(base, LoraConfig(task_type='CAUSAL_LM',
                                            **TENANTS[names[0]]),
                           adapter_name=names[0])
    for name in names[1:]:
        model.add_adapter(name, LoraConfig(task_type='CAUSAL_LM',
                                           **TENANTS[name]))
    return model


def adapter_parameters(model, name):
    return [p for n, p in model.named_parameters() if f'.{name}.' in n]


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()

    model = build_model().to(device)
    model.train()
    corpora = {name: TenantCorpus(name) for name in TENANTS}
    optimizers = {}
    for name in TENANTS:
        optimizers[name] = torch.optim.AdamW(adapter_parameters(model, name),
                                             lr=5e-3, weight_decay=0.01)
    torch_xla.sync()

    losses = {name: [] for name in TENANTS}
    step = 0
    for rnd in range(ROUNDS):
        for name in TENANTS:
            model.set_adapter(name)
            opt = optimizers[name]
            for _ in range(SLICE):
                ids = corpora[name].batch().to(device)
                mask = torch.ones_like(ids)
                out = model(input_ids=ids, attention_mask=mask, labels=ids)
                out.loss.backward()
                torch.nn.utils.clip_grad_norm_(adapter_parameters(model, name), 1.0)
                opt.step()
                opt.zero_grad(set_to_none=True)
                torch_xla.sync()
                losses[name].append(out.loss.detach())
                step += 1
        report = ', '.join(f'{n} {torch.stack(v[-SLICE:]).mean().item():.3f}'
                           for n, v in losses.items())
        log.info('round %d (step %d): %s', rnd, step, report)

    sizes = {n: sum(p.numel() for p in adapter_parameters(model, n))
             for n in itertools.islice(TENANTS, len(TENANTS))}
    log.info('trainable parameters per tenant: %s', sizes)


if __name__ == '__main__':
    main()
