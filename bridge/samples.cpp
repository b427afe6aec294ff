// SPDX-License-Identifier: Apache-2.0

#include "bridge/samples.hpp"

#include "bridge/fields.hpp"

#include "formats/npy/npy.hpp"
#include "formats/npy/npz.hpp"
#include "storage/file_system.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <span>
#include <utility>

namespace weft::bridge {
namespace {

constexpr std::size_t kMostArrayBytes = std::size_t{1} << 30;
constexpr std::size_t kMostFileBytes = (std::size_t{1} << 32) - 1;

std::size_t product_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

Result<GivenSamples::Array> read_array(const formats::NpzFile& file, const std::string& path, const char* name) {
  WEFT_TRY(const ByteBuffer bytes, file.member(name, kMostArrayBytes));
  const std::string object = path + ": '" + name + "'";
  WEFT_TRY(const formats::NpyArray array, formats::NpyArray::open(bytes, object));
  if (array.shape().empty()) return fail(Errc::shape_mismatch, object + " is one number, expected rows of samples");
  GivenSamples::Array made;
  made.count = array.shape().front();
  made.shape.assign(array.shape().begin() + 1, array.shape().end());
  made.values.resize(array.size());
  for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] = array.value(i);
  return made;
}

/// Reads nested lists into one array: all lists of a level have the length of its first one.
class NestedReader {
 public:
  Status read(const Json& json, std::size_t depth) {
    if (json.is_array()) return read_list(json, depth);
    if (!json.is_number())
      return fail(Errc::parse_failed, "inputs: found " + printable(json.dump()) + ", expected a number");
    if (depth != shape.size()) return ragged(depth, 0);
    is_flat_ = true;
    values.push_back(json.get<double>());
    return {};
  }

  Shape shape;
  std::vector<double> values;

 private:
  Status read_list(const Json& list, std::size_t depth) {
    if (depth == shape.size() && is_flat_) return ragged(depth, list.size());
    if (depth == shape.size()) shape.push_back(list.size());
    if (shape[depth] != list.size()) return ragged(depth, list.size());
    for (const Json& each : list) WEFT_CHECK(read(each, depth + 1));
    return {};
  }
  Failure ragged(std::size_t depth, std::size_t found) const {
    return fail(Errc::shape_mismatch, "inputs: a list of " + std::to_string(found) + " at depth " +
                                          std::to_string(depth) + ", where the first one makes the shape " +
                                          spelled(shape) + "; all samples need one shape");
  }
  bool is_flat_ = false;  // a number was read: no axis is added any more
};

/// Copies what the network reads of one sample.
class SampleCutter {
 public:
  SampleCutter(const Shape& given, const Shape& wanted) : given_(given), wanted_(wanted) {}

  /// @error shape_mismatch
  Status check(std::size_t row) const {
    const std::string object = "input row " + std::to_string(row) + " has ";
    if (given_.size() != wanted_.size()) {
      if (product_of(given_) == product_of(wanted_)) return {};
      return fail(Errc::shape_mismatch, object + "the shape " + spelled(given_) + ", expected " + spelled(wanted_));
    }
    if (given_.back() >= wanted_.back()) return {};
    return fail(Errc::shape_mismatch, object + std::to_string(given_.back()) +
                                          (given_.size() == 1 ? " values" : " columns") + ", expected " +
                                          std::to_string(wanted_.back()));
  }
  /// `to` holds zeros.
  void cut(std::span<const double> from, std::span<double> to) const {
    if (given_.size() != wanted_.size())
      std::copy(from.begin(), from.end(), to.begin());
    else
      cut_axis(0, from, to);
  }

 private:
  void cut_axis(std::size_t axis, std::span<const double> from, std::span<double> to) const {
    const std::size_t count = std::min(given_[axis], wanted_[axis]);
    if (axis + 1 == given_.size()) {
      std::copy_n(from.begin(), count, to.begin());
      return;
    }
    const std::size_t step = given_[axis] ? from.size() / given_[axis] : 0, wide = to.size() / wanted_[axis];
    for (std::size_t i = 0; i < count; ++i)
      cut_axis(axis + 1, from.subspan(i * step, step), to.subspan(i * wide, wide));
  }

  const Shape& given_;
  const Shape& wanted_;
};

/// LayerNorm gives the same for a row and the row plus a constant. Taking the mean off in double precision keeps what
/// rounding to float32 would lose of a row whose offset is large against its spread.
void centre_rows(std::span<double> values, std::size_t width) {
  for (std::size_t at = 0; at + width <= values.size(); at += width) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += values[at + i];
    const double mean = sum / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) values[at + i] -= mean;
  }
}

/// One array that holds the values of all ports, one behind the other, as an array for each.
GivenSamples split_ports(const GivenSamples::Array& joined, const std::vector<mesh::PortSpec>& ports) {
  GivenSamples out;
  const std::size_t width = product_of(joined.shape);
  std::size_t first = 0;
  for (const mesh::PortSpec& port : ports) {
    GivenSamples::Array array{joined.count, port.shape, {}};
    const std::size_t own = product_of(port.shape);
    for (std::size_t row = 0; row < joined.count; ++row) {
      const auto begin = joined.values.begin() + static_cast<std::ptrdiff_t>(row * width + first);
      array.values.insert(array.values.end(), begin, begin + static_cast<std::ptrdiff_t>(own));
    }
    out.arrays.push_back(std::move(array));
    first += own;
  }
  return out;
}

Result<std::vector<float>> fit_array(const GivenSamples::Array& array, const NetworkPlan& plan, std::size_t port) {
  const Shape& wanted = plan.spec.inputs[port].shape;
  const SampleCutter cutter(array.shape, wanted);
  const std::size_t width = product_of(wanted), given = product_of(array.shape);
  const bool is_tokens = plan.tokens && plan.tokens->port == port;
  std::vector<float> out(array.count * width);
  std::vector<double> row(width);
  for (std::size_t sample = 0; sample < array.count; ++sample) {
    WEFT_CHECK(cutter.check(sample));
    std::fill(row.begin(), row.end(), 0.0);
    cutter.cut(std::span(array.values).subspan(sample * given, given), row);
    for (std::size_t i = 0; i < width; ++i)
      if (!std::isfinite(row[i]) || (!is_tokens && std::fabs(row[i]) > double{FLT_MAX}))
        return fail(Errc::not_finite, "input not finite in float32 (sample " + std::to_string(sample) + ", index " +
                                          std::to_string(i) + ")");
    if (plan.centres_rows) centre_rows(row, wanted.back());
    for (std::size_t i = 0; i < width; ++i) {
      if (is_tokens) {
        const double id = std::trunc(row[i]), none = static_cast<double>(plan.tokens->zero_entry);
        row[i] = id >= 0 && id < none ? id : none;
      }
      out[sample * width + i] = static_cast<float>(row[i]);
    }
  }
  return out;
}

}  // namespace

Result<GivenSamples> read_fixture(Bedrock bedrock, const std::string& path) {
  WEFT_TRY(const storage::MappedFile mapped, storage::real_file_system().map(path, kMostFileBytes));
  GivenSamples given;
  const auto read = [&]() -> Status {
    WEFT_TRY(const formats::NpzFile file, formats::NpzFile::open(mapped.bytes(), path));
    const bool has_two = bedrock == Bedrock::residual;
    WEFT_TRY(auto first, read_array(file, path, has_two ? "x_main_test" : "x_test"));
    given.arrays.push_back(std::move(first));
    const char* const second = has_two ? "x_skip_test" : "token_ids_test";
    if (has_two || (bedrock == Bedrock::mixer && file.contains(second))) {
      WEFT_TRY(auto other, read_array(file, path, second));
      given.arrays.push_back(std::move(other));
    }
    return {};
  };
  const Status done = read();
  WEFT_CHECK(mapped.intact());
  WEFT_CHECK(done);
  if (given.arrays.back().count != given.arrays.front().count)
    return fail(Errc::shape_mismatch, path + ": " + std::to_string(given.arrays.front().count) + " and " +
                                          std::to_string(given.arrays.back().count) + " samples in two arrays");
  return given;
}

Result<GivenSamples> read_inputs(const Json& inputs) {
  if (!inputs.is_array()) return fail(Errc::parse_failed, "inputs: expected a list of samples");
  NestedReader reader;
  WEFT_CHECK(reader.read(inputs, 0));
  GivenSamples given;
  GivenSamples::Array array;
  const bool is_one = reader.shape.size() == 1;
  array.count = is_one && !reader.values.empty() ? 1 : reader.shape.front();
  array.shape.assign(reader.shape.begin() + (is_one ? 0 : 1), reader.shape.end());
  array.values = std::move(reader.values);
  given.arrays.push_back(std::move(array));
  return given;
}

Result<FittedSamples> fit_samples(const GivenSamples& given, const NetworkPlan& plan) {
  const auto& ports = plan.spec.inputs;
  std::size_t all = 0;
  for (const mesh::PortSpec& port : ports) all += product_of(port.shape);
  const GivenSamples::Array& first = given.arrays.front();
  FittedSamples fitted;
  fitted.count = first.count;
  if (fitted.count == 0) return fitted;
  GivenSamples split;
  const bool is_joined = given.arrays.size() == 1 && ports.size() > 1 && product_of(first.shape) == all;
  if (is_joined) split = split_ports(first, ports);
  const GivenSamples& from = is_joined ? split : given;
  for (std::size_t port = 0; port < ports.size(); ++port) {
    if (port >= from.arrays.size()) {
      fitted.ports.emplace_back(fitted.count * product_of(ports[port].shape), 0.0f);
      continue;
    }
    WEFT_TRY(auto values, fit_array(from.arrays[port], plan, port));
    fitted.ports.push_back(std::move(values));
  }
  return fitted;
}

}  // namespace weft::bridge
