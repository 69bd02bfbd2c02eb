// The loader of weights.h.
#include "model/weights.h"

#include <cstring>

#include "kernels/formats/format.h"
#include "model/row_type.h"

namespace dspark {

DType quantised_type(DType wanted, DType source, int64_t k) { return type_for_rows(wanted, k).value_or(source); }

int64_t ModelWeights::bytes() const {
  int64_t total = embedding.bytes() + (head.empty() ? 0 : head.bytes());
  for (const LayerWeights& layer : layers) {
    for (const Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down, &layer.router}) {
      if (!linear->weights.empty()) total += linear->weights.bytes();
    }
    for (const Expert& expert : layer.experts) total += expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
  }
  return total;
}

std::string WeightLoader::name_of(const TensorName& name, int layer, int expert) const {
  return fmt::format(fmt::runtime(is_gguf() ? name.gguf : name.hf), layer, expert);
}

bool WeightLoader::contains(const TensorName& name, int layer, int expert) const {
  return file_.tensors().contains(name_of(name, layer, expert));
}

PackedMatrix WeightLoader::pack(const TensorView& view, int64_t rows, int64_t k, const uint8_t* data,
                                std::span<const int32_t> order) {
  const DType type =
      options_.quantize && is_float(view.type) ? quantised_type(*options_.quantize, view.type, k) : view.type;
  if (type == view.type) return PackedMatrix::pack(pool_, arena_, type, rows, k, data, order);
  return PackedMatrix::quantise(pool_, arena_, type, rows, k, view.type, data, order);
}

Result<PackedMatrix> WeightLoader::matrix(const TensorName& name, int64_t rows, int64_t k, int layer, int expert,
                                          std::span<const int32_t> order) {
  DSPARK_TRY(const TensorView view, file_.tensors().find(name_of(name, layer, expert), {rows, k}));
  PackedMatrix out = pack(view, rows, k, view.data, order);
  file_.tensors().release(view);
  return out;
}

Result<PackedMatrix> WeightLoader::router(const TensorName& name, int64_t experts, int64_t k, int layer) {
  DSPARK_TRY(const TensorView view, file_.tensors().find(name_of(name, layer, 0), {experts, k}));
  PackedMatrix out = PackedMatrix::pack(pool_, arena_, view.type, experts, k, view.data);
  file_.tensors().release(view);
  return out;
}

Result<std::vector<PackedMatrix>> WeightLoader::stacked(const TensorName& name, int experts, int64_t rows, int64_t k,
                                                        int layer) {
  DSPARK_TRY(const TensorView view, file_.tensors().find(name_of(name, layer, 0), {experts, rows, k}));
  std::vector<PackedMatrix> out;
  for (int e = 0; e < experts; ++e) {
    out.push_back(pack(view, rows, k, view.data + e * (static_cast<int64_t>(view.bytes) / experts), {}));
  }
  file_.tensors().release(view);
  return out;
}

Result<Buffer<float>> WeightLoader::vector(const TensorName& name, int64_t n, int layer, float plus) {
  DSPARK_TRY(const TensorView view, file_.tensors().find(name_of(name, layer, 0), {n}));
  Buffer<float> out(static_cast<size_t>(n));
  if (!is_float(view.type)) {
    return make_error(ErrorCode::kUnsupported, "{}: tensor '{}' is {}, expected f32, f16 or bf16",
                      file_.tensors().path(), view.name, dtype_info(view.type).name);
  }
  format_of(view.type).dequantise(view.data, n, out.data());
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] += plus;
  return out;
}

Result<Linear> WeightLoader::linear(const TensorName& weight, const TensorName& bias, int64_t rows, int64_t k,
                                    int layer, std::span<const int32_t> order) {
  Linear out;
  DSPARK_TRY(out.weights, matrix(weight, rows, k, layer, 0, order));
  if (!contains(bias, layer)) return out;
  DSPARK_TRY(Buffer<float> in_file, vector(bias, rows, layer));
  if (order.empty()) {
    out.bias = std::move(in_file);
    return out;
  }
  out.bias.ensure(static_cast<size_t>(rows));
  for (size_t i = 0; i < order.size(); ++i) out.bias[i] = in_file[static_cast<size_t>(order[i])];
  return out;
}

}  // namespace dspark
