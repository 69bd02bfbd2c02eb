#!/usr/bin/env python3
"""Makes tests/data/tokenizers/: tiny tokenizers and the ids that the reference implementations give for the texts of
tokenizer_texts.py.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf gguf==0.19.0
    VENV/bin/python scripts/goldens/tokenizer_goldens.py [SmolLM2-135M-Instruct.Q4_1.gguf]

texts.json               the texts, written and random
classes.json             the code points that the reference's patterns take for letters, numbers, ...
NAME/tokenizer.json      a tokenizer with the pipeline of a published one (tokenizer_families.py)
NAME/ids.json            `ids` of each written text, `hashes` of the ids of each random one, `plain`: where they differ
                         without the normaliser, as for a GGUF file (hash, by index over all texts); `decoded`
NAME-spm/model.json      a SentencePiece model's pieces, as a GGUF file has them, and sentencepiece's own ids
smollm2-135m.json        ids by the real SmolLM2 vocabulary, if its GGUF file is given
"""

import base64
import hashlib
import json
import pathlib
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

import tokenizer_families as families
import tokenizer_texts

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data/tokenizers"


def ids_hash(ids):
    """The first 12 hexadecimal digits of the SHA-256 of the ids in decimal, separated by spaces."""
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:12]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def encode(tokenizer, texts):
    return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


def write_family(name, tokenizer, written, random_texts):
    (DATA / name).mkdir(parents=True, exist_ok=True)
    (DATA / name / "tokenizer.json").write_text(
        json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=True, separators=(",", ":")) + "\n")
    ids, random_ids = encode(tokenizer, written), encode(tokenizer, random_texts)
    result = {
        "ids": ids,
        "hashes": [ids_hash(i) for i in random_ids],
        "decoded": [ids_hash([d]) for d in tokenizer.decode_batch(ids, skip_special_tokens=False)],
        "with_special": tokenizer.encode(written[2]).ids,
    }
    if tokenizer.normalizer is not None and name in families.BYTE_LEVEL:
        plain = Tokenizer.from_str(tokenizer.to_str())
        plain.normalizer = None
        both = zip(encode(plain, written + random_texts), ids + random_ids)
        result["plain"] = {str(i): ids_hash(a) for i, (a, b) in enumerate(both) if a != b}
    write(DATA / name / "ids.json", result)


def write_sentencepiece(name, proto, written, random_texts):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    spec = proto.normalizer_spec
    is_bpe = proto.trainer_spec.model_type == 2
    pieces = [(p.piece.replace("\u2581", " ") if p.type == 4 else p.piece, p.score, p.type) for p in proto.pieces]
    write(DATA / name / "model.json", {
        "model": "llama" if is_bpe else "t5",
        "tokens": [p[0] for p in pieces], "scores": [p[1] for p in pieces], "types": [p[2] for p in pieces],
        "unknown": proto.trainer_spec.unk_id, "add_space_prefix": spec.add_dummy_prefix,
        "remove_extra_whitespaces": spec.remove_extra_whitespaces,
        "charsmap": base64.b64encode(spec.precompiled_charsmap).decode() if not is_bpe else "",
        "ids": [processor.encode(t) for t in written],
        "hashes": [ids_hash(processor.encode(t)) for t in random_texts],
    })


def write_classes():
    """Ranges of code points that match, as [first, length, ...] with `first` relative to the end of the one before."""
    points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    text = "".join(map(chr, points))
    classes = {}
    for pattern in (r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Lu}", r"\p{Ll}", r"\s", "(?i:'s)", "(?i:d)"):
        removed = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text)
        kept = {ord(c) for part, _ in removed for c in part}
        ranges, end = [], 0
        for c in points:
            if c in kept:
                continue
            if ranges and c == end:
                ranges[-1] += 1
            else:
                ranges += [c - end, 1]
            end = c + 1
        classes[pattern] = ranges
    write(DATA / "classes.json", classes)


def smollm2(path):
    """The reference tokenizer with the vocabulary of SmolLM2's GGUF file."""
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(families.BYTE_LEVEL["smollm"][0])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, kinds) if kind == 3])
    return tokenizer


def main():
    written, random_texts = tokenizer_texts.written(), tokenizer_texts.mixtures()
    write(DATA / "texts.json", {"written": written, "random": random_texts, "flags": families.FLAG_TEXTS})
    write_classes()
    for name in families.BYTE_LEVEL:
        write_family(name, families.train_byte_level(name), written, random_texts)
    protos = families.sentencepiece_models()
    for name, proto in protos.items():
        write_sentencepiece(name, proto, written, random_texts)
    write_family("llama-2", families.merges_tokenizer(protos["llama-spm"], prefix=True), written, random_texts)
    write_family("gemma-4", families.merges_tokenizer(protos["llama-spm"], prefix=False), written, random_texts)
    write_family("t5", families.unigram_tokenizer(protos["t5-spm"]), written, random_texts)
    write_family("flags", families.flags_tokenizer(), families.FLAG_TEXTS, random_texts)
    if len(sys.argv) > 1:
        tokenizer = smollm2(sys.argv[1])
        write(DATA / "smollm2-135m.json", {"ids": encode(tokenizer, written),
                                           "hashes": [ids_hash(i) for i in encode(tokenizer, random_texts)]})


if __name__ == "__main__":
    main()
