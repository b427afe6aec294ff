// SPDX-License-Identifier: Apache-2.0

// Operators that compute nothing: values in another order, and shapes.

#include "models/onnx/internal/onnx_constant.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace weft::models::onnx {
namespace {

using formats::OnnxNode;
using Integers = std::vector<std::int64_t>;

Result<std::size_t> checked_elements(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && count > kMostMoved / extent)
      return fail(Errc::too_large, "a value " + to_string(shape) + " of more than " + std::to_string(kMostMoved));
    count *= extent;
  }
  return count;
}

Integers strides_of(const Shape& shape) {
  Integers strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::int64_t>(shape[i]);
  return strides;
}

/// Places that are a sum of one number for each axis; a number below 0 makes it a zero.
Result<Moved> of_axes(const std::vector<Integers>& axes, Shape shape) {
  Moved moved{std::move(shape)};
  WEFT_TRY(const std::size_t count, checked_elements(moved.shape));
  moved.places.assign(count == 0 ? 0 : 1, 0);
  for (const Integers& axis : axes) {
    Integers next;
    next.reserve(moved.places.size() * axis.size());
    for (const std::int64_t before : moved.places)
      for (const std::int64_t own : axis) next.push_back(before < 0 || own < 0 ? -1 : before + own);
    moved.places = std::move(next);
  }
  return moved;
}

/// The numbers of each axis that leave all places as they are.
std::vector<Integers> all_axes(const Shape& shape) {
  const Integers strides = strides_of(shape);
  std::vector<Integers> axes(shape.size());
  for (std::size_t a = 0; a < shape.size(); ++a)
    for (std::size_t i = 0; i < shape[a]; ++i) axes[a].push_back(static_cast<std::int64_t>(i) * strides[a]);
  return axes;
}

/// Moves of a node, from its attributes and operands.
class Mover {
 public:
  Mover(const OnnxNode& node, std::span<const Operand> operands, std::int64_t opset)
      : node_(node), operands_(operands), opset_(opset), in_(*operands[0].shape) {}

  Result<std::vector<Moved>> moves() const {
    if (node_.type == "Split") return split();
    WEFT_TRY(Moved only, move());
    std::vector<Moved> moves;
    moves.push_back(std::move(only));
    return moves;
  }

 private:
  Result<Moved> move() const {
    const std::string_view type = node_.type;
    if (type == "Reshape") return reshape();
    if (type == "Flatten") return flatten();
    if (type == "Squeeze") return squeeze();
    if (type == "Unsqueeze") return unsqueeze();
    if (type == "Transpose") return transpose();
    if (type == "Slice") return slice();
    if (type == "Gather") return gather();
    if (type == "Concat") return concat();
    if (type == "Expand") return expand();
    if (type == "Pad") return pad();
    return Moved{in_, true};  // Identity, Dropout
  }

  /// The whole numbers of an operand, or of an attribute in its place. None: neither is given.
  Result<std::optional<Integers>> numbers(std::size_t operand, std::string_view attribute) const {
    if (node_.find(attribute)) return integers_of(node_, attribute);
    if (operand == 0 || operand >= operands_.size() || !operands_[operand].shape) return std::optional<Integers>();
    if (!operands_[operand].constant)
      return fail(Errc::unsupported, "input " + std::to_string(operand) + " is not known before the network runs");
    WEFT_TRY(Integers values, integers_of(*operands_[operand].constant));
    return std::optional(std::move(values));
  }
  Result<Integers> needed(std::size_t operand, std::string_view attribute) const {
    WEFT_TRY(auto values, numbers(operand, attribute));
    if (!values) return fail(Errc::corrupt, "'" + std::string(attribute) + "' is not given");
    return *std::move(values);
  }
  Result<std::vector<bool>> is_axis(const Integers& axes, std::size_t rank) const {
    std::vector<bool> is_one(rank);
    for (const std::int64_t axis : axes) {
      WEFT_TRY(const std::size_t at, axis_of(axis, rank));
      if (is_one[at]) return fail(Errc::corrupt, "axis " + std::to_string(axis) + " is named twice");
      is_one[at] = true;
    }
    return is_one;
  }

  Result<Moved> reshape() const {
    WEFT_TRY(const Integers wanted, needed(1, "shape"));
    WEFT_TRY(const std::int64_t allows_zero, integer_of(node_, "allowzero", 0));
    WEFT_TRY(const std::size_t count, checked_elements(in_));
    Moved moved{{}, true};
    std::optional<std::size_t> inferred;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::int64_t extent = wanted[i];
      if (extent == 0 && allows_zero == 0) {
        if (i >= in_.size()) return fail(Errc::corrupt, "shape[" + std::to_string(i) + "] is 0, which copies nothing");
        extent = static_cast<std::int64_t>(in_[i]);
      }
      if (extent < -1 || (extent == -1 && inferred))
        return fail(Errc::corrupt, "a shape with " + std::to_string(extent));
      if (extent == -1) inferred = i;
      moved.shape.push_back(extent == -1 ? 1 : static_cast<std::size_t>(extent));
    }
    WEFT_TRY(const std::size_t others, checked_elements(moved.shape));
    if (inferred && others != 0 && count % others == 0) moved.shape[*inferred] = count / others;
    WEFT_TRY(const std::size_t made, checked_elements(moved.shape));
    if (made == count) return moved;
    return fail(Errc::corrupt, to_string(in_) + " becomes " + to_string(moved.shape) + ", another number of values");
  }

  Result<Moved> flatten() const {
    WEFT_TRY(const std::int64_t axis, integer_of(node_, "axis", 1));
    const auto rank = static_cast<std::int64_t>(in_.size());
    if (axis < -rank || axis > rank) return fail(Errc::corrupt, "axis " + std::to_string(axis));
    Moved moved{{1, 1}, true};
    WEFT_CHECK(checked_elements(in_));
    for (std::int64_t i = 0; i < rank; ++i)
      moved.shape[i < (axis < 0 ? axis + rank : axis) ? 0 : 1] *= in_[static_cast<std::size_t>(i)];
    return moved;
  }

  Result<Moved> squeeze() const {
    WEFT_TRY(const auto axes, numbers(1, "axes"));
    std::vector<bool> goes(in_.size());
    if (axes) {
      WEFT_TRY(goes, is_axis(*axes, in_.size()));
    } else {
      for (std::size_t i = 0; i < in_.size(); ++i) goes[i] = in_[i] == 1;
    }
    Moved moved{{}, true};
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (goes[i] && in_[i] != 1)
        return fail(Errc::corrupt, "axis " + std::to_string(i) + " of " + to_string(in_) + " is not 1");
      if (!goes[i]) moved.shape.push_back(in_[i]);
    }
    return moved;
  }

  Result<Moved> unsqueeze() const {
    WEFT_TRY(const Integers axes, needed(1, "axes"));
    if (axes.size() > 16) return fail(Errc::too_large, std::to_string(axes.size()) + " axes");
    WEFT_TRY(const std::vector<bool> is_new, is_axis(axes, in_.size() + axes.size()));
    Moved moved{{}, true};
    for (std::size_t i = 0, from = 0; i < is_new.size(); ++i) moved.shape.push_back(is_new[i] ? 1 : in_[from++]);
    return moved;
  }

  Result<Moved> transpose() const {
    WEFT_TRY(const auto given, integers_of(node_, "perm"));
    Integers order(in_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(order.size() - 1 - i);
    if (given) order = *given;
    if (order.size() != in_.size()) return fail(Errc::corrupt, "perm has " + std::to_string(order.size()) + " axes");
    WEFT_CHECK(is_axis(order, in_.size()));
    const std::vector<Integers> from = all_axes(in_);
    std::vector<Integers> axes;
    Shape shape;
    std::vector<std::size_t> wide;  // axes that are longer than 1, in their new order
    for (const std::int64_t named : order) {
      WEFT_TRY(const std::size_t axis, axis_of(named, in_.size()));
      axes.push_back(from[axis]);
      shape.push_back(in_[axis]);
      if (in_[axis] != 1) wide.push_back(axis);
    }
    if (std::is_sorted(wide.begin(), wide.end())) return Moved{std::move(shape), true};
    return of_axes(axes, std::move(shape));
  }

  Result<Moved> slice() const {
    WEFT_TRY(const Integers starts, needed(1, "starts"));
    WEFT_TRY(const Integers ends, needed(2, "ends"));
    WEFT_TRY(const auto given_axes, numbers(3, "axes"));
    WEFT_TRY(const auto given_steps, numbers(4, "steps"));
    Integers all(starts.size());
    std::iota(all.begin(), all.end(), 0);
    const Integers axes = given_axes ? *given_axes : all,
                   steps = given_steps ? *given_steps : Integers(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
      return fail(Errc::corrupt, "starts, ends, axes and steps of different lengths");
    WEFT_CHECK(is_axis(axes, in_.size()));
    std::vector<Integers> places = all_axes(in_);
    Shape shape = in_;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      WEFT_TRY(const std::size_t axis, axis_of(axes[i], in_.size()));
      if (steps[i] == 0 || steps[i] == std::numeric_limits<std::int64_t>::min())
        return fail(Errc::corrupt, "a step of " + std::to_string(steps[i]));
      places[axis] = taken(places[axis], starts[i], ends[i], steps[i]);
      shape[axis] = places[axis].size();
    }
    if (shape == in_ && std::all_of(steps.begin(), steps.end(), [](auto step) { return step > 0; }))
      return Moved{std::move(shape), true};
    return of_axes(places, std::move(shape));
  }
  static Integers taken(const Integers& axis, std::int64_t start, std::int64_t end, std::int64_t step) {
    const auto extent = static_cast<std::int64_t>(axis.size());
    const auto bounded = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? at + extent : at, low, high);
    };
    Integers kept;
    if (step > 0) {
      const std::int64_t last = bounded(end, 0, extent);
      for (std::int64_t i = bounded(start, 0, extent); i<last; i = step> last - i ? last : i + step)
        kept.push_back(axis[static_cast<std::size_t>(i)]);
    } else {
      const std::int64_t last = bounded(end, -1, extent - 1);
      for (std::int64_t i = bounded(start, -1, extent - 1); i > last; i = -step > i - last ? last : i + step)
        kept.push_back(axis[static_cast<std::size_t>(i)]);
    }
    return kept;
  }

  Result<Moved> gather() const {
    WEFT_TRY(const std::int64_t named, integer_of(node_, "axis", 0));
    WEFT_TRY(const std::size_t axis, axis_of(named, in_.size()));
    if (operands_.size() < 2 || !operands_[1].constant)
      return fail(Errc::unsupported, "indices that are not known before the network runs");
    WEFT_TRY(const Integers indices, integers_of(*operands_[1].constant));
    std::vector<Integers> places = all_axes(in_);
    const Integers whole = std::exchange(places[axis], {});
    const auto extent = static_cast<std::int64_t>(whole.size());
    for (const std::int64_t index : indices) {
      if (index < -extent || index >= extent)
        return fail(Errc::corrupt, "index " + std::to_string(index) + " of " + std::to_string(extent));
      places[axis].push_back(whole[static_cast<std::size_t>(index < 0 ? index + extent : index)]);
    }
    Shape shape(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(axis));
    shape.insert(shape.end(), operands_[1].shape->begin(), operands_[1].shape->end());
    shape.insert(shape.end(), in_.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in_.end());
    if (shape.size() > 16) return fail(Errc::too_large, "a value " + to_string(shape));
    return of_axes(places, std::move(shape));
  }

  Result<Moved> concat() const {
    WEFT_TRY(const std::int64_t named, integer_of(node_, "axis", opset_ < 4 ? 1 : 0));
    WEFT_TRY(const std::size_t axis, axis_of(named, in_.size()));
    Shape shape = in_;
    shape[axis] = 0;
    for (const Operand& operand : operands_) {
      Shape other = *operand.shape;
      if (other.size() != in_.size()) return fail(Errc::corrupt, "values of different ranks");
      shape[axis] += std::exchange(other[axis], in_[axis]);
      if (other != in_) return fail(Errc::corrupt, to_string(*operand.shape) + " beside " + to_string(in_));
    }
    Moved moved{shape};
    WEFT_TRY(const std::size_t count, checked_elements(shape));
    moved.places.reserve(count);
    std::size_t outer = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t o = 0; count != 0 && o < outer; ++o) {
      std::int64_t begin = 0;
      for (const Operand& operand : operands_) {
        WEFT_TRY(const std::size_t size, checked_elements(*operand.shape));
        const auto part = static_cast<std::int64_t>(size / outer);
        for (std::int64_t i = 0; i < part; ++i) moved.places.push_back(begin + static_cast<std::int64_t>(o) * part + i);
        begin += static_cast<std::int64_t>(size);
      }
    }
    return moved;
  }

  Result<std::vector<Moved>> split() const {
    WEFT_TRY(const std::int64_t named, integer_of(node_, "axis", 0));
    WEFT_TRY(const std::size_t axis, axis_of(named, in_.size()));
    WEFT_TRY(auto sizes, numbers(1, "split"));
    const std::size_t parts = node_.outputs.size(), extent = in_[axis];
    WEFT_TRY(const std::int64_t told, integer_of(node_, "num_outputs", static_cast<std::int64_t>(parts)));
    if (told != static_cast<std::int64_t>(parts))
      return fail(Errc::corrupt,
                  "num_outputs is " + std::to_string(told) + ", of " + std::to_string(parts) + " outputs");
    if (!sizes) {
      const std::size_t each = parts == 0 ? 0 : (extent + parts - 1) / parts;
      sizes.emplace();
      for (std::size_t i = 0; i < parts; ++i)
        sizes->push_back(static_cast<std::int64_t>(std::min(each, extent - std::min(extent, i * each))));
    }
    std::vector<Moved> moves;
    const std::vector<Integers> all = all_axes(in_);
    std::size_t at = 0;
    for (const std::int64_t size : *sizes) {
      if (size < 0 || static_cast<std::size_t>(size) > extent - at) break;
      std::vector<Integers> places = all;
      const auto begin = all[axis].begin() + static_cast<std::ptrdiff_t>(at);
      places[axis].assign(begin, begin + static_cast<std::ptrdiff_t>(size));
      Shape shape = in_;
      shape[axis] = static_cast<std::size_t>(size);
      WEFT_TRY(moves.emplace_back(), of_axes(places, std::move(shape)));
      at += static_cast<std::size_t>(size);
    }
    if (moves.size() != parts || at != extent)
      return fail(Errc::corrupt, "parts that are not " + std::to_string(extent) + " together");
    return moves;
  }

  Result<Moved> expand() const {
    WEFT_TRY(const Integers wanted, needed(1, "shape"));
    const std::size_t rank = std::max(wanted.size(), in_.size());
    if (rank > 16) return fail(Errc::too_large, std::to_string(rank) + " axes");
    Shape from(rank - in_.size(), 1), shape;
    from.insert(from.end(), in_.begin(), in_.end());
    std::vector<Integers> places = all_axes(from);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t extent = i + wanted.size() < rank ? 1 : wanted[i + wanted.size() - rank];
      if (extent < 0 || static_cast<std::uint64_t>(extent) > kMostFolded)
        return fail(Errc::corrupt, "a shape with " + std::to_string(extent));
      const auto size = static_cast<std::size_t>(extent);
      if (from[i] != size && from[i] != 1 && size != 1)
        return fail(Errc::corrupt, to_string(in_) + " is not spread over " + std::to_string(size));
      shape.push_back(from[i] == 1 ? size : from[i]);
      WEFT_CHECK(checked_elements(shape));
      if (from[i] == 1) places[i].assign(size, 0);
    }
    if (shape == from) return Moved{std::move(shape), true};
    return of_axes(places, std::move(shape));
  }

  Result<Moved> pad() const {
    WEFT_TRY(const std::string mode, text_of(node_, "mode", "constant"));
    if (mode != "constant" && mode != "reflect" && mode != "edge")
      return fail(Errc::unsupported, "mode '" + mode + "'; expected constant, reflect or edge");
    WEFT_TRY(const Integers pads, needed(1, "pads"));
    WEFT_TRY(const auto given_axes, numbers(3, "axes"));
    Integers axes(in_.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (given_axes) axes = *given_axes;
    WEFT_CHECK(is_axis(axes, in_.size()));
    WEFT_CHECK(check_fill(mode));
    if (pads.size() != 2 * axes.size()) return fail(Errc::corrupt, std::to_string(pads.size()) + " pads");
    std::vector<Integers> places = all_axes(in_);
    Shape shape = in_;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      WEFT_TRY(const std::size_t axis, axis_of(axes[i], in_.size()));
      const std::int64_t before = pads[i], after = pads[axes.size() + i];
      if (before < 0 || after < 0 || before > (1 << 24) || after > (1 << 24))
        return fail(Errc::unsupported, "pads of " + std::to_string(before) + " and " + std::to_string(after));
      places[axis] = padded(places[axis], before, after, mode);
      if (places[axis].empty()) return fail(Errc::corrupt, "pads around nothing");
      shape[axis] = places[axis].size();
    }
    if (shape == in_) return Moved{std::move(shape), true};
    return of_axes(places, std::move(shape));
  }
  Status check_fill(const std::string& mode) const {
    if (mode != "constant") return {};
    WEFT_TRY(double fill, real_of(node_, "value", 0));
    if (operands_.size() > 2 && operands_[2].shape) {
      if (!operands_[2].constant) return fail(Errc::unsupported, "a value that is not known before the network runs");
      if (is_real_type(operands_[2].constant->type)) {
        WEFT_TRY(const std::vector<double> given, reals_of(*operands_[2].constant));
        fill = given.empty() ? 0 : given[0];
      }
    }
    if (fill != 0) return fail(Errc::unsupported, "pads of " + std::to_string(fill) + "; only zeros");
    return {};
  }
  static Integers padded(const Integers& axis, std::int64_t before, std::int64_t after, const std::string& mode) {
    const auto extent = static_cast<std::int64_t>(axis.size());
    Integers places;
    if (extent == 0) return places;
    for (std::int64_t i = -before; i < extent + after; ++i) {
      std::int64_t from = i;
      if (mode == "edge") from = std::clamp<std::int64_t>(i, 0, extent - 1);
      if (mode == "reflect" && extent > 1) {
        const std::int64_t period = 2 * (extent - 1), at = ((i % period) + period) % period;
        from = at < extent ? at : period - at;
      }
      if (mode == "reflect" && extent == 1) from = 0;
      places.push_back(from < 0 || from >= extent ? -1 : axis[static_cast<std::size_t>(from)]);
    }
    return places;
  }

  const OnnxNode& node_;
  std::span<const Operand> operands_;
  std::int64_t opset_;
  const Shape& in_;
};

constexpr std::array<std::string_view, 13> kMoves{"Identity",  "Dropout",   "Reshape", "Flatten", "Squeeze",
                                                  "Unsqueeze", "Transpose", "Slice",   "Gather",  "Concat",
                                                  "Split",     "Expand",    "Pad"};

}  // namespace

bool is_move(std::string_view type) noexcept { return std::find(kMoves.begin(), kMoves.end(), type) != kMoves.end(); }

std::size_t moved_operands(const OnnxNode& node) noexcept { return node.type == "Concat" ? node.inputs.size() : 1; }

Result<std::vector<Moved>> moves_of(const OnnxNode& node, std::span<const Operand> operands, std::int64_t opset) {
  // A Concat may say that it has none.
  for (std::size_t i = 0; i < std::max<std::size_t>(moved_operands(node), 1); ++i)
    if (i >= operands.size() || !operands[i].shape)
      return fail(Errc::corrupt, "input " + std::to_string(i) + " is not given");
  return Mover(node, operands, opset).moves();
}

}  // namespace weft::models::onnx
