#!/usr/bin/env python3
"""Loss and gradients of tiny drafters as PyTorch computes them: tests/data/training.

The drafter is that of drafters.py, with smaller sizes; the loss is docs/training.md written down again: teacher-forced
blocks at two anchors of one sequence, whose gradients autograd finds. `NAME.json` describes the batch; `NAME.bin` has
the embedding, the target's head, the features, and of each tensor its values and its gradient, as little-endian floats.
"""

import json
import math
import pathlib

import drafters
import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "training"
drafters.VOCAB, drafters.HIDDEN, drafters.FFN, drafters.RANK, drafters.MASK = 40, 16, 24, 6, 0
POSITIONS, TOP = 12, 5
LOSS = {"cross_entropy": 0.1, "l1": 0.9, "soft": 0.3, "confidence": 0.7, "decay": 4.0}
BLOCKS = [{"anchor": 6, "slots": 4, "context": 0}, {"anchor": 9, "slots": 3, "context": 4}]

NAMES = {"fc.weight": "fc.weight", "hidden_norm.weight": "enc.output_norm.weight", "norm.weight": "output_norm.weight",
         "mask_embedding": "mask_embd.weight", "lm_head.weight": "output.weight",
         "markov_head.markov_w1.weight": "markov_w1.weight", "markov_head.markov_w2.weight": "markov_w2.weight",
         "markov_head.gate_proj.weight": "gate_proj.weight", "markov_head.gate_proj.bias": "gate_proj.bias",
         "markov_head.joint_proj.weight": "joint_proj.weight", "markov_head.joint_proj.bias": "joint_proj.bias",
         "confidence_head.proj.weight": "conf_proj.weight", "confidence_head.proj.bias": "conf_proj.bias",
         "lookup.token_proj.weight": "lookup_token.weight", "lookup.next_proj.weight": "lookup_next.weight"}
PARTS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
for layer in range(2):
    NAMES |= {f"layers.{layer}.{hf}.weight": f"blk.{layer}.{short}.weight" for hf, short in PARTS.items()}


def prediction(drafter, target, state, previous, recurrent):
    """Logits, the confidence's logit and the next recurrent state of one slot."""
    w = drafter.w
    logits = w.get("lm_head.weight", target["lm_head.weight"]) @ state
    token = w["markov_head.markov_w1.weight"][previous]
    latent = token
    if drafter.head == "gated":
        gate = w["markov_head.gate_proj.weight"] @ torch.cat([state, token]) + w["markov_head.gate_proj.bias"]
        latent = torch.sigmoid(gate) * token
    elif drafter.head == "rnn":
        joint = w["markov_head.joint_proj.weight"] @ torch.cat([recurrent, token, state])
        gate, candidate, output = (joint + w["markov_head.joint_proj.bias"]).chunk(3)
        latent = torch.tanh(output)
        recurrent = torch.sigmoid(gate) * recurrent + (1 - torch.sigmoid(gate)) * torch.tanh(candidate)
    logits = logits + w["markov_head.markov_w2.weight"] @ latent
    confidence = w["confidence_head.proj.weight"][0] @ torch.cat([state, token]) + w["confidence_head.proj.bias"][0]
    return logits, confidence, recurrent


def slot_loss(logits, confidence, label, target_rows, target_probabilities):
    p = logits.softmax(-1)
    target = torch.zeros_like(p).index_add(0, torch.tensor(target_rows), torch.tensor(target_probabilities))
    agrees = float(int(logits.argmax()) == label)
    return (LOSS["cross_entropy"] * -logits.log_softmax(-1)[label] + LOSS["l1"] * (p - target).abs().sum()
            + LOSS["soft"] * -(target * logits.log_softmax(-1)).sum()
            + LOSS["confidence"] * F.binary_cross_entropy_with_logits(confidence, torch.tensor(agrees)))


def write(drafter):
    generator = drafters.seeded(drafter.name, "batch")
    target = {"model.embed_tokens.weight": torch.randn(drafters.VOCAB, drafters.HIDDEN, generator=generator) * 0.5,
              "lm_head.weight": torch.randn(drafters.VOCAB, drafters.HIDDEN, generator=generator) * 0.5}
    features = torch.randn(2, POSITIONS, drafters.HIDDEN, generator=generator)
    for value in drafter.w.values():
        value.requires_grad_(True)
    ids = list(range(drafters.VOCAB)) if drafter.d2t is None else drafter.d2t.tolist()
    draw = lambda n: int(torch.randint(n, (), generator=generator))
    loss, weights, blocks = 0.0, 0.0, []
    for block in BLOCKS:
        anchor, slots = block["anchor"], block["slots"]
        first = draw(drafters.VOCAB)
        proposal = [draw(drafters.VOCAB) for _ in range(slots - 1)] if drafter.lookup else []
        states = drafter.states(target, features, anchor, first, slots, block["context"], proposal)
        previous, recurrent, rows = first, torch.zeros(drafters.RANK), []
        for j in range(slots):
            logits, confidence, recurrent = prediction(drafter, target, states[j], previous, recurrent)
            label = int(logits.argmax()) if j % 2 == 0 else draw(len(ids))
            top = torch.randperm(len(ids), generator=generator)[:TOP].tolist()
            share = (torch.rand(TOP, generator=generator) + 0.1).softmax(-1).mul(0.95).tolist()
            weight = math.exp(-j / LOSS["decay"])
            loss = loss + weight * slot_loss(logits, confidence, label, top, share)
            weights += weight
            rows.append({"previous": previous, "label": ids[label], "target_tokens": [ids[t] for t in top],
                         "target_probabilities": share})
            previous = ids[label]
        blocks.append(block | {"proposal": proposal, "predictions": rows})
    loss = loss / weights
    loss.backward()
    parts = [target["model.embed_tokens.weight"], target["lm_head.weight"], features.permute(1, 0, 2)]
    for value in drafter.w.values():
        parts += [value.detach(), value.grad]
    (OUT / f"{drafter.name}.bin").write_bytes(
        torch.cat([part.reshape(-1).float() for part in parts]).numpy().astype("<f4").tobytes())
    (OUT / f"{drafter.name}.json").write_text(json.dumps(
        {"head": drafter.head, "lookup": drafter.lookup, "causal": drafter.causal, "vocabulary": ids,
         "positions": POSITIONS, "loss_options": LOSS, "loss": loss.item(), "blocks": blocks,
         "tensors": [NAMES[name] for name in drafter.w]}, indent=1) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    sizes = {"layers": 2, "heads": 4, "kv_heads": 2, "dim": 8, "block": 4, "own_mask": True, "confidence": "markov"}
    for name, kind in {"markov": {"lookup": True, "own_vocabulary": 16}, "gated": {"causal": True},
                       "rnn": {"lookup": True, "own_vocabulary": 24}}.items():
        write(drafters.Drafter(f"train-{name}", head=name, **sizes, **kind))


if __name__ == "__main__":
    main()
