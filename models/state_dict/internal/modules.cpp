// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/internal/modules.hpp"

#include "models/tensor_values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::models::state_dict {
namespace {

using formats::Tensor;

/// Ends of names that say what a tensor is of its module.
// Longer ends before those that they end with.
constexpr std::array<std::string_view, 12> kLeaves{
    "in_proj_weight", "in_proj_bias", "running_mean", "running_var", "num_batches_tracked", "weight", "bias", "gamma",
    "beta",           "gain",         "kernel",       "scale"};
constexpr std::array<std::string_view, 4> kRecurrentLeaves{"weight_ih", "weight_hh", "bias_ih", "bias_hh"};

constexpr std::size_t kMostModules = 1024;  // whose order is searched

struct Split {
  std::string module, leaf;
};
bool is_separator(char c) { return c == '.' || c == '_' || c == '/'; }
/// "lstm.weight_ih_l0" is weight_ih of "lstm.l0": each layer of a stack is a module.
Split split_name(const std::string& name) {
  for (const std::string_view leaf : kRecurrentLeaves) {
    const std::size_t at = name.rfind(leaf);
    if (at == name.npos || (at > 0 && !is_separator(name[at - 1]))) continue;
    const std::string before = name.substr(0, at == 0 ? 0 : at - 1), after = name.substr(at + leaf.size());
    const std::string layer = after.empty() ? "" : after.substr(1);
    return {before.empty() || layer.empty() ? before + layer : before + "." + layer, std::string(leaf)};
  }
  for (const std::string_view leaf : kLeaves) {
    if (name == leaf) return {"", name};
    if (name.ends_with(leaf) && is_separator(name[name.size() - leaf.size() - 1]))
      return {name.substr(0, name.size() - leaf.size() - 1), std::string(leaf)};
  }
  return {name, "weight"};
}

struct Group {
  std::string name;
  std::map<std::string, Tensor> leaves;
};

const Tensor* leaf_of(const Group& group, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto found = group.leaves.find(std::string(name)); found != group.leaves.end()) return &found->second;
  return nullptr;
}

/// The last part of a module's name, and what comes before.
Split parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? Split{"", name} : Split{name.substr(0, dot), name.substr(dot + 1)};
}
bool has_word(std::string text, std::initializer_list<std::string_view> words) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != text.npos; });
}

class ModuleMaker {
 public:
  ModuleMaker(const formats::TensorFile& file, std::size_t heads, Problems& problems)
      : heads_(heads), problems_(problems) {
    for (const Tensor& tensor : file.tensors()) {
      if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) {
        problems_.add("tensor '" + tensor.name + "' " + to_string(tensor.shape) + ": holds no values");
        continue;
      }
      const Split split = split_name(tensor.name);
      Group& group = groups_[split.module];
      group.name = split.module;
      if (!has_values(tensor.type) && split.leaf != "num_batches_tracked")
        problems_.add("tensor '" + tensor.name + "': " + tensor.type + " is no type of weights here");
      if (!group.leaves.emplace(split.leaf, tensor).second)
        problems_.add("tensor '" + tensor.name + "': module '" + split.module + "' has its " + split.leaf + " twice");
    }
  }

  std::vector<Module> make() && {
    if (groups_.size() > kMostModules) {
      problems_.add(std::to_string(groups_.size()) + " modules, at most " + std::to_string(kMostModules));
      return {};
    }
    join_attention();
    join_gated();
    for (const auto& [name, group] : groups_) add(group);
    std::sort(modules_.begin(), modules_.end(),
              [](const Module& a, const Module& b) { return compare_names(a.name, b.name) < 0; });
    return std::move(modules_);
  }

 private:
  void refuse(const Group& group, const std::string& why) {
    std::string tensors;
    for (const auto& [leaf, tensor] : group.leaves)
      tensors += (tensors.empty() ? "" : ", ") + std::string("'") + tensor.name + "' " + to_string(tensor.shape);
    problems_.add(tensors + ": " + why);
  }
  static void use(Module& module, std::string parameter, const Tensor& tensor, std::size_t first_row = 0,
                  bool is_transposed = false) {
    module.parameters[std::move(parameter)] = {tensor.name, first_row, is_transposed};
    if (std::find(module.tensors.begin(), module.tensors.end(), tensor.name) == module.tensors.end())
      module.tensors.push_back(tensor.name);
  }
  /// A vector of so many values, or a problem.
  bool fits(const Tensor& tensor, const Shape& shape) {
    if (tensor.shape == shape) return true;
    problems_.add("tensor '" + tensor.name + "': " + to_string(tensor.shape) + ", expected " + to_string(shape));
    return false;
  }

  // --- modules of several modules

  /// Children of a name by their last parts, the first that is there of each list.
  using Roles = std::vector<std::pair<const char*, std::vector<std::string_view>>>;
  std::optional<std::map<std::string, Group>> children(const std::string& parent, const Roles& roles) const {
    std::map<std::string, Group> found;
    for (const auto& [role, names] : roles)
      for (const std::string_view name : names)
        if (const auto group = groups_.find((parent.empty() ? "" : parent + ".") + std::string(name));
            group != groups_.end() && leaf_of(group->second, {"weight", "kernel"})) {
          found[role] = group->second;
          break;
        }
    if (found.size() != roles.size()) return std::nullopt;
    return found;
  }
  std::vector<std::string> parents() const {
    std::vector<std::string> all;
    for (const auto& [name, group] : groups_)
      if (const std::string parent = parent_of(name).module; all.empty() || all.back() != parent) all.push_back(parent);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  void join_attention() {
    const Roles roles{{"query", {"q_proj", "query", "wq", "q"}},
                      {"key", {"k_proj", "key", "wk", "k"}},
                      {"value", {"v_proj", "value", "wv", "v"}},
                      {"output", {"o_proj", "out_proj", "output", "wo", "o", "out"}}};
    for (const std::string& parent : parents()) {
      if (const auto parts = children(parent, roles)) add_attention(parent, *parts);
      const auto own = groups_.find(parent), out = groups_.find((parent.empty() ? "" : parent + ".") + "out_proj");
      if (own != groups_.end() && out != groups_.end() && own->second.leaves.contains("in_proj_weight"))
        add_fused_attention(parent, own->second, out->second);
    }
  }
  Module attention(const std::string& name, std::size_t width, std::size_t queries, std::size_t keys) {
    Module module{.name = name, .type = "attention", .in = width, .out = width};
    if (heads_ == 0 || queries % heads_ != 0 || keys % (queries / std::max<std::size_t>(heads_, 1)) != 0)
      problems_.add("module '" + name + "': attention of " + std::to_string(queries) + " values in " +
                    (heads_ == 0 ? "an unknown number of heads: no weight says it; --heads does"
                                 : std::to_string(heads_) + " heads, which do not divide it"));
    if (heads_ != 0) {
      module.options["heads"] = static_cast<double>(heads_);
      const std::size_t each = std::max<std::size_t>(queries / heads_, 1);
      module.options["kv_heads"] = static_cast<double>(std::max<std::size_t>(keys / each, 1));
      module.options["head_dim"] = static_cast<double>(each);
    }
    return module;
  }
  void add_attention(const std::string& parent, const std::map<std::string, Group>& parts) {
    const Tensor& query = *leaf_of(parts.at("query"), {"weight", "kernel"});
    const Tensor& key = *leaf_of(parts.at("key"), {"weight", "kernel"});
    if (query.shape.size() != 2 || key.shape.size() != 2) return;
    const std::size_t width = query.shape[1], queries = query.shape[0], keys = key.shape[0];
    Module module = attention(parent, width, queries, keys);
    const Shape shapes[] = {{queries, width}, {keys, width}, {keys, width}, {width, queries}};
    std::size_t i = 0;
    for (const char* const role : {"query", "key", "value", "output"}) {
      const Group& group = parts.at(role);
      const Tensor& weight = *leaf_of(group, {"weight", "kernel"});
      if (!fits(weight, shapes[i++])) return;
      use(module, role, weight);
      const Tensor* const bias = leaf_of(group, {"bias"});
      const std::string key_of = i == 4 ? "out_bias" : "bias";
      if (i > 1 && i < 4 && std::get<bool>(module.options["bias"]) != (bias != nullptr))
        return refuse(group, "has other biases than its query");
      module.options[key_of] = bias != nullptr;
      if (bias && fits(*bias, {weight.shape[0]})) use(module, std::string(role) + "_bias", *bias);
    }
    for (const auto& [role, group] : parts) groups_.erase(group.name);
    modules_.push_back(std::move(module));
  }
  void add_fused_attention(const std::string& name, const Group& own, const Group& out) {
    const Tensor &fused = own.leaves.at("in_proj_weight"), *const output = leaf_of(out, {"weight"});
    if (fused.shape.size() != 2 || !output || fused.shape[0] != 3 * fused.shape[1]) return;
    const std::size_t width = fused.shape[1];
    if (!fits(*output, {width, width})) return;
    Module module = attention(name, width, width, width);
    const Tensor *const bias = leaf_of(own, {"in_proj_bias"}), *const out_bias = leaf_of(out, {"bias"});
    module.options["bias"] = bias != nullptr, module.options["out_bias"] = out_bias != nullptr;
    std::size_t row = 0;
    for (const char* const role : {"query", "key", "value"}) {
      use(module, role, fused, row);
      if (bias) use(module, std::string(role) + "_bias", *bias, row);
      row += width;
    }
    use(module, "output", *output);
    if (out_bias) use(module, "output_bias", *out_bias);
    const std::string out_name = out.name;
    groups_.erase(out_name);
    groups_.erase(name);
    modules_.push_back(std::move(module));
  }

  void join_gated() {
    for (const std::string& parent : parents())
      for (const Roles& roles : {Roles{{"gate", {"gate_proj"}}, {"up", {"up_proj"}}, {"down", {"down_proj"}}},
                                 Roles{{"gate", {"w1"}}, {"up", {"w3"}}, {"down", {"w2"}}}})
        if (const auto parts = children(parent, roles)) add_gated(parent, *parts);
  }
  void add_gated(const std::string& parent, const std::map<std::string, Group>& parts) {
    const Tensor& gate = *leaf_of(parts.at("gate"), {"weight", "kernel"});
    const Tensor& down = *leaf_of(parts.at("down"), {"weight", "kernel"});
    if (gate.shape.size() != 2 || down.shape.size() != 2) return;
    const std::size_t hidden = gate.shape[0], width = gate.shape[1], out = down.shape[0];
    Module module{.name = parent, .type = "swiglu", .in = width, .out = out};
    module.options["hidden"] = static_cast<double>(hidden);
    std::size_t biases = 0;
    for (const auto& [role, group] : parts) {
      const Tensor& weight = *leaf_of(group, {"weight", "kernel"});
      if (!fits(weight, role == "down" ? Shape{out, hidden} : Shape{hidden, width})) return;
      use(module, role, weight);
      const Tensor* const bias = leaf_of(group, {"bias"});
      if (bias && fits(*bias, {weight.shape[0]})) use(module, role + "_bias", *bias), ++biases;
    }
    if (biases % 3 != 0) return refuse(parts.at("gate"), "of the three matrices some have biases and some none");
    module.options["bias"] = biases == 3;
    for (const auto& [role, group] : parts) groups_.erase(group.name);
    modules_.push_back(std::move(module));
  }

  // --- modules of their own

  void add(const Group& group) {
    if (leaf_of(group, {"weight_ih", "weight_hh"})) return add_recurrent(group);
    if (leaf_of(group, {"running_mean"})) return add_batch_norm(group);
    const Tensor* const weight = leaf_of(group, {"weight", "kernel", "gamma", "gain", "scale"});
    const Tensor* const bias = leaf_of(group, {"bias", "beta"});
    if (!weight) return refuse(group, "no weight stands beside it");
    if (group.leaves.size() != (bias ? 2u : 1u)) return refuse(group, "are no layer together");
    Module module{.name = group.name, .out = weight->shape.empty() ? 0 : weight->shape[0]};
    switch (weight->shape.size()) {
      case 1:
        module.type = bias ? "layer_norm" : "rms_norm";
        module.in = module.out;
        break;
      case 2:
        if (!bias && is_table(group.name, weight->shape)) return add_table(std::move(module), *weight);
        module.type = "dense";
        module.in = weight->shape[1];
        break;
      case 3:
      case 4:
      case 5:
        module.type = "conv" + std::to_string(weight->shape.size() - 2) + "d";
        module.group_in = weight->shape[1];
        module.kernel = Shape(weight->shape.begin() + 2, weight->shape.end());
        break;
      default:
        return refuse(group, "of rank " + std::to_string(weight->shape.size()) + "; a weight has 1 to 5 axes");
    }
    if (bias && !fits(*bias, {module.out})) return;
    const bool is_norm = weight->shape.size() == 1;
    if (!is_norm) module.options["bias"] = bias != nullptr;
    use(module, is_norm ? "gain" : "weight", *weight);
    if (bias) use(module, "bias", *bias);
    modules_.push_back(std::move(module));
  }
  static bool is_table(const std::string& name, const Shape& shape) {
    if (has_word(name, {"emb", "wte", "wpe", "token"})) return true;
    if (has_word(name, {"head", "fc", "linear", "dense", "proj", "out", "class", "lin", "decoder"})) return false;
    return shape[0] > 10 * shape[1];
  }
  void add_table(Module module, const Tensor& table) {
    module.type = "embedding";
    module.options["vocabulary"] = static_cast<double>(table.shape[0]);
    module.in = 0;
    module.out = table.shape[1];
    use(module, "table", table, 0, true);
    modules_.push_back(std::move(module));
  }

  void add_recurrent(const Group& group) {
    const Tensor *const ih = leaf_of(group, {"weight_ih"}), *const hh = leaf_of(group, {"weight_hh"});
    if (!ih || !hh || ih->shape.size() != 2 || hh->shape.size() != 2)
      return refuse(group, "a recurrent layer has weight_ih [gates h, in] and weight_hh [gates h, h]");
    if (group.name.ends_with("_reverse") || groups_.contains(group.name + "_reverse"))
      return refuse(group, "recurrent layers of both directions are not imported");
    const std::size_t hidden = hh->shape[1], rows = hh->shape[0], gates = hidden ? rows / hidden : 0;
    if (gates * hidden != rows || (gates != 1 && gates != 3 && gates != 4) || ih->shape[0] != rows)
      return refuse(group,
                    "rows for 1 (rnn), 3 (gru) or 4 (lstm) gates of " + std::to_string(hidden) + " were expected");
    Module module{.name = group.name, .type = gates == 4 ? "lstm" : gates == 3 ? "gru" : "rnn"};
    module.in = ih->shape[1], module.out = hidden;
    use(module, "weight_ih", *ih);
    use(module, "weight_hh", *hh);
    const Tensor *const bias_ih = leaf_of(group, {"bias_ih"}), *const bias_hh = leaf_of(group, {"bias_hh"});
    if ((bias_ih == nullptr) != (bias_hh == nullptr) || group.leaves.size() != (bias_ih ? 4u : 2u))
      return refuse(group, "are no recurrent layer together");
    module.options["bias"] = bias_ih != nullptr;
    if (bias_ih && fits(*bias_ih, {rows}) && fits(*bias_hh, {rows}))
      use(module, "bias_ih", *bias_ih), use(module, "bias_hh", *bias_hh);
    modules_.push_back(std::move(module));
  }

  void add_batch_norm(const Group& group) {
    const Tensor *const mean = leaf_of(group, {"running_mean"}), *const variance = leaf_of(group, {"running_var"});
    if (!variance || mean->shape.size() != 1) return refuse(group, "running_mean and running_var belong together");
    Module module{.name = group.name, .type = "batch_norm", .in = mean->shape[0], .out = mean->shape[0]};
    module.batch_norm = {mean->name, variance->name, "", ""};
    for (const auto& [leaf, tensor] : group.leaves) {
      module.tensors.push_back(tensor.name);
      if (leaf == "num_batches_tracked") continue;
      if (!fits(tensor, mean->shape)) return;
      if (leaf == "weight" || leaf == "gamma") module.batch_norm.gain = tensor.name;
      if (leaf == "bias" || leaf == "beta") module.batch_norm.bias = tensor.name;
    }
    modules_.push_back(std::move(module));
  }

  std::size_t heads_;
  Problems& problems_;
  std::map<std::string, Group> groups_;
  std::vector<Module> modules_;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Numbers of any length, without leading zeros longer ones are greater.
int compare_numbers(std::string_view a, std::string_view b) {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  return a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
}

}  // namespace

std::vector<std::string> name_parts(const std::string& name) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < name.size();) {
    if (is_separator(name[i])) {
      ++i;
      continue;
    }
    const bool is_number = is_digit(name[i]);
    std::size_t end = i;
    while (end < name.size() && !is_separator(name[end]) && is_digit(name[end]) == is_number) ++end;
    parts.push_back(name.substr(i, end - i));
    i = end;
  }
  return parts;
}

int compare_names(const std::string& a, const std::string& b, bool* is_numeric) {
  if (is_numeric) *is_numeric = false;
  const std::vector<std::string> x = name_parts(a), y = name_parts(b);
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const bool are_numbers = is_digit(x[i][0]) && is_digit(y[i][0]);
    const int order = are_numbers ? compare_numbers(x[i], y[i]) : x[i].compare(y[i]);
    if (order == 0) continue;
    if (is_numeric) *is_numeric = are_numbers;
    return order;
  }
  return x.size() == y.size() ? a.compare(b) : x.size() < y.size() ? -1 : 1;
}

std::optional<bool> gap_between(const std::string& a, const std::string& b) {
  const std::vector<std::string> x = name_parts(a), y = name_parts(b);
  if (x.empty() || x.size() != y.size() || !std::equal(x.begin(), x.end() - 1, y.begin()) || !is_digit(x.back()[0]) ||
      !is_digit(y.back()[0]) || x.back().size() > 9 || y.back().size() > 9)
    return std::nullopt;
  // A number that is a part of a word counts modules of a kind: conv1, conv2.
  if (a.size() > x.back().size() && !is_separator(a[a.size() - x.back().size() - 1])) return std::nullopt;
  return std::stoul(y.back()) > std::stoul(x.back()) + 1;
}

std::vector<Module> modules_of(const formats::TensorFile& file, std::size_t heads, Problems& problems) {
  return ModuleMaker(file, heads, problems).make();
}

}  // namespace weft::models::state_dict
