// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx.hpp"

#include "formats/joined_tensor_file.hpp"
#include "formats/mapped_tensor_file.hpp"
#include "formats/onnx/internal/onnx_limits.hpp"
#include "formats/onnx/internal/onnx_tensor.hpp"
#include "formats/onnx/internal/protobuf.hpp"
#include "storage/contained_file.hpp"
#include "storage/file_system.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace weft::formats {

using namespace onnx;

namespace {

/// Tensors of one of the files.
class TensorPart final : public MappedTensorFile {
 public:
  TensorPart(storage::MappedFile file, std::vector<Tensor> tensors)
      : MappedTensorFile(std::move(file), std::move(tensors)) {}
};

/// Calls visit(field) for each field of a message.
template <class Visit>
Status each_field(ByteSpan message, const Visit& visit) {
  FieldReader in(message);
  while (!in.at_end()) {
    WEFT_TRY(const Field field, in.next());
    WEFT_CHECK(visit(field));
  }
  return {};
}

/// Names that nodes may read, scope by scope: a graph inside sees those of the graphs around it.
class KnownNames {
 public:
  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  bool knows(const std::string& name) const {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const auto& scope) { return scope.contains(name); });
  }
  Status define(const std::string& name) {
    if (knows(name)) return fail(Errc::duplicate_name, "'" + printable(name) + "' is made twice");
    scopes_.back().insert(name);
    return {};
  }
  void allow(const std::string& name) { scopes_.back().insert(name); }

 private:
  std::vector<std::unordered_set<std::string>> scopes_;
};

}  // namespace

/// Turns the messages of a file into a model.
class OnnxDecoder {
 public:
  OnnxDecoder(storage::MappedFile file, const OpenExternal& open) : file_(std::move(file)), open_(open) {}

  Result<OnnxFile> decode() && {
    if (file_.size() > kMaxFileSize)
      return fail(Errc::too_large, std::to_string(file_.size()) + " bytes, at most " + std::to_string(kMaxFileSize));
    bool has_graph = false;
    WEFT_CHECK(each_field(file_.bytes(), [&](const Field& field) -> Status {
      if (field.number != 7) return read_model_field(field);
      if (has_graph) return fail(Errc::corrupt, "two graphs");
      has_graph = true;
      WEFT_TRY(const ByteSpan message, field.message());
      return read_graph(message, model_->graph, 1);
    }));
    if (!has_graph || model_->opsets.empty())
      return fail(Errc::parse_failed,
                  has_graph ? "no version of operators (opset_import)" : "not an ONNX file: it has no graph");
    WEFT_CHECK(place_external());
    return finish();
  }

 private:
  Status read_model_field(const Field& field) {
    switch (field.number) {
      case 1: {
        WEFT_TRY(model_->ir_version, field.integer());
        return {};
      }
      case 2: {
        WEFT_TRY(model_->producer, name(field));
        return {};
      }
      case 8:
        return read_opset(field);
      case 14:
        return read_metadata(field);
      case 25:
        return fail(Errc::unsupported, "functions of the model's own");
      default:
        return {};
    }
  }
  Status read_opset(const Field& field) {
    WEFT_TRY(const ByteSpan message, field.message());
    std::string domain;
    std::int64_t version = 0;
    WEFT_CHECK(each_field(message, [&](const Field& part) -> Status {
      if (part.number == 1) {
        WEFT_TRY(domain, name(part));
      } else if (part.number == 2) {
        WEFT_TRY(version, part.integer());
      }
      return {};
    }));
    if (domain == "ai.onnx") domain.clear();
    if (!model_->opsets.emplace(domain, version).second)
      return fail(Errc::duplicate_name, "operators of domain '" + printable(domain) + "' are imported twice");
    return {};
  }
  Status read_metadata(const Field& field) {
    WEFT_TRY(const ByteSpan message, field.message());
    auto& [key, value] = model_->metadata.emplace_back();
    return each_field(message, [&, &key = key, &value = value](const Field& part) -> Status {
      if (part.number == 1) {
        WEFT_TRY(key, name(part));
      } else if (part.number == 2) {
        WEFT_TRY(const std::string_view text, part.text());
        value = text;
      }
      return {};
    });
  }

  Result<std::string> name(const Field& field) {
    WEFT_TRY(const std::string_view text, field.text());
    if (text.size() > kMaxNameSize)
      return fail(Errc::too_large,
                  "a name of " + std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxNameSize));
    WEFT_CHECK(count_item());
    return std::string(text);
  }
  Status count_item() {
    if (++items_ > kMaxItems)
      return fail(Errc::too_large, "more than " + std::to_string(kMaxItems) + " names, attributes and axes");
    return {};
  }

  Status read_graph(ByteSpan message, OnnxGraph& graph, std::size_t depth) {
    if (depth > kMaxGraphDepth)
      return fail(Errc::too_large, "graphs more than " + std::to_string(kMaxGraphDepth) + " inside one another");
    scopes_.enter();
    // Nodes may stand before the initializers that they read.
    WEFT_CHECK(each_field(message, [&](const Field& field) { return read_graph_field(field, graph, depth); }));
    for (const OnnxPort& input : graph.inputs)
      if (std::none_of(graph.initializers.begin(), graph.initializers.end(),
                       [&](const Tensor& tensor) { return tensor.name == input.name; }))
        WEFT_CHECK(scopes_.define(input.name));
    WEFT_CHECK(each_field(message, [&](const Field& field) -> Status {
      if (field.number != 1) return {};
      WEFT_TRY(const ByteSpan node, field.message());
      if (++nodes_ > kMaxNodes) return fail(Errc::too_large, "more than " + std::to_string(kMaxNodes) + " nodes");
      Status read = read_node(node, graph.nodes.emplace_back(), depth);
      if (!read) {
        const OnnxNode& bad = graph.nodes.back();
        return fail(std::move(read).error().within("node " + std::to_string(graph.nodes.size() - 1) + " '" +
                                                   printable(bad.name) + "' (" + printable(bad.type) + ")"));
      }
      return {};
    }));
    for (const OnnxPort& output : graph.outputs)
      if (!scopes_.knows(output.name))
        return fail(Errc::corrupt, "output '" + printable(output.name) + "' is made by nothing");
    scopes_.leave();
    return {};
  }
  Status read_graph_field(const Field& field, OnnxGraph& graph, std::size_t depth) {
    switch (field.number) {
      case 2: {
        WEFT_TRY(graph.name, name(field));
        return {};
      }
      case 5: {
        WEFT_TRY(Tensor tensor, read_tensor_of(field, depth == 1));
        WEFT_CHECK(scopes_.define(tensor.name));
        if (pending_.size() != placed_) placed_ = pending_.size(), pending_.back().index = graph.initializers.size();
        graph.initializers.push_back(std::move(tensor));
        return {};
      }
      case 11:
        return read_port(field, graph.inputs.emplace_back());
      case 12:
        return read_port(field, graph.outputs.emplace_back());
      case 15:
        return fail(Errc::unsupported, "sparse tensors");
      default:
        return {};
    }
  }

  Status read_port(const Field& field, OnnxPort& port) {
    WEFT_TRY(const ByteSpan message, field.message());
    return each_field(message, [&](const Field& part) -> Status {
      if (part.number == 1) {
        WEFT_TRY(port.name, name(part));
        return {};
      }
      if (part.number != 2) return {};
      WEFT_TRY(const ByteSpan type, part.message());
      return each_field(type, [&](const Field& kind) -> Status {
        if (kind.number != 1) return {};
        WEFT_TRY(const ByteSpan tensor, kind.message());
        return each_field(tensor, [&](const Field& said) { return read_tensor_type(said, port); });
      });
    });
  }
  Status read_tensor_type(const Field& field, OnnxPort& port) {
    if (field.number == 1) {
      WEFT_TRY(const std::int64_t number, field.integer());
      const OnnxType* const type = find_onnx_type(number);
      port.type = type ? std::string(type->name) : std::to_string(static_cast<std::uint64_t>(number));
      return {};
    }
    if (field.number != 2) return {};
    WEFT_TRY(const ByteSpan shape, field.message());
    port.axes.emplace();
    return each_field(shape, [&](const Field& axis) -> Status {
      if (axis.number != 1) return {};
      WEFT_TRY(const ByteSpan message, axis.message());
      WEFT_CHECK(count_item());
      OnnxAxis& read = port.axes->emplace_back();
      return each_field(message, [&](const Field& said) -> Status {
        if (said.number == 1) {
          WEFT_TRY(read.extent, said.integer());
        } else if (said.number == 2) {
          WEFT_TRY(read.name, name(said));
        }
        return {};
      });
    });
  }

  Status read_node(ByteSpan message, OnnxNode& node, std::size_t depth) {
    WEFT_CHECK(each_field(message, [&](const Field& field) -> Status {
      std::string* text = nullptr;
      switch (field.number) {
        case 1:
          text = &node.inputs.emplace_back();
          break;
        case 2:
          text = &node.outputs.emplace_back();
          break;
        case 3:
          text = &node.name;
          break;
        case 4:
          text = &node.type;
          break;
        case 7:
          text = &node.domain;
          break;
        default:
          return {};
      }
      WEFT_TRY(*text, name(field));
      return {};
    }));
    if (node.domain == "ai.onnx") node.domain.clear();
    for (const std::string& input : node.inputs)
      if (!input.empty() && !scopes_.knows(input))
        return fail(Errc::corrupt, "reads '" + printable(input) + "', which nothing before it makes");
    WEFT_CHECK(each_field(message, [&](const Field& field) -> Status {
      return field.number == 5 ? read_attribute(field, node, depth) : Status();
    }));
    for (const std::string& output : node.outputs)
      if (!output.empty()) WEFT_CHECK(scopes_.define(output));
    return {};
  }

  /// An attribute's fields: which of them counts is said by its type, or, in old files, by which is there.
  struct AttributeParts {
    std::string name;
    std::int64_t type = 0;
    std::uint32_t last = 0;  // field that a value was in
    float number = 0;
    std::int64_t integer = 0;
    std::string text;
    std::optional<Tensor> tensor;
    std::shared_ptr<OnnxGraph> graph;
    std::vector<float> numbers;
    std::vector<std::int64_t> integers;
    std::vector<std::string> texts;
  };
  Status read_attribute(const Field& field, OnnxNode& node, std::size_t depth) {
    WEFT_TRY(const ByteSpan message, field.message());
    WEFT_CHECK(count_item());
    AttributeParts parts;
    WEFT_CHECK(each_field(message, [&](const Field& part) { return read_attribute_field(part, parts, depth); }));
    if (node.find(parts.name))
      return fail(Errc::duplicate_name, "attribute '" + printable(parts.name) + "' is there twice");
    constexpr std::uint32_t kFieldOf[] = {0, 2, 3, 4, 5, 6, 7, 8, 9};
    if (parts.type < 0 || parts.type > 8)
      return fail(Errc::unsupported, "attribute '" + printable(parts.name) + "' of type " + std::to_string(parts.type));
    const std::uint32_t counts = parts.type != 0 ? kFieldOf[parts.type] : parts.last;
    if ((parts.tensor && counts != 5) || (parts.graph && counts != 6))
      return fail(Errc::corrupt, "attribute '" + printable(parts.name) + "' of type " + std::to_string(parts.type) +
                                     " holds " + (parts.graph ? "a graph" : "a tensor"));
    if (parts.tensor && node.type == "Constant" && parts.name == "value" && node.outputs.size() == 1)
      note_constant(node.outputs[0], *parts.tensor);
    auto& value = node.attributes.emplace_back(parts.name, OnnxValue()).second;
    switch (counts) {
      case 2:
        value = parts.number;
        break;
      case 3:
        value = parts.integer;
        break;
      case 4:
        value = std::move(parts.text);
        break;
      case 5:
        if (!parts.tensor) return fail(Errc::corrupt, "attribute '" + printable(parts.name) + "' has no tensor");
        value = *std::move(parts.tensor);
        break;
      case 6:
        if (!parts.graph) return fail(Errc::corrupt, "attribute '" + printable(parts.name) + "' has no graph");
        value = std::shared_ptr<const OnnxGraph>(std::move(parts.graph));
        break;
      case 7:
        value = std::move(parts.numbers);
        break;
      case 8:
        value = std::move(parts.integers);
        break;
      case 9:
        value = std::move(parts.texts);
        break;
      default:
        return fail(Errc::corrupt, "attribute '" + printable(parts.name) + "' has no value");
    }
    return {};
  }
  Status read_attribute_field(const Field& field, AttributeParts& parts, std::size_t depth) {
    if (field.number >= 2 && field.number <= 9) parts.last = field.number;
    switch (field.number) {
      case 1: {
        WEFT_TRY(parts.name, name(field));
        return {};
      }
      case 2: {
        WEFT_TRY(parts.number, field.real());
        return {};
      }
      case 3: {
        WEFT_TRY(parts.integer, field.integer());
        return {};
      }
      case 4: {
        WEFT_TRY(const std::string_view text, field.text());
        parts.text = text;
        return {};
      }
      case 5: {
        if (parts.tensor) return fail(Errc::corrupt, "two tensors in an attribute");
        WEFT_TRY(parts.tensor, read_tensor_of(field, false));
        return {};
      }
      case 6: {
        WEFT_TRY(const ByteSpan graph, field.message());
        if (parts.graph) return fail(Errc::corrupt, "two graphs in an attribute");
        parts.graph = std::make_shared<OnnxGraph>();
        return read_graph(graph, *parts.graph, depth + 1);
      }
      case 7:
        return add_floats(field, parts.numbers);
      case 8:
        return add_varints(field, parts.integers);
      case 9: {
        WEFT_TRY(parts.texts.emplace_back(), name(field));
        return {};
      }
      case 20: {
        WEFT_TRY(parts.type, field.integer());
        return {};
      }
      case 21:
        return fail(Errc::unsupported, "an attribute of a function");
      default:
        return {};
    }
  }

  /// A tensor whose bytes are in the file, or, of the graph's initializers, still to be found.
  Result<Tensor> read_tensor_of(const Field& field, bool may_be_external) {
    WEFT_TRY(const ByteSpan message, field.message());
    if (++tensors_ > kMaxTensors) return fail(Errc::too_large, "more than " + std::to_string(kMaxTensors) + " tensors");
    WEFT_TRY(TensorMessage read, read_tensor(message));
    if (read.external && !may_be_external)
      return fail(Errc::unsupported, "tensor '" + printable(read.tensor.name) +
                                         "': external data outside the initializers of the file's own graph");
    if (read.external) pending_.push_back({0, read.size, *std::move(read.external)});
    if (read.decoded) decoded_.push_back(*std::move(read.decoded));
    return std::move(read.tensor);
  }
  void note_constant(const std::string& name, const Tensor& tensor) {
    Tensor named = tensor;
    named.name = name;
    constants_.push_back(std::move(named));
  }

  struct PendingTensor {
    std::size_t index = 0;  // of the graph's initializers
    std::size_t size = 0;
    ExternalData data;
  };
  Status place_external() {
    std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges;
    for (const PendingTensor& pending : pending_) {
      Tensor& tensor = model_->graph.initializers[pending.index];
      if (Status placed = place(pending, tensor, ranges); !placed)
        return fail(std::move(placed).error().within("tensor '" + printable(tensor.name) + "'"));
    }
    for (auto& [location, used] : ranges) {
      std::sort(used.begin(), used.end());
      for (std::size_t i = 1; i < used.size(); ++i)
        if (used[i] != used[i - 1] && used[i].first < used[i - 1].second)
          return fail(Errc::corrupt, "two tensors share a part of " + in_quotes(location) + ": bytes " +
                                         std::to_string(used[i].first) + " to " + std::to_string(used[i - 1].second));
    }
    return {};
  }
  Status place(const PendingTensor& pending, Tensor& tensor,
               std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>>& ranges) {
    const ExternalData& data = pending.data;
    if (!open_)
      return fail(Errc::unsupported, "its bytes are in " + in_quotes(data.location) + ", and only one file is read");
    auto file = external_.find(data.location);
    if (file == external_.end()) {
      WEFT_TRY(storage::MappedFile opened, open_(data.location));
      file = external_.emplace(data.location, std::move(opened)).first;
    }
    const ByteSpan bytes = file->second.bytes();
    if (data.length && *data.length != pending.size)
      return fail(Errc::corrupt, "external data: length " + std::to_string(*data.length) + ", " + tensor.type + " " +
                                     to_string(tensor.shape) + " takes " + std::to_string(pending.size) + " bytes");
    if (data.offset > bytes.size() || pending.size > bytes.size() - data.offset)
      return fail(Errc::corrupt, "external data: " + std::to_string(pending.size) + " bytes at " +
                                     std::to_string(data.offset) + " leave " + in_quotes(data.location) +
                                     ", which has " + std::to_string(bytes.size()));
    tensor.bytes = bytes.subspan(data.offset, pending.size);
    if (pending.size != 0) ranges[data.location].emplace_back(data.offset, data.offset + pending.size);
    return {};
  }

  /// Tensors by the file that holds their bytes.
  Result<OnnxFile> finish() {
    std::vector<storage::MappedFile> files{file_};
    for (const auto& [location, file] : external_) files.push_back(file);
    std::map<const std::byte*, std::size_t, std::greater<>> begins;
    for (storage::MappedFile& decoded : decoded_) files.push_back(decoded);
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i].size() != 0) begins.emplace(files[i].bytes().data(), i);
    std::vector<std::vector<Tensor>> held(files.size());
    std::unordered_set<std::string> names;
    for (const std::vector<Tensor>* const list : {&model_->graph.initializers, &constants_})
      for (const Tensor& tensor : *list) {
        if (!names.insert(tensor.name).second) continue;  // of two branches of which one is taken
        const auto at = tensor.bytes.empty() ? begins.end() : begins.lower_bound(tensor.bytes.data());
        held[at == begins.end() ? 0 : at->second].push_back(tensor);
      }
    std::vector<std::shared_ptr<const TensorFile>> parts;
    for (std::size_t i = 0; i < files.size(); ++i)
      parts.push_back(std::make_shared<const TensorPart>(std::move(files[i]), std::move(held[i])));
    WEFT_TRY(JoinedTensorFile joined, JoinedTensorFile::join(std::move(parts)));
    return OnnxFile(model_, std::make_shared<const JoinedTensorFile>(std::move(joined)));
  }

  storage::MappedFile file_;
  const OpenExternal& open_;
  std::shared_ptr<OnnxModel> model_ = std::make_shared<OnnxModel>();
  KnownNames scopes_;
  std::vector<storage::MappedFile> decoded_;
  std::map<std::string, storage::MappedFile> external_;
  std::vector<PendingTensor> pending_;
  std::vector<Tensor> constants_;
  std::size_t nodes_ = 0, tensors_ = 0, items_ = 0, placed_ = 0;
};

bool is_onnx(ByteSpan bytes) noexcept {
  // ir_version, a varint below 128, then the producer, the domain, the graph or the operators' versions.
  if (bytes.size() < 4 || bytes[0] != std::byte{0x08} || bytes[1] == std::byte{0} || bytes[1] >= std::byte{32})
    return false;
  constexpr unsigned kNext[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
  return std::find(std::begin(kNext), std::end(kNext), static_cast<unsigned>(bytes[2])) != std::end(kNext);
}

Result<OnnxFile> decode_onnx(storage::MappedFile file, std::string_view source_name,
                             const OpenExternal& open_external) {
  auto decoded = OnnxDecoder(file, open_external).decode();
  // A page that could not be read is no fault of what it held.
  WEFT_CHECK(file.intact());
  if (!decoded) return fail(std::move(decoded).error().within(source_name));
  return decoded;
}

Result<OnnxFile> load_onnx(storage::FileSystem& files, const std::string& path, std::vector<std::string>* external) {
  WEFT_TRY(storage::MappedFile file, files.map(path, kMaxFileSize));
  const OpenExternal open = [external, folder = storage::parent_path(path)](const std::string& location) {
    if (external) external->push_back(folder + "/" + location);
    return storage::map_contained(folder, location, kMaxExternalSize);
  };
  return decode_onnx(std::move(file), path, open);
}

}  // namespace weft::formats
