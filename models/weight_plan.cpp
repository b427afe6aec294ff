// SPDX-License-Identifier: Apache-2.0

#include "models/weight_plan.hpp"

#include "models/carriers.hpp"
#include "models/tensor_values.hpp"

#include "kernels/weight.hpp"

#include "core/aligned_buffer.hpp"
#include "core/numeric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace weft::models {
namespace {

constexpr std::array<std::string_view, 3> kIgnoredEnds{".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
constexpr std::array<std::string_view, 3> kRopeTensors{"rope_freqs.weight", "rope_factors_long.weight",
                                                       "rope_factors_short.weight"};

/// Scale of a packed matrix.
Result<float> scale_of(const formats::TensorFile& tensors, const Origin& origin) {
  WEFT_TRY(const formats::Tensor tensor, tensors.find(origin.scale));
  float scale = 0;
  WEFT_CHECK(decode_values(tensor.type, tensor.bytes, {&scale, 1}));
  const float used = origin.is_scale_inverted ? 1 / scale : scale;
  if (!(std::isnormal(scale) && scale > 0 && std::isnormal(used)))
    return fail(Errc::corrupt, "tensor '" + origin.scale + "': " + std::to_string(scale) +
                                   "; a scale is a positive normal number, and so is 1 divided by it");
  return used;
}

class PlanMaker {
 public:
  PlanMaker(const ModelFiles& opened, const Decoder& decoder, std::shared_ptr<const LoraAdapters> adapters,
            Problems found)
      : opened_(opened), family_(*opened.family), decoder_(decoder), problems_(std::move(found)) {
    plan_.adapters = std::move(adapters);
    // Files of the inner model alone lack the prefix.
    const auto table = [&](bool has_prefix) {
      return find(tensor_name(family_, opened_.is_gguf, has_prefix, "token_embd", std::nullopt, false));
    };
    has_prefix_ = !table(true).empty() || table(false).empty();
  }

  Result<WeightPlan> make(const DecoderNetwork& network) && {
    for (const ParameterPlace& place : network.places) add(place);
    for (const formats::Tensor& tensor : opened_.tensors->tensors())
      if (!used_.contains(tensor.name) && !is_ignored(tensor.name))
        problems_.add("tensor '" + tensor.name + "' " + to_string(tensor.shape) + " belongs to no part of a " +
                      std::string(family_.name));
    if (plan_.adapters)
      for (const auto& [name, pair] : plan_.adapters->pairs())
        if (!adapted_.contains(name))
          problems_.add("adapter '" + name + "' belongs to no matrix of a " + std::string(family_.name));
    if (!problems_.empty()) return problems_.failure(Errc::corrupt, opened_.path);
    return std::move(plan_);
  }

 private:
  std::string find(const std::string& name) const { return opened_.find(name); }
  std::string name_of(std::string_view part, const std::optional<std::size_t>& block, bool is_bias) const {
    return tensor_name(family_, opened_.is_gguf, has_prefix_, part, block, is_bias);
  }

  /// The tensor of the head: of a tied model that of the embedding, or whichever there is.
  std::string head_name() {
    const std::string table = name_of("token_embd", std::nullopt, false), head = name_of("output", std::nullopt, false);
    if (!decoder_.is_tied) return head;
    const std::string found = find(table), other = find(head);
    if (!found.empty() && !other.empty() && found != other) {
      used_.insert(other);
      note_difference(found, other);
    }
    return found.empty() && !other.empty() ? head : table;
  }
  void note_difference(const std::string& table, const std::string& head) {
    const auto a = opened_.tensors->find(table), b = opened_.tensors->find(head);
    if (a && b && a->type == b->type && a->shape == b->shape &&
        std::equal(a->bytes.begin(), a->bytes.end(), b->bytes.begin(), b->bytes.end()))
      return;
    plan_.notes.push_back("the embedding is the head's matrix too: '" + head + "', which differs from '" + table +
                          "', is not used");
  }

  bool is_ignored(std::string_view name) const {
    if (opened_.is_gguf) return std::find(kRopeTensors.begin(), kRopeTensors.end(), name) != kRopeTensors.end();
    return std::any_of(kIgnoredEnds.begin(), kIgnoredEnds.end(),
                       [&](std::string_view end) { return name.ends_with(end); });
  }

  void add(const ParameterPlace& place) {
    const std::string name = place.part == "output" ? head_name() : name_of(place.part, place.block, place.is_bias);
    Origin origin;
    origin.layout = tensor_layout(family_, opened_.is_gguf, place);
    const bool is_packed = place.in != 0 && place.block && has_packed_blocks();
    const Shape wanted = is_packed ? packed_shape(name, origin.layout.shape) : origin.layout.shape;
    const std::string found = find(name);
    if (found.empty()) return problems_.add("tensor '" + name + "' " + to_string(wanted) + " is not there");
    used_.insert(found);
    const auto tensor = opened_.tensors->describe(found);
    if (tensor->shape != wanted)
      return problems_.add("tensor '" + found + "': " + to_string(tensor->shape) + ", expected " + to_string(wanted));
    if (is_packed ? tensor->type != "uint8" : !has_values(tensor->type))
      return problems_.add("tensor '" + found + "': " + tensor->type +
                           (is_packed ? ", expected uint8, four codes a byte" : " is no type of weights here"));
    origin.tensor = found;
    origin.type = is_packed ? std::string(kPackedTernary) : tensor->type;
    if (is_packed && !add_scale(found, found + "_scale", origin)) return;
    if (!is_packed && !add_factor(found, place, origin)) return;
    add_adapter(place, origin);
    plan_.origins.emplace(std::pair(place.z, place.parameter), std::move(origin));
  }

  /// The adapter of a matrix, by the name that it has in a folder of Hugging Face.
  void add_adapter(const ParameterPlace& place, Origin& origin) {
    if (!plan_.adapters || place.in == 0) return;
    for (const bool has_prefix : {true, false}) {
      const std::string name = tensor_name(family_, false, has_prefix, place.part, place.block, false);
      const auto found = plan_.adapters->pairs().find(name);
      if (found == plan_.adapters->pairs().end()) continue;
      adapted_.insert(name);
      if (found->second.in != place.in || found->second.out != place.rows)
        return problems_.add("adapter '" + name + "': of a matrix [" + std::to_string(found->second.out) + ", " +
                             std::to_string(found->second.in) + "], expected [" + std::to_string(place.rows) + ", " +
                             std::to_string(place.in) + "]");
      origin.adapter = name;
      origin.adapter_row = place.first_row;
      return;
    }
  }
  bool has_packed_blocks() const noexcept {
    return decoder_.ternary == TernaryBlocks::packed || decoder_.ternary == TernaryBlocks::packed_inverse;
  }
  Shape packed_shape(const std::string& name, const Shape& shape) {
    if (shape[0] % 4 != 0)
      problems_.add("tensor '" + name + "': " + std::to_string(shape[0]) +
                    " rows; packed four to a byte they are a multiple of 4");
    return {shape[0] / 4, shape[1]};
  }
  /// The tensor beside a packed one that has its scale.
  bool add_scale(const std::string& name, const std::string& scale, Origin& origin) {
    origin.scale = scale;
    origin.is_scale_inverted = decoder_.ternary == TernaryBlocks::packed_inverse;
    const auto tensor = opened_.tensors->describe(origin.scale);
    used_.insert(origin.scale);
    if (tensor && tensor->shape == Shape{1} && has_values(tensor->type)) {
      const auto scale = scale_of(*opened_.tensors, origin);  // before any weight is read: no option allows others
      if (!scale) problems_.add(scale.error().text());
      return scale.has_value();
    }
    problems_.add("tensor '" + origin.scale +
                  "': " + (tensor ? tensor->type + " " + to_string(tensor->shape) : std::string("is not there")) +
                  ", expected one number, the scale of '" + name + "'");
    return false;
  }

  /// Of GGUF: the tensor that a matrix' products are multiplied with, where it is there and not 1.
  bool add_factor(const std::string& name, const ParameterPlace& place, Origin& origin) {
    const std::string factor = name.substr(0, name.rfind('.') + 1) + "scale";
    if (!opened_.is_gguf || place.in == 0 || !opened_.tensors->contains(factor)) return true;
    if (!add_scale(name, factor, origin)) return false;
    if (*scale_of(*opened_.tensors, origin) == 1) origin.scale.clear();
    return true;
  }

  const ModelFiles& opened_;
  const Family& family_;
  const Decoder& decoder_;
  bool has_prefix_ = true;
  WeightPlan plan_;
  std::set<std::string, std::less<>> used_, adapted_;
  Problems problems_;
};

/// Values of parameters, from one tensor at a time.
class ParameterReader {
 public:
  ParameterReader(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan, bool allows_nonfinite)
      : tensors_(std::move(tensors)), plan_(std::move(plan)), allows_nonfinite_(allows_nonfinite) {}

  Status read(const mesh::ParameterRows& wanted) {
    const auto found = plan_.origins.find(std::pair(wanted.node.at.z, wanted.spec.name));
    if (found == plan_.origins.end())
      return fail(Errc::internal, wanted.node.object + ": '" + wanted.spec.name + "' has no origin");
    const Origin& origin = found->second;
    WEFT_CHECK(hold(origin));
    if (origin.type == kPackedTernary) {
      WEFT_CHECK(read_packed(origin, wanted));
    } else if (!wanted.spec.is_matrix()) {
      WEFT_CHECK(read_vector(origin, wanted));
    } else if (origin.layout.is_transposed) {
      WEFT_CHECK(read_columns(origin, wanted));
    } else {
      WEFT_CHECK(read_rows(origin, wanted));
    }
    if (!origin.scale.empty() && origin.type != kPackedTernary) {
      WEFT_TRY(const float factor, scale_of(*tensors_, origin));
      for (float& value : wanted.values) value *= factor;
    }
    if (origin.layout.added != 0)
      for (float& value : wanted.values) value += origin.layout.added;
    if (!allows_nonfinite_) WEFT_CHECK(check_finite(origin, wanted));
    return origin.adapter.empty() ? Status() : add_adapter(origin, wanted);
  }

  bool has_codes(const mesh::Node& node, const mesh::ParameterSpec& spec) const {
    const auto found = plan_.origins.find(std::pair(node.at.z, spec.name));
    if (found == plan_.origins.end()) return false;
    const auto carried = carried_encoding(found->second);
    if (!carried) return false;
    const Encoding wanted = node.encoding_of(spec);
    // Scales of binary16 are floats too.
    return wanted == *carried || (carried->granularity == Granularity::block32_f16 &&
                                  wanted == Encoding(carried->dtype, Granularity::block32));
  }

  Status read_codes(const mesh::ParameterCodes& wanted) {
    const Origin& origin = plan_.origins.at(std::pair(wanted.node.at.z, wanted.spec.name));
    WEFT_CHECK(hold(origin));
    const std::size_t in = wanted.spec.in, groups = (in + kScaleBlock - 1) / kScaleBlock;
    const Encoding encoding = wanted.node.encoding_of(wanted.spec);
    const bool has_zeros = has_zero_point(encoding.dtype);
    std::vector<std::uint8_t> codes(in), zero_points(has_zeros ? groups : 0);
    std::vector<float> scales(groups);
    std::fill(wanted.to.codes.begin(), wanted.to.codes.end(), std::byte{0});
    const bool has_factor = !origin.scale.empty() && origin.type != kPackedTernary;
    float factor = 1;
    if (has_factor) {
      WEFT_TRY(factor, scale_of(*tensors_, origin));
    }
    for (std::size_t i = 0; i < wanted.rows; ++i) {
      const std::size_t row = origin.layout.row_of(wanted.spec.out, wanted.first + i);
      if (auto read = read_code_row(origin, row, {codes, scales, zero_points}); !read)
        return fail(std::move(read).error().within("tensor '" + held_.name + "', row " + std::to_string(row)));
      if (has_factor) WEFT_CHECK(multiply(scales, factor));
      pack_codes(codes, bits(encoding.dtype), i * in, wanted.to.codes);
      if (encoding.granularity == Granularity::tensor) continue;
      put_scales(encoding, scales, wanted.to.scales.subspan(i * groups * kernels::scale_bytes(encoding)));
      if (has_zeros) std::memcpy(wanted.to.zero_points.data() + i * groups, zero_points.data(), groups);
    }
    if (encoding.granularity != Granularity::tensor) return tensors_->intact();
    WEFT_TRY(const float scale, scale_of(*tensors_, origin));
    std::memcpy(wanted.to.scales.data(), &scale, sizeof scale);
    return tensors_->intact();
  }

 private:
  /// Scales are normal numbers.
  Status multiply(std::span<float> scales, float factor) const {
    for (float& scale : scales) {
      scale = std::max(scale * factor, std::numeric_limits<float>::min());
      if (!std::isfinite(scale)) return fail(Errc::not_finite, "tensor '" + held_.name + "': a scale is infinite");
    }
    return {};
  }
  Status check_finite(const Origin& origin, const mesh::ParameterRows& wanted) const {
    const auto bad =
        std::find_if(wanted.values.begin(), wanted.values.end(), [](float v) { return !std::isfinite(v); });
    if (bad == wanted.values.end()) return {};
    const std::size_t in = std::max<std::size_t>(wanted.spec.in, 1), columns = origin.layout.shape.back(),
                      i = static_cast<std::size_t>(bad - wanted.values.begin()),
                      row = origin.layout.row_of(wanted.spec.out, wanted.first + i / in);
    return fail(Errc::not_finite,
                "tensor '" + held_.name + "': weight " +
                    std::to_string(origin.layout.is_transposed ? i % in * columns + row : row * in + i % in) + " is " +
                    std::to_string(*bad) + "; weights must be finite");
  }
  /// A row's scales, which are binary16 numbers where the encoding has these; of blocks of zeros they are its least.
  static void put_scales(const Encoding& encoding, std::span<const float> scales, std::span<std::byte> to) {
    if (encoding.granularity != Granularity::block32_f16) {
      std::memcpy(to.data(), scales.data(), scales.size_bytes());
      return;
    }
    for (std::size_t i = 0; i < scales.size(); ++i) {
      const std::uint16_t code = std::max<std::uint16_t>(numeric::Float16::encode(scales[i]), 1);
      std::memcpy(to.data() + i * sizeof code, &code, sizeof code);
    }
  }
  /// Row `row` of what is held. Of a packed matrix without its scale.
  Status read_code_row(const Origin& origin, std::size_t row, const CodeRow& to) const {
    const std::size_t rows = held_.shape[0], bytes = held_.bytes.size() / rows;
    if (origin.type != kPackedTernary)
      return find_carrier(origin.type)->read(held_.bytes.subspan(row * bytes, bytes), to);
    for (std::size_t k = 0; k < to.codes.size(); ++k) {
      const unsigned code = std::to_integer<unsigned>(held_.bytes[row % rows * bytes + k]) >> 2 * (row / rows) & 3;
      if (code == 3)
        return fail(Errc::corrupt,
                    "column " + std::to_string(k) + ": the code 3 stands for nothing; expected 0, 1 or 2");
      to.codes[k] = static_cast<std::uint8_t>((code - 1) & 3);
    }
    return {};
  }
  Status read_packed(const Origin& origin, const mesh::ParameterRows& wanted) const {
    WEFT_TRY(const float scale, scale_of(*tensors_, origin));
    const std::size_t in = wanted.spec.in;
    std::vector<std::uint8_t> codes(in);
    for (std::size_t i = 0; i < wanted.values.size() / in; ++i) {
      const std::size_t row = origin.layout.row_of(wanted.spec.out, wanted.first + i);
      if (auto read = read_code_row(origin, row, {codes, {}, {}}); !read)
        return fail(std::move(read).error().within("tensor '" + held_.name + "', row " + std::to_string(row)));
      for (std::size_t k = 0; k < in; ++k)
        wanted.values[i * in + k] = codes[k] == 0 ? 0.0f : codes[k] == 1 ? scale : -scale;
    }
    return tensors_->intact();
  }

  Status hold(const Origin& origin) {
    if (held_.name == origin.tensor) return {};
    if (!held_.name.empty()) tensors_->forget(held_.name);
    values_ = {};
    held_.name.clear();
    WEFT_TRY(held_, tensors_->find(origin.tensor));
    return {};
  }
  Status add_adapter(const Origin& origin, const mesh::ParameterRows& wanted) const {
    const LoraAdapters::Pair& pair = plan_.adapters->pairs().at(origin.adapter);
    const std::size_t in = wanted.spec.in;
    for (std::size_t i = 0; i < wanted.values.size() / in; ++i)
      WEFT_CHECK(
          plan_.adapters->add_to_row(pair, origin.adapter_row + wanted.first + i, wanted.values.subspan(i * in, in)));
    return {};
  }
  Status decode(ByteSpan bytes, std::span<float> values) const {
    auto decoded = decode_values(held_.type, bytes, values);
    if (!decoded) return fail(std::move(decoded).error().within("tensor '" + held_.name + "'"));
    return tensors_->intact();
  }
  Status read_rows(const Origin& origin, const mesh::ParameterRows& wanted) const {
    const std::size_t in = wanted.spec.in, bytes = held_.bytes.size() / origin.layout.shape[0];
    for (std::size_t i = 0; i < wanted.values.size() / in; ++i) {
      const std::size_t row = origin.layout.row_of(wanted.spec.out, wanted.first + i);
      WEFT_CHECK(decode(held_.bytes.subspan(row * bytes, bytes), wanted.values.subspan(i * in, in)));
    }
    return {};
  }
  Status read_all() {
    if (values_.size() != 0) return {};
    std::size_t count = 1;
    for (const std::size_t extent : held_.shape) count *= extent;
    values_ = AlignedBuffer<float>(count);
    return decode(held_.bytes, {values_.data(), count});
  }
  Status read_columns(const Origin& origin, const mesh::ParameterRows& wanted) {
    WEFT_CHECK(read_all());
    const std::size_t in = wanted.spec.in, columns = origin.layout.shape[1], rows = wanted.values.size() / in;
    for (std::size_t k = 0; k < in; ++k)
      for (std::size_t i = 0; i < rows; ++i)
        wanted.values[i * in + k] =
            values_.data()[k * columns + origin.layout.row_of(wanted.spec.out, wanted.first + i)];
    return {};
  }
  Status read_vector(const Origin& origin, const mesh::ParameterRows& wanted) {
    WEFT_CHECK(read_all());
    for (std::size_t i = 0; i < wanted.values.size(); ++i)
      wanted.values[i] = values_.data()[origin.layout.row_of(wanted.spec.out, wanted.first + i)];
    return {};
  }

  std::shared_ptr<const formats::TensorFile> tensors_;
  WeightPlan plan_;
  bool allows_nonfinite_ = false;
  formats::Tensor held_;
  AlignedBuffer<float> values_;  // all of the one that is held, where it is wanted as a whole
};

}  // namespace

Result<WeightPlan> plan_weights(const ModelFiles& opened, const Decoder& decoder, const DecoderNetwork& network,
                                std::shared_ptr<const LoraAdapters> adapters, Problems found) {
  return PlanMaker(opened, decoder, std::move(adapters), std::move(found)).make(network);
}

std::optional<Encoding> carried_encoding(const Origin& origin) noexcept {
  if (!origin.adapter.empty()) return std::nullopt;
  if (origin.type == kPackedTernary) return packed_ternary_encoding();
  const Carrier* const carrier = origin.layout.is_transposed ? nullptr : find_carrier(origin.type);
  if (!carrier) return std::nullopt;
  if (!origin.scale.empty() && carrier->encoding.granularity == Granularity::block32_f16)
    return Encoding(carrier->encoding.dtype, Granularity::block32);
  return carrier->encoding;
}

PlannedWeights planned_weights(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan,
                               bool allows_nonfinite) {
  auto reader = std::make_shared<ParameterReader>(std::move(tensors), std::move(plan), allows_nonfinite);
  return {[reader](const mesh::ParameterRows& rows) { return reader->read(rows); },
          {[reader](const mesh::Node& node, const mesh::ParameterSpec& spec) { return reader->has_codes(node, spec); },
           [reader](const mesh::ParameterCodes& codes) { return reader->read_codes(codes); }}};
}

}  // namespace weft::models
