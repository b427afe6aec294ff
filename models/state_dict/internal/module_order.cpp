// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/internal/modules.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::state_dict {
namespace {

constexpr std::size_t kMostSteps = 1000000, kWanted = 2;

bool is_convolution(const Module& module) { return module.type.starts_with("conv"); }

/// Searches all orders, modules by name first.
class OrderSearch {
 public:
  explicit OrderSearch(const std::vector<Module>& modules) : modules_(modules), used_(modules.size()) {
    before_.resize(modules.size());
    for (std::size_t a = 0; a < modules.size(); ++a)
      for (std::size_t b = 0; b < modules.size(); ++b) {
        bool is_numeric = false;
        if (compare_names(modules[a].name, modules[b].name, &is_numeric) < 0 && is_numeric) before_[b].push_back(a);
      }
  }
  std::vector<std::vector<std::size_t>> run() && {
    extend();
    return std::move(found_);
  }

 private:
  /// True where module b may come after a.
  bool follows(const Module& a, const Module& b) const {
    if (b.type == "embedding") return false;  // it takes ids, which no layer gives
    if (b.type == "batch_norm") return b.in == a.out && (is_convolution(a) || a.type == "dense");
    if (is_convolution(b))
      return is_convolution(last_layer()) && a.out % b.group_in == 0 && a.kernel.size() == b.kernel.size();
    if (is_convolution(last_layer())) return b.type == "dense" && b.in % a.out == 0;
    return a.out == b.in;
  }
  /// The last module that is a layer of its own.
  const Module& last_layer() const {
    std::size_t i = order_.size() - 1;
    while (i > 0 && modules_[order_[i]].type == "batch_norm") --i;
    return modules_[order_[i]];
  }
  bool may_be_next(std::size_t i) const {
    if (used_[i]) return false;
    for (const std::size_t earlier : before_[i])
      if (!used_[earlier]) return false;
    if (order_.empty()) return modules_[i].type != "batch_norm";
    // A folded norm leaves the widths of what it belongs to.
    Module last = last_layer();
    last.out = modules_[order_.back()].out;
    return follows(modules_[order_.back()].type == "batch_norm" ? last : modules_[order_.back()], modules_[i]);
  }
  void extend() {
    if (found_.size() >= kWanted || ++steps_ > kMostSteps) return;
    if (order_.size() == modules_.size()) {
      found_.push_back(order_);
      return;
    }
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      if (!may_be_next(i)) continue;
      used_[i] = true, order_.push_back(i);
      extend();
      used_[i] = false, order_.pop_back();
    }
  }

  const std::vector<Module>& modules_;
  std::vector<bool> used_;
  std::vector<std::vector<std::size_t>> before_;  // of each: those whose numbers are lower
  std::vector<std::size_t> order_;
  std::vector<std::vector<std::size_t>> found_;
  std::size_t steps_ = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> orders_of(const std::vector<Module>& modules) {
  return OrderSearch(modules).run();
}

}  // namespace weft::models::state_dict
