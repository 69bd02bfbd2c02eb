// The table of lanes_test.h, written once: included by the lanes_*_test.cc files after their lanes_*.h.
#include "kernels/vector_math.inl"

namespace dspark {
namespace {

template <class T>
inline const T* as(const uint8_t* p) {
  return reinterpret_cast<const T*>(p);
}
inline F32 floats(const uint8_t* p) { return f32_load(as<float>(p)); }
inline I32 integers(const uint8_t* p) { return i32_load(as<int32_t>(p)); }
inline Wide wides(const uint8_t* p) { return wide_load(as<uint64_t>(p)); }
inline void put(LaneOutput* out, F32 x) { f32_store(reinterpret_cast<float*>(out->x), x); }
inline void put(LaneOutput* out, I32 x) { i32_store(reinterpret_cast<int32_t*>(out->x), x); }
inline void put(LaneOutput* out, Wide x) { put(out, interleave_low(x, high_half(x))); }
inline void put(LaneOutput* out, Codes x) { codes_store(out->x, x); }
inline void put(LaneOutput* out, uint32_t x) { *reinterpret_cast<uint32_t*>(out->x) = x; }

template <auto kFn>
void float_2(const LaneInput& in, LaneOutput* out) {
  put(out, kFn(floats(in.a), floats(in.b)));
}
template <auto kFn>
void integer_2(const LaneInput& in, LaneOutput* out) {
  put(out, kFn(integers(in.a), integers(in.b)));
}
template <auto kFn>
void wide_2(const LaneInput& in, LaneOutput* out) {
  put(out, kFn(wides(in.a), wides(in.b)));
}
template <int kShift>
void integer_shifts(const LaneInput& in, LaneOutput* out) {
  put(out, shift_left<kShift>(integers(in.a)));
  i32_store(reinterpret_cast<int32_t*>(out->y), shift_right<kShift>(integers(in.a)));
}
template <int kShift>
void code_shifts(const LaneInput& in, LaneOutput* out) {
  put(out, shift_left<kShift>(codes_load(in.a)));
  codes_store(out->y, shift_right<kShift>(codes_load(in.a)));
}
// Every int8, and every int16, from random bytes.
inline I32 bytes(const uint8_t* p) { return to_i32(i8_load(as<int8_t>(p))); }
inline I32 words(const LaneInput& in) { return shift_left<8>(bytes(in.a)) + u8_load(in.b); }

constexpr LaneOp kOps[] = {
    {"f32_set", true, [](const LaneInput& in, LaneOutput* out) { put(out, f32_set(*as<float>(in.a))); }},
    {"f32_zero", true, [](const LaneInput&, LaneOutput* out) { put(out, f32_zero()); }},
    {"float +", true, float_2<[](F32 x, F32 y) { return x + y; }>},
    {"float -", true, float_2<[](F32 x, F32 y) { return x - y; }>},
    {"float *", true, float_2<[](F32 x, F32 y) { return x * y; }>},
    {"float /", true, float_2<[](F32 x, F32 y) { return x / y; }>},
    {"fma", true,
     [](const LaneInput& in, LaneOutput* out) { put(out, fma(floats(in.a), floats(in.b), floats(in.c))); }},
    {"exp", true, [](const LaneInput& in, LaneOutput* out) { put(out, exp(floats(in.a))); }},
    {"exp_to_1", true,
     [](const LaneInput& in, LaneOutput* out) { put(out, exp_to_1(f32_zero() - abs(floats(in.a)))); }},
    {"min", false, float_2<[](F32 x, F32 y) { return min(x, y); }>},
    {"max", false, float_2<[](F32 x, F32 y) { return max(x, y); }>},
    {"abs", false, [](const LaneInput& in, LaneOutput* out) { put(out, abs(floats(in.a))); }},
    {"float less", false, float_2<[](F32 x, F32 y) { return bits(less(x, y)); }>},
    {"is_nan", false, [](const LaneInput& in, LaneOutput* out) { put(out, bits(is_nan(floats(in.a)))); }},
    {"equal", false, integer_2<[](I32 x, I32 y) { return bits(equal(x, y)); }>},
    {"integer less", false, integer_2<[](I32 x, I32 y) { return bits(less(x, y)); }>},
    {"any", false, integer_2<[](I32 x, I32 y) { return any(less(x & i32_set(3), y & i32_set(1))) ? 1u : 0u; }>},
    {"float select", false,
     [](const LaneInput& in, LaneOutput* out) {
       put(out, select(less(floats(in.a), floats(in.b)), floats(in.b), floats(in.c)));
     }},
    {"integer select", false,
     [](const LaneInput& in, LaneOutput* out) {
       put(out, select(less(integers(in.a), integers(in.b)), integers(in.b), integers(in.c)));
     }},
    {"zero_if", false, float_2<[](F32 x, F32 y) { return zero_if(less(x, y), x); }>},
    {"i32_set", false, [](const LaneInput& in, LaneOutput* out) { put(out, i32_set(*as<int32_t>(in.a))); }},
    {"integer +", false, integer_2<[](I32 x, I32 y) { return x + y; }>},
    {"integer -", false, integer_2<[](I32 x, I32 y) { return x - y; }>},
    {"integer &", false, integer_2<[](I32 x, I32 y) { return x & y; }>},
    {"integer ^", false, integer_2<[](I32 x, I32 y) { return x ^ y; }>},
    {"integer shifts by 1", false, integer_shifts<1>},
    {"integer shifts by 23", false, integer_shifts<23>},
    {"integer shifts by 31", false, integer_shifts<31>},
    {"to_f32", true, [](const LaneInput& in, LaneOutput* out) { put(out, to_f32(integers(in.a))); }},
    {"to_i32", false, [](const LaneInput& in, LaneOutput* out) { put(out, to_i32(floats(in.a))); }},
    {"as_f32", false, [](const LaneInput& in, LaneOutput* out) { put(out, as_f32(integers(in.a))); }},
    {"as_i32", false, [](const LaneInput& in, LaneOutput* out) { put(out, as_i32(floats(in.a))); }},
    {"wide_set", false,
     [](const LaneInput& in, LaneOutput* out) {
       put(out, interleave_low(wide_set(*as<uint64_t>(in.a)), wides(in.b)));
     }},
    {"wide ^", false, wide_2<[](Wide x, Wide y) { return x ^ y; }>},
    {"multiply_low", false, wide_2<[](Wide x, Wide y) { return multiply_low(x, y); }>},
    {"high_half", false, wide_2<[](Wide x, Wide y) { return high_half(x) ^ y; }>},
    {"interleave_low", false,
     [](const LaneInput& in, LaneOutput* out) { put(out, interleave_low(wides(in.a), wides(in.b))); }},
    {"f16_load", false, [](const LaneInput& in, LaneOutput* out) { put(out, f16_load(as<uint16_t>(in.a))); }},
    {"f16_store", false,
     [](const LaneInput& in, LaneOutput* out) { f16_store(reinterpret_cast<uint16_t*>(out->x), floats(in.a)); }},
    {"bf16_load", false, [](const LaneInput& in, LaneOutput* out) { put(out, bf16_load(as<uint16_t>(in.a))); }},
    {"i8_load", false, [](const LaneInput& in, LaneOutput* out) { put(out, i8_load(as<int8_t>(in.a))); }},
    {"u8_load", false, [](const LaneInput& in, LaneOutput* out) { put(out, u8_load(in.a)); }},
    {"i8_store", false,
     [](const LaneInput& in, LaneOutput* out) {
       i8_store(reinterpret_cast<int8_t*>(out->x), bytes(in.a), bytes(in.b), reinterpret_cast<int32_t*>(out->y));
     }},
    {"i16_store_0213", false,
     [](const LaneInput& in, LaneOutput* out) { i16_store_0213(reinterpret_cast<int16_t*>(out->x), words(in)); }},
    {"lanes_max of integers", false,
     [](const LaneInput& in, LaneOutput* out) {
       *reinterpret_cast<int32_t*>(out->x) = lanes_max(max(integers(in.a), integers(in.b)));
     }},
    {"lanes_max", false,
     [](const LaneInput& in, LaneOutput* out) { *reinterpret_cast<float*>(out->x) = lanes_max(floats(in.a)); }},
    {"lanes_sum", true,
     [](const LaneInput& in, LaneOutput* out) { *reinterpret_cast<float*>(out->x) = lanes_sum(floats(in.a)); }},
    {"codes &", false, [](const LaneInput& in, LaneOutput* out) { put(out, codes_load(in.a) & codes_load(in.b)); }},
    {"codes |", false, [](const LaneInput& in, LaneOutput* out) { put(out, codes_load(in.a) | codes_load(in.b)); }},
    {"codes_set", false, [](const LaneInput& in, LaneOutput* out) { put(out, codes_set(in.a[0])); }},
    {"code shifts by 1", false, code_shifts<1>},
    {"code shifts by 4", false, code_shifts<4>},
    {"code shifts by 6", false, code_shifts<6>},
    {"codes_lookup", false,
     [](const LaneInput& in, LaneOutput* out) { put(out, codes_lookup(in.b, codes_load(in.a) & codes_set(15))); }},
};

}  // namespace
}  // namespace dspark
