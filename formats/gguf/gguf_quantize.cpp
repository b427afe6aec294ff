// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_quantize.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/internal/gguf_encoders.hpp"

#include "core/assert.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <string>
#include <utility>

namespace weft::formats {
namespace {

/// The default floating-point mode, subnormals kept, until its end.
class DefaultMode {
 public:
  DefaultMode() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultMode() { std::fesetenv(&before_); }
  DefaultMode(const DefaultMode&) = delete;
  DefaultMode& operator=(const DefaultMode&) = delete;

 private:
  std::fenv_t before_{};
};

const gguf::Encoder* find_encoder(std::string_view type) {
  for (const auto encoders : {gguf::plain_encoders(), gguf::k_encoders()})
    for (const gguf::Encoder& encoder : encoders)
      if (encoder.type == type) return &encoder;
  return nullptr;
}

Failure not_made(std::string_view type) {
  return fail(
      Errc::unsupported, "type " + in_quotes(type) + " is not made; those that are: " + [] {
        std::string names;
        for (const std::string_view name : quantized_types()) names += (names.empty() ? "" : ", ") + std::string(name);
        return names;
      }());
}

}  // namespace

std::vector<std::string_view> quantized_types() {
  std::vector<std::string_view> types;
  for (const GgufType& type : gguf_types())
    if (find_encoder(type.name)) types.push_back(type.name);
  return types;
}

Status quantize(std::string_view type, std::span<const float> values, std::span<std::byte> blocks) {
  const gguf::Encoder* const encoder = find_encoder(type);
  if (!encoder) return not_made(type);
  const GgufType row = *find_gguf_type(type);
  const std::size_t count = values.size() / row.elements;
  WEFT_ASSERT(count * row.elements == values.size() && count * row.bytes == blocks.size(),
              "values that are no whole blocks, or bytes of another number of them");
  const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad != values.end())
    return fail(Errc::not_finite,
                "value " + std::to_string(bad - values.begin()) + " is not finite, so it has no " + std::string(type));
  const DefaultMode mode;
  for (std::size_t i = 0; i < count; ++i)
    encoder->encode(values.subspan(i * row.elements, row.elements), blocks.data() + i * row.bytes);
  return {};
}

Result<Tensor> quantized(Tensor tensor, std::string_view type) {
  if (!find_encoder(type)) return not_made(type);
  const GgufType row = *find_gguf_type(type);
  if (tensor.type != "float32" || tensor.shape.empty() || tensor.shape.back() % row.elements != 0)
    return fail(Errc::shape_mismatch, "tensor '" + printable(tensor.name) + "': " + tensor.type + " " +
                                          to_string(tensor.shape) + " has no rows of whole blocks of " +
                                          std::string(type) + ", which have " + std::to_string(row.elements) +
                                          " float32 values");
  Tensor made{tensor.name, std::string(type), tensor.shape, {}};
  made.produce = [original = std::move(tensor), row](const ByteSource::Sink& sink) -> Status {
    const std::size_t unit = row.elements * sizeof(float);
    const auto encode = [&](ByteSpan part) -> Status {
      if (part.size() % unit != 0)
        return fail(Errc::shape_mismatch, "tensor '" + printable(original.name) + "': ends within a block");
      const std::span values(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
      ByteBuffer blocks(part.size() / unit * row.bytes);
      if (Status status = quantize(row.name, values, {blocks.data(), blocks.size()}); !status)
        return fail(Error(status.error()).within("tensor '" + printable(original.name) + "'"));
      return sink(blocks);
    };
    return original.produce ? whole_units(original.produce, unit, encode) : each_part(original.bytes, unit, encode);
  };
  return made;
}

}  // namespace weft::formats
