"""Tiny tokenizers with the pipelines of published ones: trained here on a few sentences, so that they are small, but
normalised, pre-tokenised, merged and decoded as the model families do it (sources: their tokenizer.json)."""

import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

import tokenizer_texts

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORDS = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s")
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = _WORDS.replace("%s", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + r"|\p{N}{1,3}" + _REST
TEKKEN = _WORDS.replace("%s", "") + r"|\p{N}" + _REST
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f"
    "\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943]+")
DEEPSEEK_MARKS = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK3_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


# By the names of tokenizer.ggml.pre: the pre-tokenizer's steps, and whether the family normalises to NFC.
BYTE_LEVEL = {
    "gpt-2": ([byte_level(True)], False),
    "gpt-neox": ([byte_level(True)], True),
    "smollm": ([pre_tokenizers.Digits(individual_digits=True), byte_level(True)], False),
    "command-r": ([pre_tokenizers.Digits(individual_digits=True), byte_level(True)], True),
    "llama-bpe": ([split(LLAMA3), byte_level(False)], False),
    "qwen2": ([split(QWEN2), byte_level(False)], True),
    "qwen35": ([split(QWEN35), byte_level(False)], True),
    "gpt-4o": ([split(GPT4O), byte_level(False)], False),
    "tekken": ([split(TEKKEN), byte_level(False)], False),
    "deepseek-llm": ([split("[\r\n]"), split(DEEPSEEK_LETTERS), split(DEEPSEEK_MARKS), split("\\s+$"),
                      split(DEEPSEEK_CJK), pre_tokenizers.Digits(individual_digits=True), byte_level(False)], False),
    "deepseek-coder": ([split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split(DEEPSEEK_CJK),
                        pre_tokenizers.Digits(individual_digits=True), byte_level(False)], False),
    "deepseek-v3": ([split("\\p{N}{1,3}"), split(DEEPSEEK3_CJK), split(DEEPSEEK3), byte_level(False)], False),
    "falcon": ([pre_tokenizers.Punctuation("contiguous"), byte_level(True),
                pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")], False),
    "default": ([split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]"),
                 byte_level(False)], False),
}
IGNORES_MERGES = {"llama-bpe", "tekken"}


def training_texts():
    texts = tokenizer_texts.SENTENCES + tokenizer_texts.CODE
    return texts * 3 + tokenizer_texts.mixtures(60, seed=7)


def train_byte_level(name, vocab_size=700):
    steps, nfc = BYTE_LEVEL[name]
    tokenizer = Tokenizer(models.BPE())
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train_from_iterator(training_texts(), trainer)
    if name in IGNORES_MERGES:
        # Some tokens that no merge makes any more: only a look-up of whole pieces finds them.
        import json
        data = json.loads(tokenizer.to_str())
        data["model"]["merges"] = [m for i, m in enumerate(data["model"]["merges"]) if i % 7 != 6 or i < 100]
        made = set(data["model"]["vocab"])
        data["model"]["merges"] = [m for m in data["model"]["merges"] if m[0] in made and m[1] in made]
        data["model"]["ignore_merges"] = True
        tokenizer = Tokenizer.from_str(json.dumps(data))
    if name in ("gpt-neox", "gpt-2"):  # runs of spaces as added tokens, like MPT's
        tokenizer.add_tokens([AddedToken(" " * n, normalized=False) for n in (24, 16, 8, 4, 2)])
    if name == "llama-bpe":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", pair="$A $B", special_tokens=[("<|endoftext|>", 0)])
    return tokenizer


def train_sentencepiece(model_type, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_texts()), model_writer=out, model_type=model_type, minloglevel=2,
        num_threads=1, hard_vocab_limit=False, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def sentencepiece_models():
    """SentencePiece models like Llama 2's, Gemma 3's and T5's."""
    return {
        "llama-spm": train_sentencepiece("bpe", vocab_size=1300, byte_fallback=True,
                                         normalization_rule_name="identity", remove_extra_whitespaces=False,
                                         allow_whitespace_only_pieces=True, split_digits=True, character_coverage=0.98),
        "gemma-spm": train_sentencepiece("bpe", vocab_size=1300, byte_fallback=True, add_dummy_prefix=False,
                                         normalization_rule_name="identity", remove_extra_whitespaces=False,
                                         allow_whitespace_only_pieces=True, split_digits=True, character_coverage=0.98,
                                         user_defined_symbols=["\n", "\n\n", "\u2581\u2581", "\u2581\u2581\u2581\u2581",
                                                               "\t", "<table>", "</table>"]),
        "t5-spm": train_sentencepiece("unigram", vocab_size=1300, normalization_rule_name="nmt_nfkc",
                                      character_coverage=0.98, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    }


def merges_from_scores(pieces):
    """[(text, score, is_byte)] -> vocabulary and merges, the way transformers converts SentencePiece BPE models."""
    vocab = {text: i for i, (text, _, _) in enumerate(pieces)}
    merges = []
    for text, score, is_byte in pieces:
        if is_byte:
            continue
        local = [(text[:k], text[k:]) for k in range(1, len(text)) if text[:k] in vocab and text[k:] in vocab]
        merges += [(left, right, score) for left, right in sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))]
    merges.sort(key=lambda m: m[2], reverse=True)
    return vocab, [(left, right) for left, right, _ in merges]


def merges_tokenizer(proto, prefix):
    """A tokenizer.json like Llama 2's (prefix) or Gemma 4's."""
    vocab, merges = merges_from_scores([(p.piece, p.score, p.type == 6) for p in proto.pieces])
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "\u2581")
    if prefix:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace])
    else:
        tokenizer.normalizer = replace
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocab["<s>"])])
    return tokenizer


def unigram_tokenizer(proto):
    """A tokenizer.json like T5's."""
    pieces = [(p.piece, p.score) for p in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=proto.trainer_spec.unk_id, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<pad>", "</s>", "<unk>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", proto.trainer_spec.eos_id)])
    return tokenizer


def flags_tokenizer():
    """Added tokens with every flag, some of them inside each other."""
    tokenizer = train_byte_level("gpt-2", vocab_size=400)
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_tokens([
        AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<sep>", rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=True), AddedToken("the", single_word=True),
        AddedToken("<m", normalized=False), AddedToken("ask", normalized=True), AddedToken("\uff21\uff22", normalized=True),
        AddedToken("\u00e9t", normalized=True, single_word=True)])
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("<s><s>", normalized=False)])
    return tokenizer


FLAG_TEXTS = [
    "a <mask> b", "a  <mask>  b", "a\n\t<mask><mask>", "<sep>  x", "<sep>\u3000\n y<sep>", "x <both> y", " <both>  <both> ",
    "the other the", "the", "them the.", "bathe the\u0301", "<mask", "<m ask>", "ask<mask>ask", "AB \uff21\uff22 ABC", "<s>",
    "<s><s><s>", "<s>the<s>", "\u00e9t", "e\u0301t e\u0301te", "<both>the<both>", "  <mask>the", "<m<mask>",
]
