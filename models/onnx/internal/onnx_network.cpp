// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/onnx_network.hpp"

#include "models/onnx/internal/onnx_operators.hpp"
#include "models/onnx/internal/stored_weight.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

namespace weft::models::onnx {
namespace {

using formats::OnnxGraph;
using formats::OnnxNode;
using formats::OnnxPort;

constexpr std::int64_t kOldestOpset = 7, kNewestOpset = 23;

/// Names that a graph knows, those of the graphs around it too.
struct GraphNames {
  const GraphNames* outer = nullptr;
  std::unordered_map<std::string, Value> values;

  const Value* find(const std::string& name) const {
    for (const GraphNames* scope = this; scope; scope = scope->outer)
      if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
    return nullptr;
  }
};

class NetworkMaker {
 public:
  NetworkMaker(const formats::OnnxFile& file, const GraphOptions& options)
      : model_(file.model()), options_(options), operators_(layers_, opset()) {
    budget_ = std::size_t{1} << 20;
    for (const formats::Tensor& tensor : file.tensors().tensors()) budget_ += 8 * tensor.bytes.size();
  }

  Result<GraphNetwork> make(const std::string& name) && {
    WEFT_CHECK(check_versions());
    GraphNames scope;
    for (const formats::Tensor& tensor : model_.graph.initializers)
      scope.values[tensor.name] = Constant{tensor.type, tensor.shape, tensor.bytes};
    for (const OnnxPort& input : model_.graph.inputs)
      if (!scope.values.contains(input.name)) scope.values[input.name] = value_of(input);
    check_options();
    run(model_.graph, scope);
    find_outputs(scope);
    if (problems_.empty()) link_states();
    if (!problems_.empty()) return problems_.failure(Errc::unsupported, "graph");
    merge();
    if (!problems_.empty()) return problems_.failure(Errc::unsupported, "graph");
    return finish(name);
  }

 private:
  std::int64_t opset() const {
    const auto found = model_.opsets.find("");
    return found == model_.opsets.end() ? 0 : found->second;
  }
  Status check_versions() const {
    if (opset() >= kOldestOpset && opset() <= kNewestOpset) return {};
    return fail(Errc::unsupported, "operators of version " + std::to_string(opset()) + ", expected " +
                                       std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset));
  }

  /// An axis of an input that the file says, or its name stands for.
  std::optional<std::int64_t> extent_of(const formats::OnnxAxis& axis) const {
    if (axis.extent || axis.name.empty()) return axis.extent;
    const auto pin = options_.pins.find(axis.name);
    if (pin == options_.pins.end()) return std::nullopt;
    return static_cast<std::int64_t>(std::clamp(pin->second, 0.0, 1e9));
  }

  /// An input as a constant that it is pinned to, or as a port.
  Value value_of(const OnnxPort& input) {
    const std::string what = "input '" + printable(input.name) + "'";
    const auto pin = options_.pins.find(input.name);
    Shape shape;
    const auto given = options_.shapes.find(input.name);
    if (given != options_.shapes.end()) {
      shape = given->second;
      if (input.axes && input.axes->size() != shape.size())
        problems_.add(what + " has " + std::to_string(input.axes->size()) + " axes, not " + to_string(shape));
    } else if (!input.axes) {
      if (pin == options_.pins.end()) problems_.add(what + ": its shape is not said; say it with --shape");
    } else {
      std::size_t unknown = 0;
      for (std::size_t i = 0; i < input.axes->size(); ++i) {
        const auto extent = extent_of((*input.axes)[i]);
        // The first axis that is not said is that of samples. A network takes one: sessions are Weft's.
        if (!extent && unknown++ > 0 && pin == options_.pins.end())
          problems_.add(what + ": axis " + std::to_string(i) + " is not said; say it with --shape" +
                        ((*input.axes)[i].name.empty() ? "" : ", or --pin " + printable((*input.axes)[i].name)));
        shape.push_back(extent && *extent > 0 && *extent <= (1 << 24) ? static_cast<std::size_t>(*extent) : 1);
      }
    }
    if (pin != options_.pins.end()) {
      std::size_t count = 1;
      for (const std::size_t extent : shape) count *= std::min<std::size_t>(extent, 1 << 20);
      if (count > (1 << 20)) count = 1, shape = {};
      if (is_integer_type(input.type)) {
        const std::vector<std::int64_t> values(count, static_cast<std::int64_t>(std::clamp(pin->second, -9e18, 9e18)));
        return integers(input.type, shape, values);
      }
      return reals(input.type, shape, std::vector<double>(count, pin->second));
    }
    if (!is_integer_type(input.type) && !is_real_type(input.type))
      problems_.add(what + " is " + (input.type.empty() ? "no tensor" : input.type));
    std::size_t count = 1;
    for (const std::size_t extent : shape) {
      if (extent == 0 || count > (std::size_t{1} << 24) / extent) {
        problems_.add(what + ": " + to_string(shape) + " is outside 1 to 16777216 values");
        return Value();
      }
      count *= extent;
    }
    Shape own = shape;
    if (own.size() > 1 && own.front() == 1) own.erase(own.begin());
    if (own.empty()) own = {1};
    if (own.size() > 8) own = {count};
    const std::int32_t base = layers_.add_port(input.name, own);
    return layers_.all_of(base, shape);
  }
  void check_options() {
    const auto is_input = [&](const std::string& name) {
      return std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(),
                         [&](const OnnxPort& input) { return input.name == name; });
    };
    const auto is_axis = [&](const std::string& name) {
      return std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), [&](const OnnxPort& input) {
        return input.axes && std::any_of(input.axes->begin(), input.axes->end(),
                                         [&](const formats::OnnxAxis& axis) { return axis.name == name; });
      });
    };
    for (const auto& [name, shape] : options_.shapes)
      if (!is_input(name)) problems_.add("--shape: no input is named '" + printable(name) + "'");
    for (const auto& [name, pin] : options_.pins)
      if (!is_input(name) && !is_axis(name))
        problems_.add("--pin: no input and no axis of one is named '" + printable(name) + "'");
  }

  void run(const OnnxGraph& graph, GraphNames& scope) {
    for (std::size_t i = 0; i < graph.nodes.size() && !is_too_large_; ++i) {
      const OnnxNode& node = graph.nodes[i];
      const std::string label = "node " + (node.name.empty() ? std::to_string(i) : "'" + printable(node.name) + "'") +
                                " (" + printable(node.type) + ")";
      std::vector<Value> inputs;
      bool is_spoilt = false;
      for (const std::string& input : node.inputs) {
        const Value* const found = input.empty() ? nullptr : scope.find(input);
        is_spoilt |= !input.empty() && (!found || std::holds_alternative<std::monostate>(*found));
        inputs.push_back(found ? *found : Value());
      }
      std::vector<Value> made(node.outputs.size());
      if (!is_spoilt) {
        auto values = made_by(node, label, inputs, scope);
        if (values)
          std::move(values->begin(),
                    values->begin() + static_cast<std::ptrdiff_t>(std::min(values->size(), made.size())), made.begin());
        else
          add_problem(label, with_pin(node, inputs, values.error()));
      } else if (const Status known = check_operator(node); !known) {
        add_problem(label, known.error());
      }
      if (const Status known = check_attributes(node); !known && check_operator(node))
        add_problem(label, known.error());
      for (std::size_t o = 0; o < made.size(); ++o)
        if (!node.outputs[o].empty()) scope.values[node.outputs[o]] = std::move(made[o]);
    }
  }

  /// The same error; of a comparison with an input of the graph also that a value of that input would decide it.
  Error with_pin(const OnnxNode& node, const std::vector<Value>& inputs, const Error& error) const {
    constexpr std::string_view kDeciding[] = {"Equal", "Greater", "GreaterOrEqual", "If", "Less", "LessOrEqual", "Not"};
    if (std::find(std::begin(kDeciding), std::end(kDeciding), node.type) == std::end(kDeciding)) return error;
    std::string number = "NUMBER";
    for (const Value& value : inputs)
      if (const auto* const known = std::get_if<Constant>(&value); known && known->count() == 1)
        if (const auto values = integers_of(*known); values && values->size() == 1)
          number = std::to_string(values->front());
    for (const formats::OnnxPort& port : model_.graph.inputs)
      if (std::find(node.inputs.begin(), node.inputs.end(), port.name) != node.inputs.end())
        return {error.code(), error.text() + "; --pin " + printable(port.name) + "=" + number +
                                  " makes a constant of the input that it looks at"};
    return error;
  }
  /// Notes a problem; after one of size nothing is looked at, since a small file could have many of them.
  void add_problem(const std::string& label, const Error& error) {
    problems_.add(label + ": " + error.text());
    is_too_large_ |= error.code() == Errc::too_large;
  }

  /// @error unsupported: an operator that nothing reads, whatever its inputs are
  static Status check_operator(const OnnxNode& node) {
    // Two of them are of no other domain.
    const bool is_foreign_alone = node.type == "MultiHeadAttention" || node.type == "GroupQueryAttention";
    const bool is_known_foreign =
        node.domain == "com.microsoft" && (node.type == "RotaryEmbedding" || is_foreign_alone);
    if (!node.domain.empty() && !is_known_foreign)
      return fail(Errc::unsupported, "an operator of domain '" + printable(node.domain) + "'");
    if (node.domain.empty() && is_foreign_alone)
      return fail(Errc::unsupported, "no operator of ONNX itself; com.microsoft has one of this name");
    if (node.type == "Loop" || node.type == "Scan") return fail(Errc::unsupported, "a graph that runs more than once");
    if (!is_known_operator(node.type)) return fail(Errc::unsupported, "no layer does it");
    return {};
  }

  Result<std::vector<Value>> made_by(const OnnxNode& node, const std::string& label, const std::vector<Value>& inputs,
                                     const GraphNames& scope) {
    WEFT_CHECK(check_operator(node));
    if (node.type == "If") return branch(node, inputs, scope);
    if (node.type == "Dropout" && inputs.size() > 2 && !node.inputs[2].empty()) WEFT_CHECK(check_dropout(inputs[2]));
    if (node.type == "Shape" || node.type == "Size") return shape_of(node, inputs);
    std::vector<Operand> operands;
    bool is_known = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto* const known = std::get_if<Constant>(&inputs[i]);
      operands.push_back(known ? Operand{&known->shape, known} : Operand());
      is_known &= known != nullptr || node.inputs[i].empty();
    }
    if (!is_known || (inputs.empty() && node.type != "Constant")) return operators_.make(node, label, inputs);
    if (node.type == "Split") {
      WEFT_TRY(const auto moves, moves_of(node, operands, opset()));
      std::vector<Value> parts;
      for (const Moved& move : moves) {
        WEFT_TRY(parts.emplace_back(), spent(moved(move, operands, 1)));
      }
      return parts;
    }
    WEFT_TRY(Constant made, computed(node, operands, opset()));
    WEFT_TRY(made, spent(std::move(made)));
    return std::vector<Value>{std::move(made)};
  }
  /// Memory of computed constants is bounded by that of the file.
  Result<Constant> spent(Constant made) {
    if (made.owned && made.bytes.size() > budget_)
      return fail(Errc::too_large, "constants that are computed take more memory than the file's");
    if (made.owned) budget_ -= made.bytes.size();
    return made;
  }

  /// @error unsupported: values are dropped when the network runs, or may be
  static Status check_dropout(const Value& trains) {
    const auto* const known = std::get_if<Constant>(&trains);
    if (!known) return fail(Errc::unsupported, "a training_mode that is not known before the network runs");
    WEFT_TRY(const std::vector<std::int64_t> values, integers_of(*known));
    if (std::count(values.begin(), values.end(), 0) == static_cast<std::ptrdiff_t>(values.size())) return {};
    return fail(Errc::unsupported, "training_mode, in which values are dropped");
  }

  Result<std::vector<Value>> shape_of(const OnnxNode& node, const std::vector<Value>& inputs) {
    if (inputs.size() != 1) return fail(Errc::corrupt, "one input is needed");
    if (std::holds_alternative<std::monostate>(inputs[0])) return fail(Errc::corrupt, "input 0 is not given");
    Shape shape;
    if (const auto* known = std::get_if<Constant>(&inputs[0])) shape = known->shape;
    if (const auto* stream = std::get_if<Stream>(&inputs[0])) shape = stream->shape;
    if (const auto* pattern = std::get_if<Pattern>(&inputs[0])) shape = shape_of_part(*pattern);
    std::vector<std::int64_t> extents(shape.begin(), shape.end());
    if (node.type == "Size") {
      std::int64_t count = 1;
      for (const std::int64_t extent : extents) count *= extent;
      return std::vector<Value>{integers("int64", {}, std::vector<std::int64_t>{count})};
    }
    const auto rank = static_cast<std::int64_t>(extents.size());
    WEFT_TRY(std::int64_t start, integer_of(node, "start", 0));
    WEFT_TRY(std::int64_t end, integer_of(node, "end", rank));
    start = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
    end = std::clamp<std::int64_t>(end < 0 ? end + rank : end, start, rank);
    extents = std::vector<std::int64_t>(extents.begin() + start, extents.begin() + end);
    return std::vector<Value>{integers("int64", {extents.size()}, extents)};
  }

  /// The branch that a known condition takes.
  Result<std::vector<Value>> branch(const OnnxNode& node, const std::vector<Value>& inputs, const GraphNames& scope) {
    const auto* const condition = inputs.size() == 1 ? std::get_if<Constant>(&inputs[0]) : nullptr;
    if (!condition || condition->type != "BOOL" || condition->count() != 1)
      return fail(Errc::unsupported, "a condition that is not known before the network runs; --pin may make it so");
    WEFT_TRY(const std::vector<std::int64_t> value, integers_of(*condition));
    const formats::OnnxValue* const attribute = node.find(value[0] != 0 ? "then_branch" : "else_branch");
    const auto* const graph = attribute ? std::get_if<std::shared_ptr<const OnnxGraph>>(attribute) : nullptr;
    if (!graph) return fail(Errc::corrupt, "no graph of the branch that is taken");
    GraphNames inner{&scope, {}};
    for (const formats::Tensor& tensor : (*graph)->initializers)
      inner.values[tensor.name] = Constant{tensor.type, tensor.shape, tensor.bytes};
    run(**graph, inner);
    std::vector<Value> made;
    for (const OnnxPort& output : (*graph)->outputs) {
      const Value* const found = inner.find(output.name);
      made.push_back(found ? *found : Value());
    }
    return made;
  }

  struct Output {
    std::string name;
    Stream stream;
    bool is_state = false;
  };
  void find_outputs(const GraphNames& scope) {
    for (const OnnxPort& output : model_.graph.outputs) {
      const Value* const value = scope.find(output.name);
      if (!value || std::holds_alternative<std::monostate>(*value)) continue;  // its maker was refused
      const std::string what = "output '" + printable(output.name) + "'";
      if (const auto* stream = std::get_if<Stream>(value)) {
        outputs_.push_back({output.name, *stream});
      } else if (const Pattern* const product = part_of(*value, Pattern::Kind::coded_product)) {
        auto made = finished_product(operators_, *product);
        if (made)
          outputs_.push_back({output.name, *std::move(made)});
        else
          problems_.add(what + ": " + made.error().text());
      } else {
        problems_.add(
            what + " is " +
            (std::holds_alternative<Constant>(*value) ? "a constant" : "a part of a function that is not known"));
      }
    }
    if (outputs_.empty() && problems_.empty()) problems_.add("the graph has no outputs");
  }

  /// Inputs that recurrent layers begin with, and outputs that are what they leave, are the network's own state.
  void link_states() {
    std::set<std::int32_t> ports;
    for (const StateLink& link : operators_.states()) ports.insert(link.port);
    std::vector<std::string> links_told;
    for (const std::int32_t port : ports) {
      const std::size_t size = layers_.size_of(port);
      // The next state, place by place.
      std::vector<Chunk> wanted;
      std::size_t at = 0;
      std::vector<StateLink> links;
      for (const StateLink& link : operators_.states())
        if (link.port == port) links.push_back(link);
      std::sort(links.begin(), links.end(), [](const StateLink& a, const StateLink& b) { return a.offset < b.offset; });
      for (const StateLink& link : links) {
        if (link.offset != at) break;
        wanted.push_back(link.after);
        at += link.count;
      }
      const auto is_next = [&](const Output& output) {
        return at == size && std::equal(wanted.begin(), wanted.end(), output.stream.chunks.begin(),
                                        output.stream.chunks.end(), [](const Chunk& a, const Chunk& b) {
                                          return a.base == b.base && a.offset == b.offset && a.count == b.count;
                                        });
      };
      const std::string name = layers_.ports()[static_cast<std::size_t>(~port)].name;
      // Of several that are the same the one named after the input, else the last.
      auto found = outputs_.end();
      for (auto output = outputs_.begin(); output != outputs_.end(); ++output)
        if (!output->is_state && is_next(*output) &&
            (found == outputs_.end() || found->name.find(name) == std::string::npos))
          found = output;
      if (found == outputs_.end()) {
        problems_.add("input '" + printable(name) +
                      "' is the first state of layers, and no output is what all of them leave in its places");
        continue;
      }
      found->is_state = true;
      states_.insert(port);
      links_told.push_back("input '" + name + "' and output '" + found->name + "'");
    }
    // Of a language model they are two for each block.
    constexpr std::size_t kMostTold = 4;
    for (std::size_t i = 0; i < std::min(links_told.size(), kMostTold); ++i)
      notes_.push_back(links_told[i] +
                       " are the network's own state: it begins at 0, or empty, and goes from tick to tick");
    if (links_told.size() > kMostTold)
      notes_.push_back("so are " + std::to_string(links_told.size() - kMostTold) + " other inputs and outputs");
    // Of a lone cell the state is the output too.
    const bool has_others =
        std::any_of(outputs_.begin(), outputs_.end(), [](const Output& output) { return !output.is_state; });
    std::erase_if(outputs_, [&](const Output& output) {
      return output.is_state && (has_others || operators_.is_hidden(output.stream.chunks[0].base));
    });
    if (outputs_.empty()) problems_.add("the graph has no output that is not a state");
  }

  void merge() {
    for (const Output& output : outputs_) {
      for (const Chunk& chunk : output.stream.chunks)
        if (operators_.is_hidden(chunk.base)) {
          problems_.add("output '" + printable(output.name) + "' has a state that a layer keeps, which is no output");
          return;
        }
      auto base = layers_.whole(output.stream, "output '" + output.name + "'");
      if (base && *base < 0) {
        FoundLayer same;
        same.spec.type = "identity";
        same.in = same.out = layers_.shape_of(*base);
        same.node = "output '" + output.name + "'";
        auto made = layers_.add(std::move(same), {layers_.all_of(*base, {})}, {});
        base = made->chunks[0].base;
      }
      if (!base) {
        problems_.add("output '" + printable(output.name) + "': " + base.error().text());
        return;
      }
      made_.push_back(*base);
    }
    const std::vector<std::int32_t> becomes = layers_.merge(made_);
    for (std::int32_t& base : made_) base = becomes[static_cast<std::size_t>(base)];
    // Layers that no output hangs on go.
    is_used_.assign(layers_.layers().size(), false);
    for (const std::int32_t base : made_) is_used_[static_cast<std::size_t>(base)] = true;
    for (std::size_t i = is_used_.size(); i-- > 0;)
      if (is_used_[i])
        for (const std::int32_t source : layers_.layers()[i].sources) {
          if (source >= 0)
            is_used_[static_cast<std::size_t>(source)] = true;
          else
            used_ports_.insert(source);
        }
    constexpr std::pair<std::string_view, const char*> kParts[] = {
        {"batch_norm", ": no convolution or dense layer before it takes it in"},
        {"gated", ": no matrix behind a gated product takes it in"},
        {"rotary", ": rotary positions of values that are no queries or keys of attention"}};
    for (std::size_t i = 0; i < is_used_.size(); ++i)
      for (const auto& [type, why] : kParts)
        if (is_used_[i] && layers_.layers()[i].spec.type == type) problems_.add(layers_.layers()[i].node + why);
    for (std::size_t i = 0; i < is_used_.size(); ++i) {
      const FoundLayer& layer = layers_.layers()[i];
      bool is_lost = false;
      if (is_used_[i] && !stored_encoding(layer.weights, is_lost) && is_lost &&
          std::any_of(layer.weights.begin(), layer.weights.end(),
                      [](const auto& row) { return takes_codes(row.second); }))
        problems_.add(layer.node +
                      ": inputs as int8, and matrices whose codes no type of Weft's holds, or that are of "
                      "several types");
    }
    for (const std::int32_t port : states_)
      if (used_ports_.contains(port))
        problems_.add("input '" + printable(layers_.ports()[static_cast<std::size_t>(~port)].name) +
                      "' is a state and read by other layers too");
  }

  static std::string name_of(std::size_t number) { return "layer" + std::to_string(number); }

  /// Layers with their sources, numbered anew.
  Result<GraphNetwork> finish(const std::string& name) {
    GraphNetwork network;
    network.notes = notes_;
    network.spec.name = name;
    for (std::size_t i = 0; i < layers_.ports().size(); ++i) {
      const mesh::PortSpec& port = layers_.ports()[i];
      const std::int32_t base = ~static_cast<std::int32_t>(i);
      if (port.name.empty() || states_.contains(base)) continue;
      if (used_ports_.contains(base))
        network.spec.inputs.push_back(port);
      else
        network.notes.push_back("input '" + port.name + "' is read by nothing");
    }
    std::vector<std::size_t> numbers(is_used_.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < is_used_.size(); ++i)
      if (is_used_[i]) numbers[i] = count++;
    if (network.spec.inputs.empty()) return fail(Errc::unsupported, "graph: no input reaches an output");
    const bool is_one =
        network.spec.inputs.size() == 1 && made_.size() == 1 && static_cast<std::size_t>(made_[0]) + 1 == last_used();
    mesh::LayerSpec container;
    for (std::size_t i = 0; i < is_used_.size(); ++i) {
      if (!is_used_[i]) continue;
      mesh::LayerSpec spec = spec_of(i, numbers, is_one, network.notes);
      const auto number = static_cast<std::uint32_t>(numbers[i]);
      const std::string before = is_one ? "layers[" + std::to_string(number) + "]." : "";
      for (auto& [parameter, weight] : layers_.layers()[i].weights)
        if (layers_.layers()[i].part == FoundLayer::Part::none)
          network.weights[{is_one ? 0 : number, before + parameter}] = weight;
      if (!is_one) spec.at = {number, 0, 0, 0};
      (is_one ? container.layers : network.spec.layers).push_back(std::move(spec));
    }
    if (is_one) {
      container.type = "sequential";
      container.from = {mesh::Source(network.spec.inputs[0].name)};
      network.spec.layers.push_back(std::move(container));
    }
    network.spec.grid = {.z = static_cast<std::uint32_t>(is_one ? 1 : count), .y = 1, .x = 1, .layers = 1};
    for (std::size_t o = 0; o < made_.size(); ++o)
      network.spec.outputs.push_back(
          {outputs_[o].name,
           {static_cast<std::uint32_t>(is_one ? 0 : numbers[static_cast<std::size_t>(made_[o])]), 0, 0, 0}});
    return network;
  }
  std::size_t last_used() const {
    std::size_t last = 0;
    for (std::size_t i = 0; i < is_used_.size(); ++i)
      if (is_used_[i]) last = i + 1;
    return last;
  }
  /// A layer whose matrices are codes keeps them, and takes inputs as the graph does.
  void set_type(const FoundLayer& layer, mesh::LayerSpec& spec, std::vector<std::string>& notes) const {
    bool is_lost = false;
    const auto stored = stored_encoding(layer.weights, is_lost);
    if (is_lost)
      notes.push_back(layer.node +
                      ": codes of DequantizeLinear become float32: no type of Weft's holds them, or the "
                      "layer's matrices are of several");
    if (!stored) return;
    if (options_.keeps_codes) spec.activations = Activations::float32;
    for (const auto& [parameter, weight] : layer.weights)
      if (takes_codes(weight)) spec.activations = weight.values.quantized->inputs;
    if (!options_.keeps_codes) return;
    spec.dtype = stored->dtype;
    spec.granularity = stored->granularity;
    notes.push_back(layer.node + ": codes stay as " + to_string(*stored) + ", inputs as " +
                    std::string(name(spec.activations)));
  }

  mesh::LayerSpec spec_of(std::size_t i, const std::vector<std::size_t>& numbers, bool is_one,
                          std::vector<std::string>& notes) {
    const FoundLayer& layer = layers_.layers()[i];
    mesh::LayerSpec spec = layer.spec;
    set_type(layer, spec, notes);
    if (is_one) spec.name = name_of(numbers[i]);
    for (const std::int32_t source : layer.sources) {
      if (source < 0)
        spec.from.push_back(is_one ? mesh::Source("input")
                                   : mesh::Source(layers_.ports()[static_cast<std::size_t>(~source)].name));
      else if (is_one)
        spec.from.push_back(mesh::Source(name_of(numbers[static_cast<std::size_t>(source)])));
      else
        spec.from.push_back(
            mesh::Source(Coord{static_cast<std::uint32_t>(numbers[static_cast<std::size_t>(source)]), 0, 0, 0}));
    }
    const bool is_concat = layer.sources.size() > 1 && spec.combine == mesh::Combine::concat && spec.type != "residual";
    std::size_t width = 0;
    for (const std::int32_t source : layer.sources) width += layers_.size_of(source);
    const Shape seen = is_concat ? Shape{width} : layers_.shape_of(layer.sources[0]);
    if (seen != layer.in) spec.view = layer.in;
    return spec;
  }

  const formats::OnnxModel& model_;
  const GraphOptions& options_;
  LayerList layers_;
  Operators operators_;
  Problems problems_;
  std::vector<std::string> notes_;
  std::vector<Output> outputs_;
  std::vector<std::int32_t> made_;  // layers of the outputs
  std::set<std::int32_t> states_, used_ports_;
  std::vector<bool> is_used_;
  std::size_t budget_ = 0;
  bool is_too_large_ = false;
};

}  // namespace

Result<GraphNetwork> network_of(const formats::OnnxFile& file, const std::string& name, const GraphOptions& options) {
  return NetworkMaker(file, options).make(name);
}

}  // namespace weft::models::onnx
