// Shapes, metadata, vocabulary and tensors of synthetic models (synth.h).
#include "model/synth.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "model/gguf_writer.h"
#include "model/random_blocks.h"
#include "model/row_type.h"

namespace dspark {
namespace {

constexpr float kDeviation = 0.02f;  // the usual initialisation: a product of matrix and unit vector stays near 1
constexpr size_t kChunkBytes = size_t{4} << 20;

// From the models' config.json.
constexpr SynthShape kShapes[] = {
    {.name = "smollm2-135m",
     .arch = "llama",
     .layers = 30,
     .embedding = 576,
     .heads = 9,
     .kv_heads = 3,
     .head_size = 64,
     .feed_forward = 1536,
     .vocabulary = 49152,
     .tied = true,
     .rope_base = 1e5f,
     .norm_epsilon = 1e-5f,
     .context = 8192},
    {.name = "qwen3-0.6b",
     .arch = "qwen3",
     .layers = 28,
     .embedding = 1024,
     .heads = 16,
     .kv_heads = 8,
     .head_size = 128,
     .feed_forward = 3072,
     .vocabulary = 151936,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 40960},
    {.name = "qwen3-1.7b",
     .arch = "qwen3",
     .layers = 28,
     .embedding = 2048,
     .heads = 16,
     .kv_heads = 8,
     .head_size = 128,
     .feed_forward = 6144,
     .vocabulary = 151936,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 40960},
    {.name = "qwen3-4b",
     .arch = "qwen3",
     .layers = 36,
     .embedding = 2560,
     .heads = 32,
     .kv_heads = 8,
     .head_size = 128,
     .feed_forward = 9728,
     .vocabulary = 151936,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 40960},
    {.name = "qwen3-8b",
     .arch = "qwen3",
     .layers = 36,
     .embedding = 4096,
     .heads = 32,
     .kv_heads = 8,
     .head_size = 128,
     .feed_forward = 12288,
     .vocabulary = 151936,
     .tied = false,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 40960},
    {.name = "qwen3-30b-a3b",
     .arch = "qwen3moe",
     .layers = 48,
     .embedding = 2048,
     .heads = 32,
     .kv_heads = 4,
     .head_size = 128,
     .feed_forward = 6144,
     .vocabulary = 151936,
     .tied = false,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 40960,
     .experts = 128,
     .experts_used = 8,
     .expert_feed_forward = 768},
    {.name = "llama-3-8b",
     .arch = "llama",
     .layers = 32,
     .embedding = 4096,
     .heads = 32,
     .kv_heads = 8,
     .head_size = 128,
     .feed_forward = 14336,
     .vocabulary = 128256,
     .tied = false,
     .rope_base = 5e5f,
     .norm_epsilon = 1e-5f,
     .context = 8192},
    {.name = "gemma-3-270m",
     .arch = "gemma3",
     .layers = 18,
     .embedding = 640,
     .heads = 4,
     .kv_heads = 1,
     .head_size = 256,
     .feed_forward = 2048,
     .vocabulary = 262144,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 32768,
     .sliding_window = 512},
    {.name = "gemma-3-1b",
     .arch = "gemma3",
     .layers = 26,
     .embedding = 1152,
     .heads = 4,
     .kv_heads = 1,
     .head_size = 256,
     .feed_forward = 6912,
     .vocabulary = 262144,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 32768,
     .sliding_window = 512},
    {.name = "gemma-3-4b",
     .arch = "gemma3",
     .layers = 34,
     .embedding = 2560,
     .heads = 8,
     .kv_heads = 4,
     .head_size = 256,
     .feed_forward = 10240,
     .vocabulary = 262208,
     .tied = true,
     .rope_base = 1e6f,
     .norm_epsilon = 1e-6f,
     .context = 131072,
     .sliding_window = 1024,
     .rope_linear_factor = 8.0f},
};

constexpr const char* kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

struct SynthTensor {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  bool norm;  // values around 1 instead of 0
};

bool is_gemma(const SynthShape& shape) { return std::string_view(shape.arch) == "gemma3"; }
bool has_head_norms(const SynthShape& shape) { return std::string_view(shape.arch) != "llama"; }

// The number in general.file_type (llama.cpp's llama_ftype) for a file of mostly `type`.
uint32_t file_type(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ8_0:
      return 7;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kQ2_K:
      return 10;
    case DType::kQ3_K:
      return 11;
    case DType::kQ4_K:
      return 14;
    case DType::kQ5_K:
      return 16;
    case DType::kQ6_K:
      return 18;
    case DType::kIQ4_NL:
      return 25;
    case DType::kIQ4_XS:
      return 30;
    case DType::kBF16:
      return 32;
  }
  return 0;
}

void set_hyperparameters(const SynthShape& shape, DType type, int layers, GgufWriter& writer) {
  const auto key = [&](const char* name) { return fmt::format("{}.{}", shape.arch, name); };
  const auto u32 = [&](const char* name, int value) { writer.set(key(name), static_cast<uint32_t>(value)); };
  writer.set("general.architecture", shape.arch);
  writer.set("general.type", "model");
  writer.set("general.name", fmt::format("synthetic {} {}", shape.name, dtype_info(type).name));
  writer.set("general.file_type", file_type(type));
  writer.set("general.quantization_version", uint32_t{2});
  u32("block_count", layers);
  u32("context_length", shape.context);
  u32("embedding_length", shape.embedding);
  u32("feed_forward_length", shape.feed_forward);
  u32("attention.head_count", shape.heads);
  u32("attention.head_count_kv", shape.kv_heads);
  u32("attention.key_length", shape.head_size);
  u32("attention.value_length", shape.head_size);
  u32("vocab_size", shape.vocabulary);
  writer.set(key("attention.layer_norm_rms_epsilon"), shape.norm_epsilon);
  writer.set(key("rope.freq_base"), shape.rope_base);
  u32("rope.dimension_count", shape.head_size);
  if (shape.experts > 0) {
    u32("expert_count", shape.experts);
    u32("expert_used_count", shape.experts_used);
    u32("expert_feed_forward_length", shape.expert_feed_forward);
  }
  if (shape.sliding_window > 0) u32("attention.sliding_window", shape.sliding_window);
  if (shape.rope_linear_factor > 0) {
    writer.set(key("rope.scaling.type"), "linear");
    writer.set(key("rope.scaling.factor"), shape.rope_linear_factor);
  }
}

void append_utf8_below_0x800(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else {
    out += static_cast<char>(0xC0 | code_point >> 6);
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

// GPT-2's stand-ins for the 256 bytes: printable Latin-1 characters are themselves, the others follow from U+0100.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable_byte = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    std::string text;
    append_utf8_below_0x800(text, printable_byte ? byte : next++);
    alphabet.push_back(std::move(text));
  }
  return alphabet;
}

// Bytes, pairs of lower-case letters with their merges, three control tokens, and padding.
void set_vocabulary(const SynthShape& shape, GgufWriter& writer) {
  constexpr int32_t kNormal = 1;
  constexpr int32_t kControl = 3;
  constexpr int32_t kUnused = 5;
  std::vector<std::string> tokens = byte_alphabet();
  std::vector<std::string> merges;
  const std::string space = tokens[' '];
  for (char first = 'a'; first <= 'z'; ++first) {
    for (char second = 'a'; second <= 'z'; ++second) {
      tokens.push_back({first, second});
      merges.push_back({first, ' ', second});
    }
    tokens.push_back(space + first);
    merges.push_back(fmt::format("{} {}", space, first));
  }
  const auto size = static_cast<size_t>(shape.vocabulary);
  std::vector<int32_t> types(tokens.size(), kNormal);
  const auto first_control = static_cast<uint32_t>(tokens.size());
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) tokens.emplace_back(text);
  types.resize(tokens.size(), kControl);
  DSPARK_CHECK(tokens.size() <= size, "vocabulary of {} for {}", size, shape.name);
  while (tokens.size() < size) tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
  types.resize(size, kUnused);
  writer.set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", "gpt-2");
  writer.set_array("tokenizer.ggml.tokens", tokens);
  writer.set_array("tokenizer.ggml.token_type", types);
  writer.set_array("tokenizer.ggml.merges", merges);
  writer.set("tokenizer.ggml.bos_token_id", first_control);
  writer.set("tokenizer.ggml.eos_token_id", first_control + 2);
  writer.set("tokenizer.ggml.padding_token_id", first_control);
  writer.set("tokenizer.ggml.add_bos_token", false);
  writer.set("tokenizer.chat_template", kChatTemplate);
}

// Names and shapes as llama.cpp's converter writes them, outermost dimension first.
std::vector<SynthTensor> list_tensors(const SynthShape& shape, DType type, int layers) {
  std::vector<SynthTensor> tensors;
  const auto norm = [&](std::string name, int64_t size) {
    tensors.push_back({std::move(name), DType::kF32, {size}, true});
  };
  const auto matrix = [&](std::string name, std::vector<int64_t> dimensions) {
    const DType matrix_type = synth_tensor_type(type, dimensions.back(), false);
    tensors.push_back({std::move(name), matrix_type, std::move(dimensions), false});
  };
  const int64_t d = shape.embedding;
  const int64_t q = int64_t{shape.heads} * shape.head_size;
  const int64_t kv = int64_t{shape.kv_heads} * shape.head_size;
  const int64_t ff = shape.feed_forward;
  const int64_t vocabulary = shape.vocabulary;
  tensors.push_back({"token_embd.weight", synth_tensor_type(type, d, shape.tied), {vocabulary, d}, false});
  norm("output_norm.weight", d);
  if (!shape.tied) tensors.push_back({"output.weight", synth_tensor_type(type, d, true), {vocabulary, d}, false});
  for (int i = 0; i < layers; ++i) {
    const auto name = [&](const char* part) { return fmt::format("blk.{}.{}.weight", i, part); };
    norm(name("attn_norm"), d);
    matrix(name("attn_q"), {q, d});
    matrix(name("attn_k"), {kv, d});
    matrix(name("attn_v"), {kv, d});
    matrix(name("attn_output"), {d, q});
    if (has_head_norms(shape)) {
      norm(name("attn_q_norm"), shape.head_size);
      norm(name("attn_k_norm"), shape.head_size);
    }
    norm(name("ffn_norm"), d);
    if (is_gemma(shape)) {
      norm(name("post_attention_norm"), d);
      norm(name("post_ffw_norm"), d);
    }
    if (shape.experts > 0) {
      tensors.push_back({name("ffn_gate_inp"), DType::kF32, {shape.experts, d}, false});
      matrix(name("ffn_gate_exps"), {shape.experts, shape.expert_feed_forward, d});
      matrix(name("ffn_up_exps"), {shape.experts, shape.expert_feed_forward, d});
      matrix(name("ffn_down_exps"), {shape.experts, d, shape.expert_feed_forward});
    } else {
      matrix(name("ffn_gate"), {ff, d});
      matrix(name("ffn_up"), {ff, d});
      matrix(name("ffn_down"), {d, ff});
    }
  }
  return tensors;
}

// FNV-1a: each tensor has a stream of its own, so that its values do not depend on the tensors before it.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash;
}

int64_t bytes_of(const SynthTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  return dtype_bytes(tensor.type, elements);
}

Status write_tensor(const SynthTensor& tensor, uint64_t seed, GgufWriter& writer, int64_t done, int64_t total,
                    const ReportProgress& progress) {
  RandomWords random(RandomWords(seed).next() ^ hash_name(tensor.name));
  const int64_t bytes = bytes_of(tensor);
  if (tensor.norm) {
    std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
    for (float& value : values) value = 1.0f + 0.1f * random.symmetric();
    return writer.write({reinterpret_cast<const uint8_t*>(values.data()), static_cast<size_t>(bytes)});
  }
  const auto block = static_cast<size_t>(dtype_info(tensor.type).block_bytes);
  std::vector<uint8_t> chunk;
  for (int64_t written = 0; written < bytes; written += static_cast<int64_t>(chunk.size())) {
    chunk.resize(std::min(kChunkBytes / block * block, static_cast<size_t>(bytes - written)));
    fill_random_weights(tensor.type, kDeviation, random, chunk);
    DSPARK_RETURN_IF_ERROR(writer.write(chunk));
    if (!report(progress, "writing", done + written, total)) return make_error(ErrorCode::kCancelled, "stopped");
  }
  return Ok{};
}

}  // namespace

Result<SynthShape> find_synth_shape(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SynthShape& shape : kShapes) {
    if (name == shape.name) return shape;
    names.push_back(shape.name);
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown shape {}; known: {}", quote(name), fmt::join(names, ", "));
}

DType synth_tensor_type(DType type, int64_t k, bool output) {
  if (is_float(type)) return type;
  if (output) {
    // llama-quantize keeps the output matrix at 6 bits or more.
    const bool whole = k % dtype_info(type).block_elements == 0;
    type = whole && type != DType::kQ8_0 ? DType::kQ6_K : DType::kQ8_0;
  }
  return type_for_rows(type, k).value_or(DType::kF16);
}

Status write_synthetic_model(const SynthShape& shape, DType type, int layers, uint64_t seed, const std::string& path,
                             const ReportProgress& progress) {
  if (layers < 0 || layers > shape.layers) {
    return make_error(ErrorCode::kInvalidArgument, "{} layers, expected 1 to {} for {} (0 means all)", layers,
                      shape.layers, shape.name);
  }
  if (layers == 0) layers = shape.layers;
  GgufWriter writer;
  set_hyperparameters(shape, type, layers, writer);
  set_vocabulary(shape, writer);
  const auto tensors = list_tensors(shape, type, layers);
  for (const SynthTensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.type, tensor.shape);
  DSPARK_RETURN_IF_ERROR(writer.create(path));
  const auto total = static_cast<int64_t>(writer.file_bytes());
  int64_t done = 0;
  for (const SynthTensor& tensor : tensors) {
    DSPARK_RETURN_IF_ERROR(write_tensor(tensor, seed, writer, done, total, progress));
    done += bytes_of(tensor);
  }
  return writer.finish();
}

}  // namespace dspark
