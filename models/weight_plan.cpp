// SPDX-License-Identifier: Apache-2.0

#include "models/weight_plan.hpp"

#include "models/tensor_values.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace weft::models {
namespace {

constexpr std::array<std::string_view, 3> kIgnoredEnds{".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
constexpr std::array<std::string_view, 3> kRopeTensors{"rope_freqs.weight", "rope_factors_long.weight",
                                                       "rope_factors_short.weight"};

class PlanMaker {
 public:
  PlanMaker(const ModelFiles& opened, const Decoder& decoder)
      : opened_(opened), family_(*opened.family), decoder_(decoder) {
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
    const Shape& wanted = origin.layout.shape;
    const std::string found = find(name);
    if (found.empty()) return problems_.add("tensor '" + name + "' " + to_string(wanted) + " is not there");
    used_.insert(found);
    const auto tensor = opened_.tensors->describe(found);
    if (tensor->shape != wanted)
      return problems_.add("tensor '" + found + "': " + to_string(tensor->shape) + ", expected " + to_string(wanted));
    if (!has_values(tensor->type))
      return problems_.add("tensor '" + found + "': " + tensor->type + " is no type of weights here");
    origin.tensor = found;
    origin.type = tensor->type;
    plan_.origins.emplace(std::pair(place.z, place.parameter), std::move(origin));
  }

  const ModelFiles& opened_;
  const Family& family_;
  const Decoder& decoder_;
  bool has_prefix_ = true;
  WeightPlan plan_;
  std::set<std::string, std::less<>> used_;
  Problems problems_;
};

/// Values of parameters, from one tensor at a time.
class ParameterReader {
 public:
  ParameterReader(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan)
      : tensors_(std::move(tensors)), plan_(std::move(plan)) {}

  Status read(const mesh::ParameterRows& wanted) {
    const auto found = plan_.origins.find(std::pair(wanted.node.at.z, wanted.spec.name));
    if (found == plan_.origins.end())
      return fail(Errc::internal, wanted.node.object + ": '" + wanted.spec.name + "' has no origin");
    const Origin& origin = found->second;
    WEFT_CHECK(hold(origin));
    if (!wanted.spec.is_matrix()) {
      WEFT_CHECK(read_vector(origin, wanted));
    } else if (origin.layout.is_transposed) {
      WEFT_CHECK(read_columns(origin, wanted));
    } else {
      WEFT_CHECK(read_rows(origin, wanted));
    }
    if (origin.layout.added != 0)
      for (float& value : wanted.values) value += origin.layout.added;
    return {};
  }

 private:
  Status hold(const Origin& origin) {
    if (held_.name == origin.tensor) return {};
    if (!held_.name.empty()) tensors_->forget(held_.name);
    values_ = {};
    held_.name.clear();
    WEFT_TRY(held_, tensors_->find(origin.tensor));
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
  formats::Tensor held_;
  AlignedBuffer<float> values_;  // all of the one that is held, where it is wanted as a whole
};

}  // namespace

Result<WeightPlan> plan_weights(const ModelFiles& opened, const Decoder& decoder, const DecoderNetwork& network) {
  return PlanMaker(opened, decoder).make(network);
}

mesh::ReadParameter parameter_reader(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan) {
  auto reader = std::make_shared<ParameterReader>(std::move(tensors), std::move(plan));
  return [reader](const mesh::ParameterRows& rows) { return reader->read(rows); };
}

}  // namespace weft::models
