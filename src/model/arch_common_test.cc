// Tests of arch_common.h: what a file may hold besides the tensors that its architecture computes.
#include "model/arch_common.h"

#include <gmock/gmock.h>

#include "model/gguf_writer.h"
#include "model/read_config.h"

namespace dspark {
namespace {

// Why the tiny llama with one more tensor is refused, "" if it is not.
std::string refusal_of(const char* extra) {
  const GgufFile source = GgufFile::open(DSPARK_TEST_DATA "/models/llama/llama.gguf").value();
  GgufWriter writer;
  for (const GgufEntry& entry : source.metadata()) writer.copy(entry);
  for (const TensorInfo& tensor : source.tensors()) {
    writer.add_tensor(tensor.name, *tensor.type, std::span(tensor.shape).first(static_cast<size_t>(tensor.rank)));
  }
  const int64_t shape[] = {64};
  writer.add_tensor(extra, DType::kF32, shape);
  const std::string path = testing::TempDir() + "dspark_weights.gguf";
  EXPECT_TRUE(writer.create(path).ok());
  for (const TensorInfo& tensor : source.tensors()) {
    EXPECT_TRUE(writer.write({tensor.data, tensor.bytes}).ok());
  }
  EXPECT_TRUE(writer.write(std::vector<uint8_t>(64 * 4)).ok());
  EXPECT_TRUE(writer.finish().ok());
  const ModelFile file = ModelFile::open(path).value();
  const auto config = read_model_config(file);
  return config.ok() ? "" : config.error().message;
}

TEST(OtherTensors, AreRefused) {
  for (const char* name :
       {"blk.0.ffn_up.bias", "output.bias", "blk.1.attn_sinks.weight", "blk.0.attn_q_norm.weight",
        "blk.0.ffn_gate_exps.weight", "blk.2.attn_q.bias", "blk.00.attn_q.bias", "blk.attn_q.bias",
        "blk.-1.attn_q.bias", "blk.99999999999.attn_q.bias", "blk.0.1.attn_q.bias", "blk.{}.attn_q.bias", ".", "x"}) {
    EXPECT_THAT(refusal_of(name), testing::HasSubstr(fmt::format("has a tensor '{}', which this build", name)));
  }
  EXPECT_EQ(refusal_of("blk.0.attn_output.bias"), "");  // computed
}

}  // namespace
}  // namespace dspark
