// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/select.hpp"

#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

constexpr std::size_t kMostCopies = 65'536;
constexpr double kMost = 16'777'216;

/// Places beside each other in the input, and where they go.
struct Part {
  std::size_t from = 0, to = 0, count = 0;
};

class Select final : public Layer {
 public:
  Select(const Shape& in, std::size_t out, std::vector<Part> parts) : Layer(in, Shape{out}), parts_(std::move(parts)) {}

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for (const Part& part : parts_)
      if (part.from == in())
        stream.fill({0.0f, columns(args.y, part.to, part.count)});
      else
        stream.copy({columns(args.x, part.from, part.count), columns(args.y, part.to, part.count)});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    stream.fill({0.0f, args.dx});
    for (const Part& part : parts_) {
      if (part.from == in()) continue;
      const kernels::MatrixView dx = columns(args.dx, part.from, part.count);
      stream.binary({kernels::BinaryOp::add, dx, columns(args.dy, part.to, part.count), dx});
    }
  }

 private:
  std::vector<Part> parts_;
};

Failure outside(const std::string& object, std::size_t run, double place, std::size_t width) {
  return fail(Errc::out_of_range, object + ": run " + std::to_string(run) + " reads place " +
                                      std::to_string(static_cast<std::int64_t>(place)) + " of " +
                                      std::to_string(width) + " values; " + std::to_string(width) + " itself is a 0");
}

/// Adds the parts of a run. @error out_of_range: a place outside the input
Status add_run(const std::string& object, std::size_t run, std::size_t width, std::size_t first, std::size_t count,
               double step, std::size_t& out, std::vector<Part>& parts) {
  const double last = static_cast<double>(first) + step * static_cast<double>(count - 1);
  if (first > width) return outside(object, run, static_cast<double>(first), width);
  if (last < 0 || last > static_cast<double>(width)) return outside(object, run, last, width);
  const bool is_whole = (step == 1 && first + count <= width) || (step == 0 && first == width);
  if (is_whole) {
    parts.push_back({first, out, count});
  } else {
    if (count > kMostCopies) return fail(Errc::too_large, object + ".count: " + std::to_string(count));
    for (std::size_t i = 0; i < count; ++i)
      parts.push_back(
          {static_cast<std::size_t>(static_cast<double>(first) + step * static_cast<double>(i)), out + i, 1});
  }
  out += count;
  return {};
}

}  // namespace

LayerDeclaration declare_select() {
  return {"...",
          "sum of count",
          {option::out(option::computed("the sum of count"), "values", "only the sum of count"),
           option::wholes("first", option::needed(), 0, kMost, 1, 65536, "elements",
                          "first place of each run; the input's width is a 0"),
           option::wholes("count", option::needed(), 1, kMost, 1, 65536, "elements", "places of each run"),
           option::numbers("step", option::computed("1 each"), "elements",
                           "from one place of a run to the next, a whole number each")}};
}

Result<std::unique_ptr<Layer>> make_select(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const auto first, options.integers("first", 0));
  WEFT_TRY(const auto count, options.integers("count", 0));
  WEFT_TRY(auto step, options.numbers("step"));
  if (step.empty()) step.assign(first.size(), 1.0);
  const std::string& object = options.object();
  if (count.size() != first.size() || step.size() != first.size())
    return fail(Errc::shape_mismatch, object + ": first has " + std::to_string(first.size()) + " numbers, count " +
                                          std::to_string(count.size()) + ", step " + std::to_string(step.size()) +
                                          "; a run has one of each");
  WEFT_TRY(const std::size_t width, volume(in));
  std::size_t made = 0;
  std::vector<Part> parts;
  for (std::size_t run = 0; run < first.size(); ++run) {
    if (step[run] != std::floor(step[run]) || std::fabs(step[run]) > kMost)
      return fail(Errc::out_of_range, object + ".step: " + std::to_string(step[run]) +
                                          ", expected a whole number from -16777216 to 16777216");
    WEFT_CHECK(add_run(object, run, width, first[run], count[run], step[run], made, parts));
    if (parts.size() > kMostCopies || made > static_cast<std::size_t>(kMost))
      return fail(Errc::too_large, object + ": more than 65536 copies, or 16777216 values");
  }
  if (out != 0 && out != made)
    return fail(Errc::shape_mismatch,
                object + ".out: the runs have " + std::to_string(made) + " values, not " + std::to_string(out));
  return std::unique_ptr<Layer>(new Select(in, made, std::move(parts)));
}

}  // namespace weft::mesh
