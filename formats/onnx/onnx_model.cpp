// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx_model.hpp"

#include <algorithm>
#include <array>

namespace weft::formats {
namespace {

constexpr std::array<OnnxType, 26> kOnnxTypes{{{1, "float32", 32},      {2, "uint8", 8},
                                               {3, "int8", 8},          {4, "uint16", 16},
                                               {5, "int16", 16},        {6, "int32", 32},
                                               {7, "int64", 64},        {8, "STRING", 0},
                                               {9, "BOOL", 8},          {10, "float16", 16},
                                               {11, "float64", 64},     {12, "uint32", 32},
                                               {13, "uint64", 64},      {14, "COMPLEX64", 64},
                                               {15, "COMPLEX128", 128}, {16, "bfloat16", 16},
                                               {17, "fp8_e4m3", 8},     {18, "FLOAT8E4M3FNUZ", 8},
                                               {19, "fp8_e5m2", 8},     {20, "FLOAT8E5M2FNUZ", 8},
                                               {21, "uint4", 4},        {22, "int4", 4},
                                               {23, "fp4", 4},          {24, "FLOAT8E8M0", 8},
                                               {25, "uint2", 2},        {26, "int2", 2}}};

}  // namespace

const OnnxType* find_onnx_type(std::int64_t number) noexcept {
  const auto found =
      std::find_if(kOnnxTypes.begin(), kOnnxTypes.end(), [&](const OnnxType& type) { return type.number == number; });
  return found == kOnnxTypes.end() ? nullptr : &*found;
}
const OnnxType* find_onnx_type(std::string_view name) noexcept {
  const auto found =
      std::find_if(kOnnxTypes.begin(), kOnnxTypes.end(), [&](const OnnxType& type) { return type.name == name; });
  return found == kOnnxTypes.end() ? nullptr : &*found;
}

const OnnxValue* OnnxNode::find(std::string_view attribute) const noexcept {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

}  // namespace weft::formats
