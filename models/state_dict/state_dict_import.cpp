// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/state_dict_import.hpp"

#include "models/import.hpp"
#include "models/nonfinite.hpp"
#include "models/state_dict/internal/module_values.hpp"
#include "models/state_dict/internal/modules.hpp"
#include "models/tensor_values.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/persistence/foreign_weights.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

namespace weft::models {
namespace {

using state_dict::Module;
using state_dict::Values;

constexpr double kBatchNormEpsilon = 1e-5;  // PyTorch's, which no file says

bool is_convolution(const Module& module) { return module.type.starts_with("conv"); }

std::size_t elements_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

/// Values of a file's tensor as float32.
Result<std::vector<float>> values_of(const formats::TensorFile& file, const std::string& name) {
  WEFT_TRY(const formats::Tensor tensor, file.find(name));
  std::vector<float> values(elements_of(tensor.shape));
  WEFT_CHECK(decode_values(tensor.type, tensor.bytes, values));
  file.forget(name);
  return values;
}

/// A parameter's values: those of a tensor, each row times a factor where a norm is folded in, or numbers.
struct ValueOrigin {
  Values values;
  std::vector<float> factors;  // of rows; empty: 1
  std::vector<float> numbers;  // all of them, where no tensor has them
};
using ValueOrigins = std::map<std::pair<std::uint32_t, std::string>, ValueOrigin>;

Status read_rows(const formats::TensorFile& file, const ValueOrigin& origin, const mesh::ParameterRows& wanted) {
  if (!origin.numbers.empty()) {
    std::copy_n(origin.numbers.begin() + static_cast<std::ptrdiff_t>(wanted.first), wanted.values.size(),
                wanted.values.begin());
    return {};
  }
  WEFT_CHECK(state_dict::read_values(file, origin.values, wanted));
  const std::size_t in = std::max<std::size_t>(wanted.spec.in, 1), rows = wanted.values.size() / in;
  for (std::size_t i = 0; i < rows && !origin.factors.empty(); ++i)
    for (std::size_t k = 0; k < in; ++k)
      wanted.values[i * in + k] *= origin.factors[origin.values.first_row + wanted.first + i];
  return {};
}

/// Makes the network of modules in their order.
class ChainMaker {
 public:
  ChainMaker(const formats::TensorFile& file, const StateDictOptions& options) : file_(file), options_(options) {}

  Status make(const std::vector<Module>& chain, const std::string& name) {
    chain_ = &chain;
    spec.name = name;
    WEFT_CHECK(choose_input());
    spec.inputs.push_back({"x", shape_});
    for (std::size_t i = 0; i < chain.size(); ++i) WEFT_CHECK(add(i));
    const auto depth = static_cast<std::uint32_t>(spec.layers.size());
    spec.grid = {.z = depth, .y = 1, .x = 1, .layers = 1};
    spec.outputs.push_back({"y", {depth - 1, 0, 0, 0}});
    note_assumptions();
    return {};
  }

  mesh::NetworkSpec spec;
  ValueOrigins origins;
  std::vector<std::string> notes, layers;

 private:
  Status choose_input() {
    const Module& first = chain_->front();
    shape_ = options_.input;
    if (!shape_.empty()) return {};
    if (!is_convolution(first)) {
      shape_ = {first.type == "embedding" ? std::size_t{1} : first.in};
      return {};
    }
    std::size_t last = 0;
    Shape lost(first.kernel.size());
    for (std::size_t i = 0; i < chain_->size(); ++i) {
      const Module& module = (*chain_)[i];
      if (!is_convolution(module)) continue;
      last = i;
      for (std::size_t a = 0; a < lost.size(); ++a) lost[a] += module.kernel[a] - 1;
    }
    const auto next = std::find_if(chain_->begin() + static_cast<std::ptrdiff_t>(last) + 1, chain_->end(),
                                   [](const Module& module) { return module.type == "dense"; });
    const std::size_t places = next == chain_->end() ? 0 : next->in / (*chain_)[last].out;
    const auto side = static_cast<std::size_t>(std::llround(std::pow(places, 1.0 / static_cast<double>(lost.size()))));
    std::size_t power = 1;
    for (std::size_t a = 0; a < lost.size(); ++a) power *= side;
    if (places == 0 || power != places)
      return fail(Errc::unsupported, "module '" + first.name + "': how large an input a " + first.type +
                                         " takes is in no weight; say it, channels first, as in --shape x=" +
                                         std::to_string(first.group_in) + ",28,28");
    shape_ = {first.group_in};
    for (const std::size_t axis : lost) shape_.push_back(side + axis);
    notes.push_back("the input is taken to be " + to_string(shape_) + ": then " + std::to_string(next->in) +
                    " values reach '" + next->name + "'");
    return {};
  }

  std::uint32_t last() const { return static_cast<std::uint32_t>(spec.layers.size() - 1); }
  mesh::LayerSpec& push(const std::string& type, std::size_t out) {
    mesh::LayerSpec& layer = spec.layers.emplace_back();
    layer.at = {last(), 0, 0, 0};
    layer.type = type;
    layer.out = out;
    return layer;
  }
  /// True where an activation stands behind a module: where both names are numbers of one list (nn.Sequential), in a
  /// gap between them; else behind all but the last, and behind a norm rather than before it.
  bool bends(std::size_t i) const {
    const Module& module = (*chain_)[i];
    if (options_.activation.empty() || !(is_convolution(module) || module.type == "dense" || is_norm(module)))
      return false;
    std::size_t last = i;
    while (last + 1 < chain_->size() && (*chain_)[last + 1].type == "batch_norm") ++last;
    if (last + 1 == chain_->size()) return false;
    const Module& next = (*chain_)[last + 1];
    if (const auto gap = state_dict::gap_between((*chain_)[last].name, next.name)) return *gap;
    return !is_norm(next);
  }
  static bool is_norm(const Module& module) { return module.type == "layer_norm" || module.type == "rms_norm"; }

  Status add(std::size_t i) {
    const Module& module = (*chain_)[i];
    if (module.type == "batch_norm") return fold(module);
    const bool is_feature_norm = is_norm(module);
    if (is_feature_norm && shape_.size() > 1 && i > 0 && is_convolution((*chain_)[i - 1]))
      return fail(Errc::unsupported, "module '" + module.name + "': a norm over the channels of a convolution");
    mesh::LayerSpec& layer = push(module.type, is_feature_norm ? 0 : module.out);
    layer.options = module.options;
    if (is_convolution(module)) WEFT_CHECK(size_convolution(module, layer));
    if (module.type == "dense" && i > 0 && shape_.size() > 1 && from_planes_) layer.view = {module.in};
    if (module.type == "dense") WEFT_CHECK(check_dense(module));
    if (module.type == "embedding")
      shape_ = elements_of(shape_) == 1 ? Shape{module.out} : Shape{elements_of(shape_), module.out};
    else if (!is_convolution(module) && module.type != "dense" && !shape_.empty())
      shape_.back() = module.out;
    if (!is_convolution(module)) from_planes_ = false;
    set_dtype(module, layer);
    if (bends(i)) {
      if (is_feature_norm)
        push("activation", 0).options["activation"] = options_.activation;
      else
        layer.options["activation"] = options_.activation;
    }
    const std::uint32_t z =
        static_cast<std::uint32_t>(spec.layers.size() - (spec.layers.back().type == "activation" ? 2 : 1));
    for (const auto& [parameter, values] : module.parameters) origins[{z, parameter}].values = values;
    place_ = z;
    describe(module);
    return {};
  }

  Status size_convolution(const Module& module, mesh::LayerSpec& layer) {
    const std::size_t axes = module.kernel.size(), channels = shape_.empty() ? 0 : shape_[0];
    if (shape_.size() != axes + 1 || channels % module.group_in != 0)
      return fail(Errc::shape_mismatch, "module '" + module.name + "': a " + module.type + " of " +
                                            std::to_string(module.group_in) + " channels a group takes no input of " +
                                            to_string(shape_));
    std::vector<double> kernel;
    for (std::size_t a = 0; a < axes; ++a) {
      kernel.push_back(static_cast<double>(module.kernel[a]));
      if (shape_[a + 1] < module.kernel[a])
        return fail(Errc::shape_mismatch, "module '" + module.name + "': a kernel of " + to_string(module.kernel) +
                                              " is larger than its input of " + to_string(shape_));
      shape_[a + 1] -= module.kernel[a] - 1;
    }
    shape_[0] = module.out;
    layer.options["kernel"] = std::move(kernel);
    layer.options["groups"] = static_cast<double>(channels / module.group_in);
    from_planes_ = true;
    return {};
  }
  Status check_dense(const Module& module) {
    const std::size_t count = elements_of(shape_);
    if (from_planes_ ? count != module.in : !shape_.empty() && shape_.back() != module.in)
      return fail(
          Errc::shape_mismatch,
          "module '" + module.name + "' takes " + std::to_string(module.in) + " values, and " + to_string(shape_) +
              " reach it; strides, paddings and pools are in no weight, so convolutions step by 1 without them");
    if (from_planes_) shape_ = {module.in};
    if (!shape_.empty()) shape_.back() = module.out;
    return {};
  }
  void set_dtype(const Module& module, mesh::LayerSpec& layer) const {
    if (options_.encoding) {
      if (is_norm(module)) return;
      layer.dtype = options_.encoding->dtype;
      if (has_scale(layer.dtype)) layer.granularity = options_.encoding->granularity;
      return;
    }
    std::string type;
    for (const std::string& name : module.tensors) {
      const auto tensor = file_.describe(name);
      if (!tensor || tensor->shape.size() < 2) continue;
      if (!type.empty() && type != tensor->type) return;
      type = tensor->type;
    }
    if (type == "float16" || type == "bfloat16") layer.dtype = *parse_dtype(type);
  }

  /// y = (W x + b - mean) f + bias with f = gain / sqrt(variance + epsilon) as a matrix and a bias.
  Status fold(const Module& norm) {
    WEFT_TRY(const std::vector<float> mean, values_of(file_, norm.batch_norm.mean));
    WEFT_TRY(const std::vector<float> variance, values_of(file_, norm.batch_norm.variance));
    std::vector<float> gain(mean.size(), 1.0f), shift(mean.size());
    if (!norm.batch_norm.gain.empty()) {
      WEFT_TRY(gain, values_of(file_, norm.batch_norm.gain));
    }
    if (!norm.batch_norm.bias.empty()) {
      WEFT_TRY(shift, values_of(file_, norm.batch_norm.bias));
    }
    ValueOrigin& weight = origins[{place_, "weight"}];
    ValueOrigin& bias = origins[{place_, "bias"}];
    std::vector<float> before(mean.size());
    if (!bias.numbers.empty()) {
      before = bias.numbers;
    } else if (!bias.values.tensor.empty()) {
      WEFT_TRY(before, values_of(file_, bias.values.tensor));
    }
    weight.factors.resize(mean.size(), 1.0f);
    bias.numbers.resize(mean.size());
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double factor = gain[c] / std::sqrt(static_cast<double>(variance[c]) + kBatchNormEpsilon);
      weight.factors[c] = static_cast<float>(weight.factors[c] * factor);
      bias.numbers[c] = static_cast<float>((static_cast<double>(before[c]) - mean[c]) * factor + shift[c]);
    }
    spec.layers[place_].options["bias"] = true;
    notes.push_back("module '" + norm.name +
                    "', a norm over batches, became part of what is before it, with an epsilon of "
                    "1e-5; those weights are not the file's bit for bit");
    return {};
  }

  void describe(const Module& module) {
    std::string text = (module.name.empty() ? "(no name)" : module.name) + ": " + module.type;
    if (!is_norm(module) && module.type != "embedding")
      text += " " + std::to_string(is_convolution(module) ? module.group_in : module.in) + " -> " +
              std::to_string(module.out);
    text += " of ";
    for (std::size_t i = 0; i < module.tensors.size(); ++i) text += (i ? ", " : "") + module.tensors[i];
    layers.push_back(std::move(text));
  }
  void note_assumptions() {
    std::size_t bent = 0;
    bool has_convolutions = false;
    for (const Module& module : *chain_) {
      bent += is_convolution(module) || module.type == "dense";
      has_convolutions = has_convolutions || is_convolution(module);
    }
    if (has_convolutions)
      notes.emplace_back("convolutions step by 1 without padding, and nothing pools between them: no weight says it");
    if (bent > 1 && options_.activation.empty())
      notes.emplace_back(
          "no activations: no weight says them; --activation relu puts one after each layer but the last");
  }

  const formats::TensorFile& file_;
  const StateDictOptions& options_;
  const std::vector<Module>* chain_ = nullptr;
  Shape shape_;  // that reaches the next module
  bool from_planes_ = false;
  std::uint32_t place_ = 0;  // of the last module's layer
};

std::string names_of(const std::vector<Module>& modules, const std::vector<std::size_t>& order) {
  std::string text;
  for (const std::size_t i : order) text += (text.empty() ? "" : ",") + modules[i].name;
  return text;
}

/// The modules in the order asked for, or in the only one that fits.
Result<std::vector<Module>> ordered(std::vector<Module> modules, const std::vector<std::string>& order) {
  std::vector<Module> chain;
  if (!order.empty()) {
    for (const std::string& name : order) {
      const auto found =
          std::find_if(modules.begin(), modules.end(), [&](const Module& module) { return module.name == name; });
      if (found == modules.end()) return fail(Errc::not_found, "order: there is no module '" + name + "' left");
      chain.push_back(std::move(*found));
      modules.erase(found);
    }
    if (!modules.empty()) return fail(Errc::invalid_argument, "order: does not say where '" + modules[0].name + "' is");
    return chain;
  }
  const auto orders = state_dict::orders_of(modules);
  if (orders.size() == 1) {
    for (const std::size_t i : orders[0]) chain.push_back(std::move(modules[i]));
    return chain;
  }
  if (orders.size() > 1)
    return fail(Errc::unsupported, "several orders of its modules fit, " + names_of(modules, orders[0]) + " and " +
                                       names_of(modules, orders[1]) + " among them; --order says which is meant");
  std::string listed;
  for (const Module& module : modules)
    listed += "; " + module.name + ": " + module.type + " " +
              std::to_string(is_convolution(module) ? module.group_in : module.in) + " -> " +
              std::to_string(module.out);
  return fail(
      Errc::unsupported,
      "there is no order in which each of its modules takes what the one before gives, so they are no chain; --network "
      "says which network they are of" +
          listed);
}

}  // namespace

bool is_state_dict_path(const std::string& path) {
  std::error_code unknown;
  return path.ends_with(".safetensors") && std::filesystem::is_regular_file(path, unknown);
}

Result<ImportedStateDict> import_state_dict(storage::FileSystem& files, const std::string& path,
                                            const StateDictOptions& options) {
  WEFT_TRY(const formats::SafetensorsFile file, formats::load_safetensors(files, path));
  auto imported = import_state_dict(file, std::filesystem::path(path).stem().string(), options);
  if (!imported) return fail(std::move(imported).error().within(path));
  return imported;
}

Result<ImportedStateDict> import_state_dict(const formats::SafetensorsFile& opened, const std::string& name,
                                            const StateDictOptions& options) {
  const auto file = std::make_shared<const formats::SafetensorsFile>(opened);
  Problems problems;
  std::vector<Module> modules = state_dict::modules_of(*file, options.heads, problems);
  if (problems.empty() && modules.empty()) problems.add("has no tensors");
  if (!problems.empty()) return problems.failure(Errc::unsupported, "weights");
  ImportedStateDict imported;
  mesh::MemoryEstimate estimate;
  std::uint64_t largest = 0;
  for (const formats::Tensor& tensor : file->tensors()) {
    const std::uint64_t count = elements_of(tensor.shape);
    imported.parameters += count;
    largest = std::max(largest, count * sizeof(float));
  }
  estimate.add("the largest tensor as the file has it, as float32 and quantized", 3 * largest);
  if (!options.describes_alone) WEFT_CHECK(mesh::check_memory("importing", estimate, options.max_memory));
  WEFT_TRY(const std::vector<Module> chain, ordered(std::move(modules), options.order));
  ChainMaker maker(*file, options);
  WEFT_CHECK(maker.make(chain, name));
  if (options.quantization_aware) WEFT_CHECK(train_stored(maker.spec.layers));
  WEFT_TRY(mesh::Graph graph, mesh::Graph::build(maker.spec));
  imported.graph = std::make_shared<const mesh::Graph>(std::move(graph));
  imported.notes = std::move(maker.notes);
  imported.layers = std::move(maker.layers);
  if (options.describes_alone) return imported;
  const auto origins = std::make_shared<const ValueOrigins>(std::move(maker.origins));
  const auto read = [file, origins](const mesh::ParameterRows& wanted) {
    return read_rows(*file, origins->at({wanted.node.at.z, wanted.spec.name}), wanted);
  };
  const auto replaced = options.allow_nonfinite ? std::make_shared<NonfiniteWeights>() : nullptr;
  WEFT_TRY(imported.content, mesh::entity_of(imported.graph, with_finite_values(read, replaced)));
  if (replaced && !replaced->empty()) imported.notes.push_back(replaced->note());
  return imported;
}

}  // namespace weft::models
