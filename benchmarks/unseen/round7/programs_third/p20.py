"""LoRA fine-tuning of a tiny Llama with the transformers Trainer, evaluation and early stopping."""
import random
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (EarlyStoppingCallback, LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                          TrainingArguments, set_seed)

VOCAB, PROMPT, ANSWER = 48, 10, 6
LENGTH = PROMPT + ANSWER


class CopyTask(Dataset):
    """The answer repeats the prompt from a marked position; the prompt carries no loss."""

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            prompt = [rng.randrange(3, VOCAB) for _ in range(PROMPT)]
            start = rng.randrange(0, PROMPT - ANSWER)
            answer = prompt[start:start + ANSWER - 1] + [2]
            prompt[-1] = 1
            self.rows.append(prompt + answer)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids = torch.tensor(self.rows[i])
        labels = ids.clone()
        labels[:PROMPT] = -100
        return {'input_ids': ids, 'attention_mask': torch.ones_like(ids), 'labels': labels}


def build_model():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=24, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
                         pad_token_id=0, bos_token_id=1, eos_token_id=2)
    config.use_cache = False
    base = LlamaForCausalLM(config)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=['q_proj', 'v_proj', 'down_proj'],
                      modules_to_save=['lm_head'], task_type='CAUSAL_LM')
    model = get_peft_model(base, lora)
    model.print_trainable_parameters()
    return model


class AnswerAccuracy:
    def __call__(self, pred):
        logits, labels = pred
        guess, labels = logits[:, :-1].argmax(-1), labels[:, 1:]
        kept = labels != -100
        return {'accuracy': float((guess == labels)[kept].mean())}


class Journal(TrainerCallback):
    def __init__(self):
        self.lines = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        short = {k: round(v, 4) for k, v in (logs or {}).items() if k in ('loss', 'eval_loss', 'eval_accuracy')}
        if short:
            self.lines.append((state.global_step, short))


def arguments(folder):
    return TrainingArguments(
        output_dir=folder, max_steps=24, per_device_train_batch_size=8, per_device_eval_batch_size=8,
        gradient_accumulation_steps=2, learning_rate=5e-3, warmup_steps=3, lr_scheduler_type='cosine',
        weight_decay=0.01, max_grad_norm=1.0, logging_steps=6, eval_strategy='steps', eval_steps=6,
        save_strategy='steps', save_steps=12, load_best_model_at_end=True, metric_for_best_model='eval_loss',
        save_only_model=True, eval_accumulation_steps=1,
        dataloader_drop_last=True, optim='adamw_torch', report_to=[], disable_tqdm=True, seed=4)


def main():
    set_seed(4)
    journal = Journal()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model=build_model(), args=arguments(folder), train_dataset=CopyTask(128, 1),
                          eval_dataset=CopyTask(24, 2), compute_metrics=AnswerAccuracy(),
                          callbacks=[journal, EarlyStoppingCallback(early_stopping_patience=4)])
        trainer.train()
        print('final', {k: round(v, 4) for k, v in trainer.evaluate().items() if k.startswith('eval_acc')})
    for step, line in journal.lines:
        print(step, line)


if __name__ == '__main__':
    main()
