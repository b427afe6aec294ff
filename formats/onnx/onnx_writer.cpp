// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/internal/onnx_limits.hpp"
#include "formats/onnx/internal/protobuf.hpp"
#include "formats/onnx/onnx.hpp"
#include "storage/contained_file.hpp"

#include "core/printable.hpp"

#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft::formats {

using namespace onnx;

namespace {

Result<std::size_t> onnx_size_of(const Tensor& tensor, const OnnxType& type) {
  std::size_t bits = type.bits;
  for (const std::size_t extent : tensor.shape) {
    if (extent != 0 && bits > (std::size_t{1} << 46) / extent)
      return fail(Errc::too_large, "tensor '" + printable(tensor.name) + "': " + to_string(tensor.shape));
    bits *= extent;
  }
  return (bits + 7) / 8;
}

/// The fields of a tensor but for its bytes, which follow as the last one, or lie in another file.
struct TensorHead {
  MessageWriter fields;
  std::size_t bytes = 0;
  bool is_external = false;
};
/// The next tensor's place in another file.
struct NextPlace {
  std::string location;
  std::uint64_t offset = 0;
};

void write_place(const NextPlace& place, std::size_t bytes, MessageWriter& to) {
  for (const auto& [key, value] :
       {std::pair("location", place.location), std::pair("offset", std::to_string(place.offset)),
        std::pair("length", std::to_string(bytes))}) {
    MessageWriter entry;
    entry.text(1, key);
    entry.text(2, value);
    to.message(13, entry);
  }
  to.varint(14, 1);
}

/// `place`: of a tensor that is large; null: none has one.
Result<TensorHead> tensor_head(const Tensor& tensor, const NextPlace* place = nullptr) {
  const OnnxType* const type = find_onnx_type(tensor.type);
  if (!type || type->bits == 0)
    return fail(Errc::unknown_name,
                "tensor '" + printable(tensor.name) + "': ONNX has no numbers of type " + in_quotes(tensor.type));
  TensorHead head;
  WEFT_TRY(head.bytes, onnx_size_of(tensor, *type));
  if (!tensor.produce && tensor.bytes.size() != head.bytes)
    return fail(Errc::shape_mismatch, "tensor '" + printable(tensor.name) + "': " + tensor.type + " " +
                                          to_string(tensor.shape) + " takes " + std::to_string(head.bytes) +
                                          " bytes, found " + std::to_string(tensor.bytes.size()));
  std::vector<std::int64_t> dims(tensor.shape.begin(), tensor.shape.end());
  if (!dims.empty()) head.fields.packed(1, dims);
  head.fields.varint(2, static_cast<std::uint64_t>(type->number));
  if (!tensor.name.empty()) head.fields.text(8, tensor.name);
  head.is_external = place && head.bytes >= kLeastExternal;
  if (head.is_external)
    write_place(*place, head.bytes, head.fields);
  else
    head.fields.begin_bytes(9, head.bytes);
  return head;
}

MessageWriter port_message(const OnnxPort& port) {
  MessageWriter tensor;
  if (const OnnxType* const type = find_onnx_type(port.type))
    tensor.varint(1, static_cast<std::uint64_t>(type->number));
  else if (!port.type.empty())
    tensor.varint(1, std::strtoull(port.type.c_str(), nullptr, 10));  // one that is not known: its number
  if (port.axes) {
    MessageWriter shape;
    for (const OnnxAxis& axis : *port.axes) {
      MessageWriter dim;
      if (axis.extent)
        dim.varint(1, static_cast<std::uint64_t>(*axis.extent));
      else if (!axis.name.empty())
        dim.text(2, axis.name);
      shape.message(1, dim);
    }
    tensor.message(2, shape);
  }
  MessageWriter written, type;
  type.message(1, tensor);
  written.text(1, port.name);
  if (!port.type.empty() || port.axes) written.message(2, type);
  return written;
}

Result<MessageWriter> graph_message(const OnnxGraph& graph);

Result<MessageWriter> attribute_message(const std::string& name, const OnnxValue& value) {
  MessageWriter written;
  written.text(1, name);
  WEFT_CHECK(std::visit(
      [&](const auto& held) -> Status {
        using Held = std::decay_t<decltype(held)>;
        std::uint64_t type = 0;
        if constexpr (std::is_same_v<Held, float>) {
          written.real(2, held), type = 1;
        } else if constexpr (std::is_same_v<Held, std::int64_t>) {
          written.varint(3, static_cast<std::uint64_t>(held)), type = 2;
        } else if constexpr (std::is_same_v<Held, std::string>) {
          written.text(4, held), type = 3;
        } else if constexpr (std::is_same_v<Held, Tensor>) {
          WEFT_TRY(const TensorHead head, tensor_head(held));
          written.text(5, head.fields.bytes() + std::string(as_text(held.bytes))), type = 4;
        } else if constexpr (std::is_same_v<Held, std::shared_ptr<const OnnxGraph>>) {
          WEFT_TRY(const MessageWriter graph, graph_message(*held));
          written.message(6, graph), type = 5;
        } else if constexpr (std::is_same_v<Held, std::vector<float>>) {
          written.packed(7, held), type = 6;
        } else if constexpr (std::is_same_v<Held, std::vector<std::int64_t>>) {
          written.packed(8, held), type = 7;
        } else {
          for (const std::string& text : held) written.text(9, text);
          type = 8;
        }
        written.varint(20, type);
        return {};
      },
      value));
  return written;
}

Status write_nodes(const OnnxGraph& graph, MessageWriter& written) {
  for (const OnnxNode& node : graph.nodes) {
    MessageWriter message;
    for (const std::string& input : node.inputs) message.text(1, input);
    for (const std::string& output : node.outputs) message.text(2, output);
    if (!node.name.empty()) message.text(3, node.name);
    message.text(4, node.type);
    for (const auto& [name, value] : node.attributes) {
      WEFT_TRY(const MessageWriter attribute, attribute_message(name, value));
      message.message(5, attribute);
    }
    if (!node.domain.empty()) message.text(7, node.domain);
    written.message(1, message);
  }
  if (!graph.name.empty()) written.text(2, graph.name);
  return {};
}

MessageWriter ports_message(const OnnxGraph& graph) {
  MessageWriter written;
  for (const OnnxPort& input : graph.inputs) written.message(11, port_message(input));
  for (const OnnxPort& output : graph.outputs) written.message(12, port_message(output));
  return written;
}

/// A graph inside an attribute: its tensors are in memory.
Result<MessageWriter> graph_message(const OnnxGraph& graph) {
  MessageWriter written;
  WEFT_CHECK(write_nodes(graph, written));
  for (const Tensor& tensor : graph.initializers) {
    WEFT_TRY(const TensorHead head, tensor_head(tensor));
    written.text(5, head.fields.bytes() + std::string(as_text(tensor.bytes)));
  }
  written.append(ports_message(graph));
  return written;
}

MessageWriter model_end(const OnnxModel& model) {
  MessageWriter written;
  for (const auto& [domain, version] : model.opsets) {
    MessageWriter opset;
    if (!domain.empty()) opset.text(1, domain);
    opset.varint(2, static_cast<std::uint64_t>(version));
    written.message(8, opset);
  }
  for (const auto& [key, value] : model.metadata) {
    MessageWriter pair;
    pair.text(1, key);
    pair.text(2, value);
    written.message(14, pair);
  }
  return written;
}

/// Texts and tensors, one after the other.
struct Layout {
  struct Placed {
    std::string before;
    const Tensor* tensor;
    std::size_t bytes;
  };
  std::shared_ptr<const std::vector<Tensor>> tensors;  // those of `placed` are among them
  std::vector<Placed> placed;
  std::string end;
  std::uint64_t size = 0;

  void add(std::string_view text) {
    end += text;
    size += text.size();
  }
  void add(const Tensor& tensor, std::size_t bytes) {
    placed.push_back({std::exchange(end, {}), &tensor, bytes});
    size += bytes;
  }
  void begin_with(std::string text) {
    size += text.size();
    std::string& first = placed.empty() ? end : placed.front().before;
    first = std::move(text) + first;
  }
};

Status produce(const Layout& layout, const ByteSource::Sink& sink) {
  for (const Layout::Placed& each : layout.placed) {
    WEFT_CHECK(sink(as_bytes(each.before)));
    const Tensor& tensor = *each.tensor;
    std::size_t made = 0;
    const ByteSource::Sink counted = [&](ByteSpan part) {
      made += part.size();
      return sink(part);
    };
    WEFT_CHECK(tensor.produce ? tensor.produce(counted) : each_part(tensor.bytes, 1, counted));
    if (made != each.bytes)
      return fail(Errc::shape_mismatch, "tensor '" + printable(tensor.name) + "': " + std::to_string(made) +
                                            " bytes were made, " + std::to_string(each.bytes) + " expected");
  }
  return sink(as_bytes(layout.end));
}

ByteSource source_of(Layout layout) {
  const std::uint64_t size = layout.size;
  return {size, [held = std::make_shared<const Layout>(std::move(layout))](const ByteSource::Sink& sink) {
            return produce(*held, sink);
          }};
}

struct FileLayouts {
  Layout graph, data;
};

/// `location`: of large tensors, or empty.
Result<FileLayouts> lay_out(const OnnxModel& model, const std::shared_ptr<const std::vector<Tensor>>& tensors,
                            const std::string& location) {
  FileLayouts files;
  files.graph.tensors = files.data.tensors = tensors;
  for (const Tensor& tensor : *tensors) {
    const NextPlace place{location,
                          (files.data.size + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment};
    WEFT_TRY(const TensorHead head, tensor_head(tensor, location.empty() ? nullptr : &place));
    MessageWriter key;
    key.begin_bytes(5, head.fields.bytes().size() + (head.is_external ? 0 : head.bytes));
    files.graph.add(key.bytes() + head.fields.bytes());
    if (head.is_external) files.data.add(std::string(place.offset - files.data.size, '\0'));
    (head.is_external ? files.data : files.graph).add(tensor, head.bytes);
  }
  MessageWriter nodes, begin;
  WEFT_CHECK(write_nodes(model.graph, nodes));
  files.graph.add(ports_message(model.graph).bytes());
  begin.varint(1, static_cast<std::uint64_t>(model.ir_version));
  if (!model.producer.empty()) begin.text(2, model.producer);
  begin.begin_bytes(7, nodes.bytes().size() + files.graph.size);
  files.graph.begin_with(begin.bytes() + nodes.bytes());
  files.graph.add(model_end(model).bytes());
  return files;
}

}  // namespace

Result<OnnxSources> onnx_sources(OnnxModel model, const std::string& location, bool is_external) {
  const auto tensors = std::make_shared<const std::vector<Tensor>>(std::move(model.graph.initializers));
  FileLayouts files;
  if (!is_external) {
    WEFT_TRY(files, lay_out(model, tensors, ""));
  }
  OnnxSources made;
  if (is_external || (files.graph.size > kMaxFileSize && !location.empty())) {
    WEFT_CHECK(storage::check_location(location));
    WEFT_TRY(files, lay_out(model, tensors, location));
  }
  for (const auto& [layout, most] : {std::pair(&files.graph, kMaxFileSize), std::pair(&files.data, kMaxExternalSize)})
    if (layout->size > most)
      return fail(Errc::too_large, (layout == &files.data ? "external data of " : "an ONNX file of ") +
                                       std::to_string(layout->size) + " bytes, at most " + std::to_string(most));
  if (files.data.size != 0) made.data = source_of(std::move(files.data));
  made.graph = source_of(std::move(files.graph));
  return made;
}

Result<ByteSource> onnx_source(OnnxModel model) {
  WEFT_TRY(OnnxSources made, onnx_sources(std::move(model), "", false));
  return std::move(made.graph);
}

}  // namespace weft::formats
