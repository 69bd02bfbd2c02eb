#!/usr/bin/env python3
"""Tiny random drafters of every kind and what PyTorch computes for them: tests/data/drafters.

The computation is docs/drafter.md written down again in float32, without a cache: one pass for each draft over all of
its context. The folders are DeepSpec's layout (config.json, model.safetensors with weights rounded to bfloat16); one is
written as GGUF in llama.cpp's layout, too. The target is tests/data/models/llama, whose embedding and head are used
where a drafter has none; the features are random numbers of the size of a residual stream.

`goldens.json` of a folder lists the drafts; offsets point into its `goldens.bin` (little-endian float32):
`logits` is [tokens, draft vocabulary], after the sequential head. `features.bin` is [2, 150, 64], for all.
"""

import json
import pathlib
import zlib

import gguf
import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data"
OUT = ROOT / "drafters"
VOCAB, HIDDEN, FFN, RANK, POSITIONS, EPS, BASE = 283, 64, 72, 32, 150, 1e-6, 10000.0
MASK = 277
# Ten times the tolerance of the tests: no choice of a token may be closer.
MARGIN = 1e-3


def seeded(*what) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(repr(what).encode()))


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rope(x, positions):
    """x [positions, heads, dim]; pairs (i, i + dim / 2)."""
    dim = x.shape[-1]
    frequencies = BASE ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = (positions.double()[:, None] * frequencies)[:, None, :]
    cos, sin = angle.cos().float(), angle.sin().float()
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Drafter:
    def __init__(self, name, *, head, layers=1, heads=2, kv_heads=1, dim=32, block=5, own_vocabulary=None,
                 own_embedding=False, own_mask=False, confidence=None, causal=False, window=None, lookup=False):
        self.name, self.head, self.layers, self.heads, self.kv_heads, self.dim = name, head, layers, heads, kv_heads, dim
        self.block, self.causal, self.window, self.lookup = block, causal, window, lookup
        self.confidence = confidence
        rows = own_vocabulary or VOCAB
        self.d2t = None
        if own_vocabulary:
            self.d2t = torch.randperm(VOCAB, generator=seeded(name, "d2t"))[:rows].sort().values
        self.w = {}
        self.add("fc.weight", HIDDEN, 2 * HIDDEN)
        self.add_norm("hidden_norm.weight", HIDDEN)
        self.add_norm("norm.weight", HIDDEN)
        if own_embedding:
            self.add("embed_tokens.weight", VOCAB, HIDDEN, scale=0.5)
        if own_embedding or own_vocabulary:
            self.add("lm_head.weight", rows, HIDDEN)
        if own_mask:
            self.add("mask_embedding", HIDDEN, scale=0.5)
        for i in range(layers):
            at = f"layers.{i}."
            self.add_norm(at + "input_layernorm.weight", HIDDEN)
            self.add_norm(at + "post_attention_layernorm.weight", HIDDEN)
            self.add_norm(at + "self_attn.q_norm.weight", dim)
            self.add_norm(at + "self_attn.k_norm.weight", dim)
            self.add(at + "self_attn.q_proj.weight", heads * dim, HIDDEN)
            self.add(at + "self_attn.k_proj.weight", kv_heads * dim, HIDDEN)
            self.add(at + "self_attn.v_proj.weight", kv_heads * dim, HIDDEN)
            self.add(at + "self_attn.o_proj.weight", HIDDEN, heads * dim)
            self.add(at + "mlp.gate_proj.weight", FFN, HIDDEN)
            self.add(at + "mlp.up_proj.weight", FFN, HIDDEN)
            self.add(at + "mlp.down_proj.weight", HIDDEN, FFN)
        if head != "none":
            self.add("markov_head.markov_w1.weight", VOCAB, RANK, scale=1.0)
            self.add("markov_head.markov_w2.weight", rows, RANK)
        if head == "gated":
            self.add("markov_head.gate_proj.weight", RANK, HIDDEN + RANK)
            self.add("markov_head.gate_proj.bias", RANK, scale=0.3)
        if head == "rnn":
            self.add("markov_head.joint_proj.weight", 3 * RANK, 2 * RANK + HIDDEN)
            self.add("markov_head.joint_proj.bias", 3 * RANK, scale=0.3)
        if confidence:
            self.add("confidence_head.proj.weight", 1, HIDDEN + (RANK if confidence == "markov" else 0))
            self.add("confidence_head.proj.bias", 1, scale=0.3)
        if lookup:
            self.add("lookup.token_proj.weight", HIDDEN, HIDDEN)
            self.add("lookup.next_proj.weight", HIDDEN, HIDDEN)

    def add(self, name, *shape, scale=None):
        scale = scale or shape[-1] ** -0.5
        values = torch.randn(shape, generator=seeded(self.name, name)) * scale
        self.w[name] = values.bfloat16().float()

    def add_norm(self, name, n):
        self.w[name] = (1 + 0.2 * torch.randn(n, generator=seeded(self.name, name))).bfloat16().float()

    def config(self) -> dict:
        rank = 0 if self.head == "none" else RANK
        config = {
            "architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "num_hidden_layers": self.layers,
            "hidden_size": HIDDEN, "intermediate_size": FFN, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "head_dim": self.dim, "vocab_size": VOCAB, "hidden_act": "silu",
            "max_position_embeddings": 512, "rms_norm_eps": EPS, "rope_theta": BASE, "attention_bias": False,
            "layer_types": ["sliding_attention" if self.window else "full_attention"] * self.layers,
            "sliding_window": self.window, "block_size": self.block, "mask_token_id": MASK,
            "target_layer_ids": [-1, 0], "num_target_layers": 2, "num_anchors": 8, "markov_rank": rank,
            "enable_confidence_head": self.confidence is not None,
        }
        if rank:
            config["markov_head_type"] = {"markov": "vanilla"}.get(self.head, self.head)
        if self.confidence:
            config["confidence_head_with_markov"] = self.confidence == "markov"
        if self.d2t is not None:
            config["draft_vocab_size"] = len(self.d2t)
        return config | ({"is_causal": True} if self.causal else {}) | ({"lookup_slots": True} if self.lookup else {})

    def states(self, target, features, anchor, token, slots, context, proposal):
        """Normalised states [slots, HIDDEN] of the slots at anchor and on; `context`: the first position seen."""
        w = self.w
        embedding = w.get("embed_tokens.weight", target["model.embed_tokens.weight"])
        mask = w.get("mask_embedding", embedding[MASK])
        x = torch.stack([embedding[token]] + [mask] * (slots - 1))
        if self.lookup:
            for j in range(slots):
                if 1 <= j <= len(proposal):
                    x[j] = x[j] + w["lookup.token_proj.weight"] @ embedding[proposal[j - 1]]
                if j < len(proposal):
                    x[j] = x[j] + w["lookup.next_proj.weight"] @ embedding[proposal[j]]
        f = rms(torch.cat([features[0, :anchor], features[1, :anchor]], -1) @ w["fc.weight"].T, w["hidden_norm.weight"])
        positions = torch.arange(anchor + slots)
        for i in range(self.layers):
            p = {key.removeprefix(f"layers.{i}."): value for key, value in w.items() if key.startswith(f"layers.{i}.")}
            h = rms(x, p["input_layernorm.weight"])
            both = torch.cat([f, h])
            q = (h @ p["self_attn.q_proj.weight"].T).view(slots, self.heads, self.dim)
            k = (both @ p["self_attn.k_proj.weight"].T).view(-1, self.kv_heads, self.dim)
            v = (both @ p["self_attn.v_proj.weight"].T).view(-1, self.kv_heads, self.dim)
            q = rope(rms(q, p["self_attn.q_norm.weight"]), positions[anchor:])
            k = rope(rms(k, p["self_attn.k_norm.weight"]), positions)
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            seen = torch.ones(slots, anchor + slots, dtype=torch.bool)
            seen[:, :context] = False
            if self.causal:
                seen[:, anchor:] = torch.ones(slots, slots).tril().bool()
            if self.window:
                apart = positions[anchor:, None] - positions[None, :]
                seen &= (apart < self.window) | (positions[None, :] >= anchor)
            scores = torch.einsum("qhd,khd->hqk", q, k) * self.dim ** -0.5
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            x = x + torch.einsum("hqk,khd->qhd", weights, v).reshape(slots, -1) @ p["self_attn.o_proj.weight"].T
            h = rms(x, p["post_attention_layernorm.weight"])
            x = x + (F.silu(h @ p["mlp.gate_proj.weight"].T) * (h @ p["mlp.up_proj.weight"].T)) @ p["mlp.down_proj.weight"].T
        return rms(x, w["norm.weight"])

    def draft(self, target, features, tokens, count, window, proposal):
        """Tokens by argmax, logits [count, rows], confidence logits, smallest margin."""
        w = self.w
        anchor = len(tokens) - 1
        states = self.states(target, features, anchor, tokens[-1], count, max(0, anchor - window), proposal)
        if "lm_head.weight" in w:
            head = w["lm_head.weight"]
        else:
            head = target["lm_head.weight"]
        before, recurrent, margin = tokens[-1], torch.zeros(RANK), float("inf")
        out, logits, confidences = [], [], []
        for h in states:
            base = head @ h
            e = w["markov_head.markov_w1.weight"][before] if self.head != "none" else None
            if self.head == "markov":
                base = base + w["markov_head.markov_w2.weight"] @ e
            elif self.head == "gated":
                gate = torch.sigmoid(w["markov_head.gate_proj.weight"] @ torch.cat([h, e]) + w["markov_head.gate_proj.bias"])
                base = base + w["markov_head.markov_w2.weight"] @ (gate * e)
            elif self.head == "rnn":
                g, c, o = (w["markov_head.joint_proj.weight"] @ torch.cat([recurrent, e, h])
                           + w["markov_head.joint_proj.bias"]).chunk(3)
                base = base + w["markov_head.markov_w2.weight"] @ torch.tanh(o)
                recurrent = torch.sigmoid(g) * recurrent + (1 - torch.sigmoid(g)) * torch.tanh(c)
            if self.confidence:
                inputs = torch.cat([h, e]) if self.confidence == "markov" else h
                confidences.append(float(w["confidence_head.proj.weight"][0] @ inputs + w["confidence_head.proj.bias"]))
            top = base.topk(2).values
            margin = min(margin, float(top[0] - top[1]))
            row = int(base.argmax())
            before = int(self.d2t[row]) if self.d2t is not None else row
            out.append(before)
            logits.append(base.numpy())
        return out, np.stack(logits), confidences, margin

    def save_folder(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config(), indent=1) + "\n")
        tensors = {name: value.bfloat16().contiguous() for name, value in self.w.items()}
        if self.d2t is not None:
            tensors["d2t"] = self.d2t - torch.arange(len(self.d2t))
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    def save_gguf(self, path):
        """The layout that llama.cpp's converter writes, with no key of ours."""
        names = {"fc.weight": "fc.weight", "hidden_norm.weight": "enc.output_norm.weight",
                 "norm.weight": "output_norm.weight", "embed_tokens.weight": "token_embd.weight",
                 "lm_head.weight": "output.weight", "markov_head.markov_w1.weight": "markov_w1.weight",
                 "markov_head.markov_w2.weight": "markov_w2.weight", "confidence_head.proj.weight": "conf_proj.weight",
                 "confidence_head.proj.bias": "conf_proj.bias"}
        parts = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm",
                 "self_attn.k_norm": "attn_k_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
                 "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
                 "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
        for i in range(self.layers):
            names |= {f"layers.{i}.{hf}.weight": f"blk.{i}.{short}.weight" for hf, short in parts.items()}
        out = gguf.GGUFWriter(path, "dflash")
        for key, value in {"block_count": self.layers, "context_length": 512, "embedding_length": HIDDEN,
                           "feed_forward_length": FFN, "attention.head_count": self.heads,
                           "attention.head_count_kv": self.kv_heads, "attention.key_length": self.dim,
                           "attention.value_length": self.dim, "block_size": self.block}.items():
            out.add_uint32(f"dflash.{key}", value)
        out.add_float32("dflash.attention.layer_norm_rms_epsilon", EPS)
        out.add_float32("dflash.rope.freq_base", BASE)
        out.add_array("dflash.target_layers", [0, 1])
        out.add_bool("dflash.sample_from_anchor", True)
        out.add_bool("dflash.has_confidence_head", self.confidence is not None)
        out.add_uint32("tokenizer.ggml.mask_token_id", MASK)
        for name, value in self.w.items():
            out.add_tensor(names[name], value.numpy())
        if self.d2t is not None:
            out.add_tensor("d2t", self.d2t.numpy().astype(np.int64))
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()


def lookup(tokens, count):
    """What followed the longest suffix (at most 8 tokens) that stood before, at its newest place."""
    for length in range(min(8, len(tokens) - 1), 0, -1):
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length:end] == tokens[-length:]:
                out = list(tokens)
                for i in range(count):
                    out.append(out[end + i])
                return out[len(tokens):]
    return []


def sequence(name, length):
    """Random tokens with repetitions in them, the end among them."""
    g = seeded(name, length)
    tokens = torch.randint(0, 270, (length,), generator=g).tolist()
    if length > 20:
        tokens[length - 12:length] = tokens[3:15]
        tokens[length // 2:length // 2 + 4] = tokens[2:6]
    return tokens


DRAFTERS = [
    Drafter("none", head="none"),
    Drafter("markov", head="markov", layers=2, confidence="markov"),
    Drafter("gated", head="gated", own_vocabulary=101, own_embedding=True, confidence="state", heads=3, dim=16),
    Drafter("rnn", head="rnn", own_mask=True, causal=True, window=48, confidence="markov", heads=4, kv_heads=2, dim=16),
    Drafter("reduced", head="markov", own_vocabulary=90, confidence="markov", block=16),
    Drafter("lookup", head="markov", lookup=True, confidence="markov"),
]


def main():
    target = {}
    for part in sorted((ROOT / "models" / "llama" / "hf").glob("*.safetensors")):
        target |= {name: value.float() for name, value in safetensors.torch.load_file(part).items()}
    OUT.mkdir(parents=True, exist_ok=True)
    features = torch.randn(2, POSITIONS, HIDDEN, generator=seeded("features")) * torch.tensor([0.5, 2.0])[:, None, None]
    features.numpy().tofile(OUT / "features.bin")
    for drafter in DRAFTERS:
        folder = OUT / drafter.name
        drafter.save_folder(folder)
        if drafter.name == "reduced":
            drafter.save_gguf(folder / "reduced.gguf")
        drafts, values = [], []
        for length, count, window in ((141, drafter.block, 2048), (10, 3, 2048), (147, 2, 40), (1, 4, 2048)):
            for attempt in range(20):
                tokens = sequence((drafter.name, attempt), length)
                proposal = lookup(tokens, count) if drafter.lookup else []
                out, logits, confidences, margin = drafter.draft(target, features, tokens, count, window, proposal)
                if margin > MARGIN:
                    break
            assert margin > MARGIN, drafter.name
            drafts.append({"tokens": tokens, "count": count, "window": window, "proposal": proposal, "draft": out,
                           "confidences": confidences, "logits": sum(v.size for v in values)})
            values.append(logits)
        (folder / "goldens.json").write_text(json.dumps({"drafts": drafts}) + "\n")
        np.concatenate([v.ravel() for v in values]).astype("<f4").tofile(folder / "goldens.bin")
        print(drafter.name, [d["draft"] for d in drafts])


if __name__ == "__main__":
    main()
