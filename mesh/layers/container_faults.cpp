// SPDX-License-Identifier: Apache-2.0
// Faults of layers inside a container: the layer that one began in, and the layer that answers for it.

#include "mesh/layers/container.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace weft::mesh {

void InnerFault::pass_on(const Layer* container, std::uint32_t place, bool has_own) {
  try {
    throw;
  } catch (InnerFault& fault) {
    if (!has_own) throw InnerFault(container, place, fault.what());
    fault.path_.insert(fault.path_.begin(), place);
    fault.container_ = container;
    throw;
  } catch (const std::exception& error) {
    throw InnerFault(container, place, error.what());
  } catch (...) {
    throw InnerFault(container, place, "");
  }
}

// A layer that another cell has answers there for itself.
const Container* ContainerFaults::inside(std::size_t step) const noexcept {
  const auto* const container = dynamic_cast<const Container*>(of_.steps_[step].layer.get());
  return container && container->has_policies_ && !of_.steps_[step].owner ? container : nullptr;
}

bool ContainerFaults::has_policies() const noexcept {
  for (std::size_t i = 0; i < of_.steps_.size(); ++i)
    if (of_.steps_[i].policy || inside(i)) return true;
  return false;
}

bool ContainerFaults::may_restart() const noexcept {
  for (std::size_t i = 0; i < of_.steps_.size(); ++i) {
    const Container* const inner = inside(i);
    if (of_.steps_[i].policy == actors::Policy::restart || (inner && ContainerFaults(*inner).may_restart()))
      return true;
  }
  return false;
}

void ContainerFaults::pass_on(std::size_t step) const {
  const auto place = std::find(of_.order_.begin(), of_.order_.end(), step) - of_.order_.begin();
  InnerFault::pass_on(&of_, static_cast<std::uint32_t>(place), inside(step) != nullptr);
}

std::optional<SupervisedLayer> ContainerFaults::answering(std::size_t step,
                                                          std::optional<SupervisedLayer> inner) const {
  const Container::Step& here = of_.steps_[step];
  const Container::Place& place = of_.places_[step];
  if (inner) {
    inner->name = here.name + "." + inner->name;
    inner->first_parameter += place.first_parameter;
    inner->first_state += place.state.offset;
    return inner;
  }
  if (!here.policy) return std::nullopt;
  return SupervisedLayer{here.name,        *here.policy,       place.first_parameter,
                         place.parameters, place.state.offset, place.state.width};
}

std::optional<SupervisedLayer> ContainerFaults::supervised(std::span<const std::uint32_t> path) const {
  if (path.empty()) return std::nullopt;
  const std::size_t step = of_.order_[path.front()];
  const Container* const inner = inside(step);
  return answering(step, inner ? ContainerFaults(*inner).supervised(path.subspan(1)) : std::nullopt);
}

std::optional<SupervisedLayer> ContainerFaults::supervised_with(std::size_t parameter) const {
  for (std::size_t i = 0; i < of_.steps_.size(); ++i) {
    const std::size_t own = parameter - of_.places_[i].first_parameter;
    if (parameter < of_.places_[i].first_parameter || own >= of_.places_[i].parameters) continue;
    const Container* const inner = inside(i);
    return answering(i, inner ? ContainerFaults(*inner).supervised_with(own) : std::nullopt);
  }
  return std::nullopt;
}

bool ContainerFaults::reads(std::size_t step, std::size_t source, const RowValues& row) const noexcept {
  if (step != of_.mixture_.merge || of_.mixture_.experts == 0 || source == 0) return true;
  // The sum does not look at parts of which the gate gives nothing.
  const float* const shares = row.cache + of_.places_[of_.mixture_.gate].y.offset;
  for (std::size_t at = source - 1; at < of_.steps_[of_.mixture_.gate].layer->out(); at += of_.mixture_.experts)
    if (shares[at] != 0.0f) return true;
  return false;
}

void ContainerFaults::find(const RowValues& row, std::vector<InnerPath>& to) const {
  const auto is_finite = [](const float* values, std::size_t count) {
    return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
  };
  const auto output = [&](std::size_t i) { return of_.is_last(i) ? row.y : row.cache + of_.places_[i].y.offset; };
  const auto has_bad_output = [&](std::size_t i) { return !is_finite(output(i), of_.steps_[i].layer->out()); };
  // From the end: a value that is not finite, and that something read, came of its sources or of its layer.
  std::vector<bool> is_read(of_.steps_.size()), is_fault(of_.steps_.size());
  is_read.back() = true;
  for (std::size_t i = of_.steps_.size(); i-- > 0;) {
    const Container::Columns& state = of_.places_[i].state;
    const bool has_bad_state = state.width != 0 && !is_finite(row.state + state.offset, state.width);
    if (!has_bad_state && !(is_read[i] && has_bad_output(i))) continue;
    is_fault[i] = true;
    for (std::size_t s = 0; s < of_.steps_[i].sources.size(); ++s) {
      const std::int32_t source = of_.steps_[i].sources[s];
      if (source == Container::kInput || !reads(i, s, row) || !has_bad_output(static_cast<std::size_t>(source)))
        continue;
      is_read[static_cast<std::size_t>(source)] = true;
      is_fault[i] = false;
    }
  }
  for (std::uint32_t place = 0; place < of_.order_.size(); ++place) {
    const std::size_t i = of_.order_[place];
    if (!is_fault[i]) continue;
    std::vector<InnerPath> deeper;
    if (const Container* const inner = inside(i))
      ContainerFaults(*inner).find({output(i), row.cache ? row.cache + of_.places_[i].cache.offset : nullptr,
                                    row.state ? row.state + of_.places_[i].state.offset : nullptr},
                                   deeper);
    if (deeper.empty()) deeper.emplace_back();  // its own, or what was rounded behind it
    for (InnerPath& path : deeper) {
      path.insert(path.begin(), place);
      to.push_back(std::move(path));
    }
  }
}

}  // namespace weft::mesh
